"""Source models as exported programs (.pt2 of torch.export): read safely, every axis fixed, one call form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from phoneproof.errors import SourceModelError, said
from phoneproof.protocol.tensors import DTYPE_SIZES, TensorSpec
from phoneproof.sources.axes import open_inputs
from phoneproof.sources.exported_archive import EXPORT_AGAIN, check_archive
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.program_digest import content_sha256
from phoneproof.sources.program_shapes import fixed
from phoneproof.sources.request import ExportedProgramRequest

Run = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


@dataclass(frozen=True)
class ExportedSource:
    """An exported program ready for use: axes fixed, names checked.

    sha256: of its content as it lies on disk (sources/program_digest). inputs, outputs: its tensors in the
    order in which the program takes and gives them; arguments that are no tensors are fixed in the program.
    open_inputs: of axes.open_inputs.
    """

    path: Path
    sha256: str
    program: ExportedProgram
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    open_inputs: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def runner(self) -> Run:
        """The program as a function of its input tensors in order; it gives its outputs in order."""
        return runner(self.program)


def load_program(request: ExportedProgramRequest) -> ExportedSource:
    """Read, check and fix the exported program that `request` names.

    A dynamic first axis is the batch and becomes 1; any other dynamic axis takes its length from `shapes`.
    Raises SourceModelError: missing, damaged, another kind of file, of another version of torch, unsafe to
    read without trust_pickle, not the program that was planned, an axis left dynamic, shapes or names that
    contradict the program, state that changes from call to call.
    """
    path = Path(request.path)
    program = read_program(path, request.trust_pickle)
    sha256 = content_sha256(program)
    refuse_changed(sha256, request.sha256, request.path)
    _refuse_state(program, str(path))
    left_open = open_inputs((name, _open_shape(program, name)) for name in input_names(program))
    program = fixed(program, dict(request.shapes), str(path))
    inputs = tuple(_spec(name, program, str(path), "input") for name in input_names(program))
    nodes = output_nodes(program, str(path))
    names = output_names(request.outputs, len(nodes), str(path))
    outputs = tuple(
        _spec(node, program, str(path), "output", name) for node, name in zip(nodes, names, strict=True)
    )
    _refuse_bad_names(inputs, outputs, str(path))
    return ExportedSource(path, sha256, program, inputs, outputs, left_open)


def runner(program: ExportedProgram) -> Run:
    """The program as a function of its input tensors in order, whatever structure it was exported with."""
    module: Any = program.module()
    in_spec = program.call_spec.in_spec
    constants: list[Any] = [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else None for spec in _user_inputs(program)
    ]
    places = [i for i, spec in enumerate(_user_inputs(program)) if isinstance(spec.arg, TensorArgument)]

    def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        leaves = list(constants)
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, in_spec)
        return [one for one in pytree.tree_leaves(module(*args, **kwargs)) if isinstance(one, torch.Tensor)]

    return run


def input_names(program: ExportedProgram) -> list[str]:
    """Names of the tensors that the program takes, in order."""
    return [spec.arg.name for spec in _user_inputs(program) if isinstance(spec.arg, TensorArgument)]


def output_nodes(program: ExportedProgram, place: str) -> list[str]:
    """Names of the values that the program gives, in order. SourceModelError where one is no tensor."""
    found = []
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, ConstantArgument) and spec.arg.value is None:
            continue
        if not isinstance(spec.arg, TensorArgument):
            raise SourceModelError(
                "The program gives something that is no tensor.",
                where=place,
                next_step="Give tensors only in the module's forward.",
                output=str(spec.arg)[:200],
            )
        found.append(spec.arg.name)
    return found


def _open_shape(program: ExportedProgram, name: str) -> tuple[int | None, ...]:
    return tuple(length if isinstance(length, int) else None for length in tensor_of(program, name).shape)


def tensor_of(program: ExportedProgram, name: str) -> Any:
    """Shape and dtype (a fake tensor) of the value of the graph with that name."""
    return next(node.meta["val"] for node in program.graph.nodes if node.name == name)


def read_program(path: Path, trust_pickle: bool) -> ExportedProgram:
    """The program in a file as it is. SourceModelError as `load_program` says of the file."""
    # torch.export.load answers every failure with "see the warnings above"; this reader raises the cause.
    from torch.export.pt2_archive._package import load_pt2

    check_archive(path, trust_pickle)
    if not trust_pickle:
        _check_sample_inputs(path)
    try:
        # As a stream: given a path, the reader only warns where it does not end in .pt2.
        with path.open("rb") as file:
            programs = load_pt2(file).exported_programs
    except Exception as error:  # torch's reader raises AssertionError, KeyError, SerializeError and others
        raise SourceModelError(
            f"torch {torch.__version__} cannot read the program: {type(error).__name__}: {said(error)}.",
            where=str(path),
            next_step="Export the model again with this version of torch.",
        ) from error
    (program,) = programs.values()
    return program


def _check_sample_inputs(path: Path) -> None:
    """Sample inputs are plain tensors: where weights_only refuses them, the reader unpickles them without."""
    with ZipFile(path) as archive:
        for name in archive.namelist():
            if "/data/sample_inputs/" not in name:
                continue
            content = archive.read(name)
            try:
                if content:
                    torch.load(BytesIO(content), weights_only=True)
            except Exception as error:  # pickle's and torch's errors have no common class
                raise SourceModelError(
                    "The archive's sample inputs are not plain tensors; reading them may run code: "
                    f"{said(error)}.",
                    where=str(path),
                    next_step="Export the model again, or set trust_pickle = true if you trust the file.",
                ) from error


def _user_inputs(program: ExportedProgram) -> list[Any]:
    return [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def _refuse_state(program: ExportedProgram, place: str) -> None:
    """Builds are judged sample by sample: a program that changes itself gives what came before, too."""
    changed = [
        str(spec.target or spec.arg)
        for spec in program.graph_signature.output_specs
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.TOKEN)
    ]
    if changed:
        raise SourceModelError(
            f"The program changes {', '.join(changed[:5])} whenever it runs.",
            where=place,
            next_step="Export it in evaluation mode (`module.eval()`), with its state as inputs and outputs.",
            changed=tuple(changed),
        )


def output_names(wanted: Sequence[str], count: int, place: str) -> list[str]:
    """The plan's names of the outputs, or output, or output_0, output_1 ... SourceModelError for too few."""
    if wanted and len(wanted) != count:
        raise SourceModelError(
            f"The plan names {len(wanted)} outputs, the program gives {count}.",
            where=place,
            next_step="Name each output, in the order in which forward gives them, or none.",
            outputs=tuple(wanted),
        )
    if wanted:
        return list(wanted)
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def _spec(node: str, program: ExportedProgram, place: str, role: str, name: str | None = None) -> TensorSpec:
    value = tensor_of(program, node)
    where = f"{place}: {role} {name or node!r}"
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPE_SIZES:
        raise SourceModelError(
            f"The {role} has dtype {dtype}, which no runtime here takes.",
            where=where,
            next_step=f"Export the model with one of {', '.join(DTYPE_SIZES)}.",
        )
    if not all(isinstance(length, int) for length in value.shape):
        raise SourceModelError(
            f"The shape of the {role} depends on the data.",
            where=where,
            next_step="Export the model without the part that filters its results; filter outside the model.",
        )
    return TensorSpec(name or node, dtype, tuple(value.shape))


def _refuse_bad_names(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], place: str) -> None:
    names = [spec.name for spec in (*inputs, *outputs)]
    if not inputs or not outputs:
        raise SourceModelError("The program has no input or no output.", where=place, next_step=EXPORT_AGAIN)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceModelError(
            f"Two inputs or outputs have the same name: {', '.join(twice)}.",
            where=place,
            next_step="Give the outputs other names in the plan.",
        )
    return
