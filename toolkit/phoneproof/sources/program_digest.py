"""The content of an exported program as a hash: what it computes, whatever archive it came in."""

import hashlib
import json
from typing import Any


def content_sha256(program: Any) -> str:
    """SHA-256 over graph code, module paths, signature and all parameters, buffers and constants.

    program: torch.export.ExportedProgram. Not the bytes of its archive, which hold stack traces with paths,
    random example inputs and a serialization id of their own at each saving.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        digest.update(json.dumps([str(part) for part in parts]).encode() + b"\n")

    for path, module in program.graph_module.named_modules():
        if hasattr(module, "graph"):
            add("graph", path, module.code)
            for node in module.graph.nodes:
                add(node.name, *_module_path(node), *_type_of(node.meta.get("val")))
    signature = program.graph_signature
    for spec in (*signature.input_specs, *signature.output_specs):
        add("spec", spec.kind.name, spec.arg, spec.target)
    add("structure", program.call_spec.in_spec, program.call_spec.out_spec)
    for kind, tensors in (("state", program.state_dict), ("constant", program.constants)):
        for name in sorted(tensors):
            _add_tensor(digest, add, kind, name, tensors[name])
    return digest.hexdigest()


def _add_tensor(digest: Any, add: Any, kind: str, name: str, value: Any) -> None:
    import torch

    if not isinstance(value, torch.Tensor):
        add(kind, name, type(value).__qualname__)
        return
    add(kind, name, value.dtype, tuple(value.shape))
    flat = value.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data)


def _module_path(node: Any) -> list[str]:
    """Path and type of each module that the operator stands in; the keys of the stack change when saved."""
    stack = node.meta.get("nn_module_stack") or {}
    return [f"{path}:{kind}" for path, kind in stack.values()]


def _type_of(value: Any) -> tuple[str, ...]:
    if not hasattr(value, "dtype"):
        return ()
    return (str(value.dtype), str(tuple(value.shape)))
