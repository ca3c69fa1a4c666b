"""From an exported program to a float .tflite file, by litert-torch's converter.

The public `litert_torch.convert` takes a module and exports it again, whereby its operators lose the names
that the user knows. So the program goes through the same three steps of litert-torch 0.10 here, with each
node's name where the converter looks for the module's: what becomes of a node then carries its name.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from phoneproof.errors import ToolchainError, said
from phoneproof.quantize.torch_graph import ARITHMETIC, prepare
from phoneproof.sources.exported_program import ExportedSource
from phoneproof.sources.program_operators import TorchOperator
from phoneproof.toolchains.tflite_file import TfliteOperator

SIGNATURE: Final = "serving_default"


@dataclass(frozen=True)
class TorchOrigins:
    """Which operators of the exported program an operator of the file computes.

    operators: of the program, by node name, in its order. outputs: nodes that give the program's outputs.
    users: names of the nodes that use each node's value.
    """

    operators: Mapping[str, TorchOperator]
    outputs: tuple[str, ...]
    users: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, program: Any) -> "TorchOrigins":
        """The origins of a torch.export.ExportedProgram, which stays as it is."""
        nodes = list(program.graph.nodes)
        last = next(node for node in nodes if node.op == "output")
        return cls(
            prepare(program).operators,
            tuple(node.name for node in last.all_input_nodes),
            {node.name: frozenset(user.name for user in node.users) for node in nodes},
        )

    def of_file(self, operators: tuple[TfliteOperator, ...]) -> dict[str, tuple[TorchOperator, ...]]:
        """The program's operators behind each operator of the file, by the file operator's name.

        A tensor is named after the nodes that were fused into its operator, as `relu;;conv2d;1`. The
        signature's outputs are named after themselves: behind their operators are the nodes that nothing else
        was made of and whose values reach nothing but that output.
        """
        found = {
            operator.name: tuple(
                self.operators[part] for part in operator.name.split(";") if part in self.operators
            )
            for operator in operators
        }
        claimed = {one.node for group in found.values() for one in group}
        rest = [name for name in reversed(list(self.operators)) if name not in claimed]
        unnamed = [operator for operator in operators if not found[operator.name]]
        for operator, group in zip(unnamed, self._output_groups(rest, len(unnamed)), strict=False):
            found[operator.name] = tuple(self.operators[name] for name in group)
        return found

    def _output_groups(self, rest: list[str], count: int) -> Iterator[tuple[str, ...]]:
        """Groups of unclaimed nodes, one for each output in order; all of them for a single operator."""
        if count == 1:
            yield tuple(rest)
            return
        for output in self.outputs:
            group = {output} & set(rest)
            for name in rest:  # from the end of the program: users come before what they use
                if group and self.users[name] and self.users[name] <= group:
                    group.add(name)
            if group:
                yield tuple(name for name in rest if name in group)


def label(operators: tuple[TorchOperator, ...], fallback: str) -> str:
    """What a user calls an operator of the file: the node that computes, not the activation fused into it."""
    main = next((one for one in operators if one.aten in ARITHMETIC), operators[0] if operators else None)
    return fallback if main is None else main.node


def convert_program(source: ExportedSource) -> bytes:
    """The float .tflite of a program, whose signature has the source's names and whose layouts are its own.

    64-bit integers become 32-bit (the converter's default; most accelerators have no others). The program's
    notes about modules are overwritten. ToolchainError for whatever the converter raises.
    """
    try:
        return _converted(source)
    except ToolchainError:
        raise
    except Exception as error:  # torch's, MLIR's and the converter's exceptions have no common base class
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ToolchainError(
            f"litert-torch cannot convert the program: {said(Exception(text), 400)}.",
            where=str(source.path),
            next_step="The whole text is in the toolchain's log. Write the operator it names otherwise.",
        ) from error


def _converted(source: ExportedSource) -> bytes:
    from litert_torch import fx_infra
    from litert_torch._convert import core, litert_converter, signature

    program = source.program
    with _named_nodes(program):
        tensors = {spec.name: _sample(spec) for spec in source.inputs}
        called = signature.Signature(SIGNATURE, None, None, tensors)
        lowered = fx_infra.graph_utils.reset_from_node_meta(program)
        lowered = fx_infra.safe_run_decompositions(
            lowered, fx_infra.decomp.pre_convert_decomp(), can_skip=False
        )
        lowered = core._run_convert_passes(lowered)
        _name_outputs(lowered, [spec.name for spec in source.outputs])
        exporter = litert_converter.exported_programs_to_flatbuffer([lowered], [called])
        return bytes(exporter.to_bytes())


@contextlib.contextmanager
def _named_nodes(program: Any) -> Iterator[None]:
    key = "nn_module_stack"
    before = {node: node.meta.get(key) for node in program.graph.nodes}
    for node in program.graph.nodes:
        if node.op == "call_function":
            node.meta[key] = {node.name: ("", node.name)}
    try:
        yield
    finally:
        for node, stack in before.items():
            node.meta.pop(key, None)
            if stack is not None:
                node.meta[key] = stack


def _name_outputs(program: Any, names: list[str]) -> None:
    """The converter names outputs by the keys of the dictionary that the program gives, if it gives one."""
    from torch.utils import _pytree as pytree

    program.module_call_graph[0].signature.out_spec = pytree.tree_flatten(dict.fromkeys(names, 0))[1]


def _sample(spec: Any) -> Any:
    import torch

    return torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype))
