"""Changes to a converted flatbuffer that the vendor's tools do not make: names, metadata, float weights."""

from collections.abc import Mapping
from typing import Any

from phoneproof.sources.tensorflow_graph import TensorflowSource, input_name, output_name
from phoneproof.toolchains.tflite_metadata import add_metadata, text_of


def finished(content: bytes, source: TensorflowSource, metadata: Mapping[str, str]) -> bytes:
    """The file with the source's names in signature and tensors, and with metadata as UTF-8 text by key."""
    from tensorflow.lite.python import schema_py_generated as schema

    model = _read(content)
    inputs = {input_name(index): spec.name for index, spec in enumerate(source.inputs)}
    outputs = {output_name(index): spec.name for index, spec in enumerate(source.outputs)}
    graph = model.subgraphs[0]
    for index, tensor in enumerate(graph.tensors):
        # A number for a name counts what the process did before.
        if text_of(tensor.name).isdecimal():
            tensor.name = f"constant_{index}".encode()
    taken = {text_of(tensor.name) for tensor in graph.tensors}
    for signature in model.signatureDefs:
        for entries, names in ((signature.inputs, inputs), (signature.outputs, outputs)):
            for entry in entries:
                entry.name = names[text_of(entry.name)].encode()
                name = text_of(entry.name)
                if name not in taken:
                    taken.add(name)
                    graph.tensors[entry.tensorIndex].name = name.encode()
    add_metadata(model, metadata, schema)
    return _written(model)


def with_float_weights(content: bytes, float_content: bytes, kept: frozenset[str]) -> bytes:
    """A dynamic range build in which the operators that compute `kept` have their float weights again.

    content, float_content: conversions of one source with and without dynamic range quantization, which name
    their tensors alike. TFLiteConverter itself cannot leave an operator out of this quantization.
    """
    return _FloatWeights(_read(content), _read(float_content)).restored(kept)


class _FloatWeights:
    def __init__(self, model: Any, reference: Any) -> None:
        self._model = model
        self._graph = model.subgraphs[0]
        self._originals = {text_of(tensor.name): tensor for tensor in reference.subgraphs[0].tensors}
        self._buffers = reference.buffers
        self._dequantize = [
            index for index, code in enumerate(model.operatorCodes) if code.builtinCode == _dequantize_code()
        ]

    def restored(self, kept: frozenset[str]) -> bytes:
        operators = [o for o in self._graph.operators if o.opcodeIndex not in self._dequantize]
        chosen = [o for o in operators if self._result(o) in kept]
        others = [o for o in self._graph.operators if o not in chosen]
        shared = {int(index) for operator in others for index in operator.inputs}
        for operator in chosen:
            for place, index in enumerate(operator.inputs):
                if index >= 0:
                    operator.inputs[place] = self._float_constant(int(index), int(index) in shared)
            self._without_dequantize(operator)
        return _written(self._model)

    def _result(self, operator: Any) -> str:
        return text_of(self._graph.tensors[operator.outputs[0]].name)

    def _float_constant(self, index: int, is_shared: bool) -> int:
        """The tensor with the float values of the constant `index`; a new one if others need its int8."""
        from tensorflow.lite.python import schema_py_generated as schema

        tensor = self._graph.tensors[index]
        original = self._originals.get(text_of(tensor.name))
        is_constant = self._model.buffers[tensor.buffer].data is not None
        is_float = tensor.type == schema.TensorType.FLOAT32
        if not is_constant or is_float or original is None or original.type != schema.TensorType.FLOAT32:
            return index
        if is_shared:
            tensor = schema.TensorT()
            tensor.name, tensor.shape = original.name + b"_float", original.shape
            index = len(self._graph.tensors)
            self._graph.tensors.append(tensor)
        elif sum(one.buffer == tensor.buffer for one in self._graph.tensors) == 1:
            self._model.buffers[tensor.buffer].data = None
        tensor.type, tensor.quantization = original.type, None
        tensor.buffer = len(self._model.buffers)
        self._model.buffers.append(self._buffers[original.buffer])
        return index

    def _without_dequantize(self, operator: Any) -> None:
        """Let a lookup in a table that is float again give what its DEQUANTIZE gave."""
        result = int(operator.outputs[0])
        readers = [o for o in self._graph.operators if result in (int(i) for i in o.inputs)]
        if len(readers) == 1 and readers[0].opcodeIndex in self._dequantize:
            given = int(readers[0].outputs[0])
            operator.outputs[0] = given
            self._graph.operators.remove(readers[0])
            before, after = self._graph.tensors[result], self._graph.tensors[given]
            before.name, after.name = after.name, before.name


def _dequantize_code() -> int:
    from tensorflow.lite.python import schema_py_generated as schema

    return int(schema.BuiltinOperator.DEQUANTIZE)


def _read(content: bytes) -> Any:
    """The model, its weights inside: TensorFlow 2.21 puts those of 16x8 builds behind the flatbuffer."""
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils.read_model_from_bytearray(bytearray(content))


def _written(model: Any) -> bytes:
    from tensorflow.lite.tools import flatbuffer_utils

    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
