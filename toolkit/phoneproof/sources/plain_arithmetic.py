"""Is this text, which another program is going to evaluate, nothing but arithmetic on lengths?"""

import ast
import re
from typing import Final

_FUNCTIONS: Final = re.compile(
    "FloorDiv|ModularIndexing|Where|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift"
    "|PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncToFloat|TruncToInt"
    "|RoundToInt|RoundDecimal|ToFloat|Identity|Max|Min|Abs|Add|Mul|Pow|Rational|Integer|Float|floor|ceiling"
    "|Equality|Unequality|StrictLessThan|LessThan|StrictGreaterThan|GreaterThan|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not"
    "|Symbol|max|min|abs|int"
)
"""Of sympy and of torch.utils._sympy.functions: none runs a text. Symbol's only text is a symbol's name."""

_METHODS: Final = frozenset({"size", "stride", "storage_offset", "dim"})
_SYMBOL: Final = re.compile(r"[a-z]+[0-9]+")
_NAMES: Final = frozenset({"L", "oo", "int_oo", "true", "false", "nan"})
_KNOWN: Final = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.Load, ast.keyword,
)  # fmt: skip


def is_plain_arithmetic(text: str) -> bool:
    """Whether `text` is one expression of numbers, symbols, sizes of inputs and known functions of these.

    Two forms are known: sympy's srepr, as in `Mul(Integer(8), Symbol('s53', positive=True, integer=True))`,
    and guards, as in `L['x'].size()[0] <= 64`.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return _is_plain(tree)


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.Name):
        return node.id in _NAMES or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Subscript):
        return _is_name_of_input(node) or (_is_plain(node.value) and _is_index(node.slice))
    if isinstance(node, ast.Call):
        return _is_plain_call(node)
    return isinstance(node, _KNOWN) and all(_is_plain(child) for child in ast.iter_child_nodes(node))


def _is_name_of_input(node: ast.Subscript) -> bool:
    """L['x'], the inputs of a guard by name."""
    is_inputs = isinstance(node.value, ast.Name) and node.value.id == "L"
    return is_inputs and isinstance(node.slice, ast.Constant) and _is_word(node.slice.value)


def _is_index(node: ast.expr) -> bool:
    """The number of an axis, or the key of an input that is a mapping."""
    return isinstance(node, ast.Constant) and (isinstance(node.value, int) or _is_word(node.value))


def _is_word(value: object) -> bool:
    """A text that stays harmless wherever it is pasted."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.+-]+", value) is not None


def _is_plain_call(node: ast.Call) -> bool:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr in _METHODS and _is_plain(function.value) and all(map(_is_plain, node.args))
    if not isinstance(function, ast.Name) or _FUNCTIONS.fullmatch(function.id) is None:
        return False
    texts = [arg for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if texts and function.id not in {"Symbol", "Float"}:
        return False
    if not all(_is_word(text.value) for text in texts):
        return False
    return all(_is_plain(part) for part in (*node.args, *node.keywords) if part not in texts)
