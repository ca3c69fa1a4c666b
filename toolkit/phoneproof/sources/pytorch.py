"""PyTorch source models as exported programs: what toolchains convert, and what the reference runs."""

import inspect
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from phoneproof.builds.source_facts import EXPORTED_FILE
from phoneproof.errors import SourceModelError, said
from phoneproof.protocol.work import write_bytes_atomically
from phoneproof.sources.agreement import FLOAT_LEAST_DB, Network, disagreement, trial_inputs
from phoneproof.sources.exported_program import ExportedSource, load_program
from phoneproof.sources.planned_model import refuse_changed
from phoneproof.sources.program_running import check_repeatable, network_of
from phoneproof.sources.python_module import failure_in_code, listed, module_of
from phoneproof.sources.request import ExportedProgramRequest, PytorchSourceRequest


def export_to(request: PytorchSourceRequest, folder: Path) -> ExportedSource:
    """Export the module of `request` to `folder`/model.pt2 and read it back as every later step does.

    Raises SourceModelError as `module_of` and `load_program`; and where torch.export fails, the module does
    not take the inputs, is not repeatable, or the program does not compute what the module does.
    """
    module = module_of(request)
    program = exported(module, request)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine, which nothing needs
    buffer = BytesIO()
    torch.export.save(program, buffer)
    path = folder / EXPORTED_FILE
    write_bytes_atomically(path, buffer.getvalue())
    source = load_program(ExportedProgramRequest("exported_program", str(path), outputs=request.outputs))
    refuse_changed(source.sha256, request.sha256, request.path)
    _check_inputs(source, request)
    check_repeatable(source, request.path)
    what = disagreement(_eager(module, request), network_of(source.runner()), request.inputs, FLOAT_LEAST_DB)
    if what is not None:
        raise SourceModelError(
            f"The exported program does not compute what the module does: {what}.",
            where=request.path,
            next_step="Look for values that leave torch on their way: .item(), .numpy(), conditions on data.",
        )
    return source


def exported(module: torch.nn.Module, request: PytorchSourceRequest) -> ExportedProgram:
    """The module as an exported program, its inputs named as the plan names them."""
    _check_count(module, request)
    example = [torch.from_numpy(value) for value in next(iter(trial_inputs(request.inputs)))]
    _run_once(module, example, request)
    own = module.__dict__.get("forward")
    module.forward = _renamed(module.forward, request)
    try:
        return torch.export.export(module, tuple(example))
    except Exception as error:  # torch.export raises errors of its own, of its guards and of the operators
        raise SourceModelError(
            f"torch.export cannot export the module: {type(error).__name__}: {said(error, 400)}.",
            where=request.path,
            next_step="Replace conditions on the data in forward (torch.where, torch.cond).",
        ) from error
    finally:
        del module.forward
        if own is not None:
            module.forward = own


def parameters_of(module: torch.nn.Module) -> list[inspect.Parameter]:
    """Parameters of the module's forward."""
    return list(inspect.signature(module.forward).parameters.values())


def _eager(module: torch.nn.Module, request: PytorchSourceRequest) -> Network:
    def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        try:
            leaves = torch.utils._pytree.tree_leaves(module(*tensors))
        except (IndexError, RuntimeError, ValueError):
            raise
        except Exception as error:
            raise failure_in_code(request, error) from error
        return [one for one in leaves if isinstance(one, torch.Tensor)]

    return network_of(run)


def _run_once(
    module: torch.nn.Module, example: Sequence[torch.Tensor], request: PytorchSourceRequest
) -> None:
    """Run the module as it is first: its own error says more than torch.export's."""
    try:
        with torch.inference_mode():
            module(*(tensor.clone() for tensor in example))
    except Exception as error:
        raise failure_in_code(request, error) from error


def _check_count(module: torch.nn.Module, request: PytorchSourceRequest) -> None:
    """The plan's inputs are forward's positional parameters, in order."""
    parameters = parameters_of(module)
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [
        p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    only_by_name = [p.name for p in required if p.kind is p.KEYWORD_ONLY]
    count = len(request.inputs)
    if only_by_name or count < len(required) or (count > len(by_position) and not takes_any):
        raise SourceModelError(
            f"forward takes ({', '.join(map(str, parameters))}), the plan names {count} inputs "
            f"({', '.join(spec.name for spec in request.inputs)}).",
            where=request.path,
            next_step="Name one input for each parameter that forward is to be given, in its order."
            if not only_by_name
            else f"Let forward take {listed(only_by_name)} by position.",
        )


def _renamed(forward: Any, request: PytorchSourceRequest) -> Any:
    """forward with the plan's names: torch.export names the program's inputs after its signature."""

    def renamed(*tensors: Any) -> Any:
        return forward(*tensors)

    try:
        parameters = [
            inspect.Parameter(spec.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for spec in request.inputs
        ]
        renamed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    except ValueError as error:
        raise SourceModelError(
            f"An input of a PyTorch model needs the name of a Python variable: {said(error)}.",
            where=request.path,
            next_step="Rename the input in the plan.",
        ) from error
    return renamed


def _check_inputs(source: ExportedSource, request: PytorchSourceRequest) -> None:
    wanted = [(spec.name, spec.dtype, spec.shape) for spec in request.inputs]
    found = [(spec.name, spec.dtype, spec.shape) for spec in source.inputs]
    if wanted != found:
        raise SourceModelError(
            f"The exported program takes {_named(found)}, not {_named(wanted)}.",
            where=request.path,
            next_step="Give the inputs names that no parameter or operator of the module has.",
        )


def _named(specs: Sequence[tuple[str, str, tuple[int, ...]]]) -> str:
    return ", ".join(f"{name} ({dtype} {list(shape)})" for name, dtype, shape in specs)
