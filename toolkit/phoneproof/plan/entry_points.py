"""Does an entry point exist? Answered without importing its module, which is the user's code."""

import ast
import importlib.util
import sys
from pathlib import Path

from phoneproof.errors import PlanError
from phoneproof.plan.wording import nearest


def check_entry_point(entry_point: str, folder: Path, where: str) -> None:
    """PlanError when the module file of `module:function` is not found, or shows that it has no such name.

    folder: where modules are looked for first. A module without readable Python source, or one that makes
    its names while it runs, passes: only the worker that imports it can tell.
    """
    module, _, function = entry_point.partition(":")
    try:
        source = _source_file(module, folder, where)
    except OSError as error:
        what = f"The module {module[:80]!r} cannot be looked for: {error.strerror}."
        raise PlanError(what, where=where, next_step="Correct its name.") from None
    if source is None:
        return
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        what = f"The module of {entry_point!r} cannot be read: {error}."
        raise PlanError(what, where=where, next_step="Mend the file.", file=str(source)) from None
    except SyntaxError as error:
        what = f"The module of {entry_point!r} is not Python: line {error.lineno}: {error.msg}."
        raise PlanError(what, where=where, next_step="Mend the file.", file=str(source)) from None
    names = _names(tree)
    if names is not None and function not in names:
        known = sorted(name for name in names if not name.startswith("_"))
        step = nearest(function, known) if known else "The module defines no public name."
        raise PlanError(
            f"{module} has no function {function!r}.", where=where, next_step=step, file=str(source)
        )


def entry_point_file(entry_point: str, folder: Path) -> Path | None:
    """The Python file of an entry point's module; None where it has none.

    PlanError as `check_entry_point`.
    """
    return _source_file(entry_point.partition(":")[0], folder, entry_point)


def _source_file(module: str, folder: Path, where: str) -> Path | None:
    parts = module.split(".")
    for base in (folder, *_installed(parts[0])):
        package = base.joinpath(*parts)
        for file in (package.with_name(f"{package.name}.py"), package / "__init__.py"):
            if file.is_file():
                return file
        if package.is_dir() or any(package.parent.glob(f"{package.name}.*.so")):
            return None
    if parts[0] in sys.builtin_module_names:
        return None
    what = f"There is no module {module!r}."
    step = f"Modules are looked for in {folder} first, then among the installed packages."
    raise PlanError(what, where=where, next_step=step)


def _installed(top_level: str) -> tuple[Path, ...]:
    """Folders that hold the top-level module. Finding one imports nothing, as long as its name has no dot."""
    try:
        found = importlib.util.find_spec(top_level)
    except (ImportError, ValueError):
        return ()
    if found is None:
        return ()
    if found.submodule_search_locations is not None:
        return tuple(Path(location).parent for location in found.submodule_search_locations)
    return (Path(found.origin).parent,) if found.has_location and found.origin else ()


def _names(tree: ast.Module) -> set[str] | None:
    """The names that the module binds at its top level, or None when they cannot be known from its text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            if any(alias.name == "*" for alias in node.names):
                return None
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    defined = [
        n for n in _top_level(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    names |= {node.name for node in defined}
    return None if "__getattr__" in names or "globals" in _called(tree) else names


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    """The statements that run when the module is imported: also those inside if, try, with and loops."""
    found: list[ast.stmt] = []
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            todo.extend(ast.iter_child_nodes(node))
    return found


def _called(tree: ast.Module) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
