"""What a PyTorch source model is: a function that gives a module, or an exported program."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from phoneproof.builds.source_facts import OperatorNames, SourceFacts
from phoneproof.protocol.job import FileRef
from phoneproof.protocol.work import Progress
from phoneproof.sources.anatomy_torch import anatomy_torch
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.program_operators import operators_of
from phoneproof.sources.program_running import check_repeatable
from phoneproof.sources.python_module import code_files
from phoneproof.sources.pytorch import export_to
from phoneproof.sources.request import ExportedProgramRequest, PytorchSourceRequest
from phoneproof.sources.source_files import file_reference


def inspect_pytorch(request: PytorchSourceRequest, folder: Path, progress: Progress) -> SourceFacts:
    """Export the module to `folder`/model.pt2 and say what it is. SourceModelError as `export_to`.

    Its files are the user's own Python files that were loaded, and the state.
    """
    progress.say("export")
    source = export_to(request, folder)
    code_folder = Path(request.folder).resolve()
    files = [file_reference(path, code_folder) for path in code_files(request)]
    if request.state is not None:
        files.append(file_reference(Path(request.state).resolve(), code_folder))
    return _facts(source, files, file_reference(source.path, folder))


def inspect_exported_program(request: ExportedProgramRequest, progress: Progress) -> SourceFacts:
    """Read and check the program. SourceModelError as `load_program` and `check_repeatable`."""
    progress.say("inspect")
    source = load_program(request)
    check_repeatable(source, request.path)
    return _facts(source, [file_reference(source.path, source.path.parent)])


def _facts(source: ExportedSource, files: Iterable[FileRef], exported: FileRef | None = None) -> SourceFacts:
    listed = tuple(files)
    program = source.program
    operators = Counter(
        operator_type(str(node.target)) for node in program.graph.nodes if node.op == "call_function"
    )
    weights = (*program.state_dict.values(), *program.constants.values())
    named = operators_of(program.module(check_guards=False)).values()
    return SourceFacts(
        sha256=source.sha256,
        size_bytes=sum(file.size_bytes for file in listed) if exported is None else exported.size_bytes,
        files=listed,
        inputs=source.inputs,
        outputs=source.outputs,
        operators=dict(sorted(operators.items())),
        parameters=sum(weight.numel() for weight in weights if isinstance(weight, torch.Tensor)),
        exported=exported,
        open_inputs=source.open_inputs,
        anatomy=anatomy_torch(program),
        called=OperatorNames.of((n for o in named for n in o.names), (t for o in named for t in o.types)),
    )


def operator_type(target: str) -> str:
    """The name of an operator in a program as people say it: `aten.conv2d.default` → `conv2d`."""
    return re.sub(r"^(aten|prims)\.|\.[A-Za-z0-9_]+$", "", target) if target.count(".") == 2 else target
