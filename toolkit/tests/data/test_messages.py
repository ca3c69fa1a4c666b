"""What is wrong is said in sentences, as everywhere."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from phoneproof import data, errors

FILES = sorted(Path(str(data.__path__[0])).glob("*.py"))
ERRORS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.PhoneproofError)
}


def texts(path: Path) -> Iterator[str]:
    """Each text that an error is made with, `{}` for what is filled in."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ERRORS:
            yield from written(node.args[0])
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "what":
            yield from written(node.value)


def written(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.IfExp():
            yield from (*written(value.body), *written(value.orelse))
        case ast.Constant():
            yield str(value.value)
        case ast.JoinedStr():
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in value.values
            )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_text_of_an_error_is_a_sentence(path: Path) -> None:
    for text in texts(path):
        assert text[0].isupper() or text[0] == "{", text
        assert text.endswith("."), text


def test_texts_are_found() -> None:
    assert sum(len(list(texts(path))) for path in FILES) > 80


@pytest.mark.parametrize(
    ("told", "expected"),
    [("No such file.", "No such file"), ("a" * 500, "a" * 200), (" ", ""), ("end. \n", "end")],
)
def test_what_others_say_ends_without_a_full_stop(told: str, expected: str) -> None:
    assert errors.said(ValueError(told)) == expected
