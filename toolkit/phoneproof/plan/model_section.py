"""`[[models]]`: the source models of a plan, each in one or several forms."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from phoneproof.plan.values import ENTRY_POINT, PlainId, Problem, Section, Text, Texts, refuse
from phoneproof.protocol.tensors import TensorSpec
from phoneproof.recipes.table import SourceFormat

_KEYS_OF: Final[Mapping[SourceFormat, frozenset[str]]] = {
    SourceFormat.PYTORCH: frozenset({"state", "inputs", "outputs", "trust_pickle"}),
    SourceFormat.EXPORTED_PROGRAM: frozenset({"shapes", "outputs", "trust_pickle"}),
    SourceFormat.KERAS: frozenset({"shapes", "trust_pickle"}),
    SourceFormat.SAVEDMODEL: frozenset({"shapes", "signature"}),
    SourceFormat.ONNX: frozenset({"shapes"}),
}
"""Keys besides name, source and format that mean something for a format."""

_STATE_SUFFIXES: Final = (".pt", ".pth", ".safetensors")


InputShape = tuple[Annotated[int, Field(ge=1)], ...]
"""Whole shape of an input: a batch of 1 first, or an axis that is no batch."""


class InputSection(Section):
    """An input of a PyTorch module, in the order of its forward."""

    name: Text
    shape: InputShape
    dtype: Literal["float32", "float16", "int64", "int32", "uint8", "bool"] = "float32"


class ModelSection(Section):
    """One form of a source model."""

    name: PlainId
    source: Text
    format: SourceFormat
    shapes: Mapping[Text, InputShape] = Field(default_factory=dict)
    inputs: tuple[InputSection, ...] = ()
    outputs: Texts = ()
    state: Text | None = None
    signature: Text | None = None
    trust_pickle: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(self, [*self._useless_keys(), *self._pytorch(), *self._useless_trust(), *self._inputs_twice()])
        return self

    def _useless_keys(self) -> list[Problem]:
        known = _KEYS_OF[self.format]
        every = frozenset().union(*_KEYS_OF.values())
        given = [key for key in sorted(every - known) if getattr(self, key) not in ((), {}, None, False)]
        allowed = f"Remove it. It takes: {', '.join(sorted(known))}."
        return [
            ((key,), f"{key!r} means nothing for sources of the format {self.format}.", allowed)
            for key in given
        ]

    def _pytorch(self) -> list[Problem]:
        if self.format is not SourceFormat.PYTORCH:
            return []
        problems: list[Problem] = []
        if not self.is_entry_point:
            step = (
                "Write 'module:function'; the function gives a torch.nn.Module. A .pt2 file has the format "
            )
            what = f"A PyTorch source is a Python function, not {self.source[:80]!r}."
            problems.append((("source",), what, f"{step}'exported_program'; weights go into state = ..."))
        if not self.inputs:
            step = "Add inputs = [{ name = 'image', shape = [1, 3, 224, 224] }], in the order of forward."
            problems.append((("inputs",), "A PyTorch source needs its inputs.", step))
        if self.state is not None and not self.state.endswith(_STATE_SUFFIXES):
            what = f"{self.state[:80]!r} does not end in {', '.join(_STATE_SUFFIXES)}."
            problems.append((("state",), what, "Save the state dict as .pt or .safetensors."))
        return problems

    def _useless_trust(self) -> list[Problem]:
        """Of a PyTorch source only a state dict of torch.save is a pickle."""
        if not self.trust_pickle or self.format is not SourceFormat.PYTORCH:
            return []
        if self.state is not None and not self.state.endswith(".safetensors"):
            return []
        read = "no state dict is read" if self.state is None else "safetensors hold no pickle"
        return [(("trust_pickle",), f"'trust_pickle' means nothing here: {read}.", "Remove it.")]

    def _inputs_twice(self) -> list[Problem]:
        names = [one.name for one in self.inputs]
        return [
            (("inputs", i, "name"), f"The input {name!r} stands twice.", "Give each a name of its own.")
            for i, name in enumerate(names)
            if name in names[:i]
        ]

    @property
    def is_entry_point(self) -> bool:
        """Whether `source` is a Python function: that of a PyTorch module."""
        return self.format is SourceFormat.PYTORCH and ENTRY_POINT.fullmatch(self.source) is not None

    @property
    def key(self) -> str:
        """name/format: which form of which network."""
        return f"{self.name}/{self.format.value}"

    def request(self, path: str, folder: str, state: str | None) -> dict[str, Any]:
        """How a worker's request names this source (sources/request.py), without its sha256.

        path: absolute path of the source, or its entry point. folder: of the plan. state: absolute path.
        """
        values = {
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "inputs": [
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in self.input_specs
            ],
            "outputs": list(self.outputs),
            "state": state,
            "signature": self.signature,
            "trust_pickle": self.trust_pickle,
        }
        request: dict[str, Any] = {"format": self.format.value, "path": path}
        if self.format is SourceFormat.PYTORCH:
            request["folder"] = folder
        return {**request, **{key: values[key] for key in sorted(_KEYS_OF[self.format])}}

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """The inputs of a PyTorch source as the plan gives them."""
        return tuple(TensorSpec(one.name, one.dtype, one.shape) for one in self.inputs)
