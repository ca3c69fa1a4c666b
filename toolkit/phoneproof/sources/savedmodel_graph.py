"""Signatures of a SavedModel out of its graph, for models whose objects TensorFlow cannot restore."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phoneproof.sources.tensorflow_vendor import tensorflow


@dataclass(frozen=True)
class GraphSignature:
    """One signature as a function of TensorFlow 2 that holds its weights as constants.

    definition: GraphDef. inputs, outputs: tensor of the graph, as TensorSpec whose name is that in the graph,
    by the signature's name.
    """

    definition: Any
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @property
    def structured_input_signature(self) -> tuple[tuple[()], dict[str, Any]]:
        """As a ConcreteFunction's: no positional inputs, then the named ones."""
        return (), dict(self.inputs)

    @property
    def structured_outputs(self) -> dict[str, Any]:
        """As a ConcreteFunction's."""
        return dict(self.outputs)

    def __call__(self, **tensors: Any) -> dict[str, Any]:
        """Outputs by name. The graph goes into the one being traced, so shapes follow `tensors`."""
        given = {self.inputs[name].name: tensor for name, tensor in tensors.items()}
        wanted = [spec.name for spec in self.outputs.values()]
        made = tensorflow().graph_util.import_graph_def(
            self.definition, input_map=given, return_elements=wanted, name=""
        )
        return dict(zip(self.outputs, made, strict=True))


@dataclass(frozen=True)
class LoadedGraph:
    """A SavedModel read by its graph. signatures: by name."""

    signatures: Mapping[str, GraphSignature]


def load_graph(path: Path) -> LoadedGraph:
    """Read the SavedModel at `path` in a session of its own; the variables become constants.

    Raises what TensorFlow's loader raises.
    """
    tf = tensorflow()
    from tensorflow.python.framework import convert_to_constants

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, [tf.saved_model.SERVING], str(path))
        named = {
            name: one
            for name, one in meta.signature_def.items()
            if one.inputs and one.outputs and not name.startswith("__")
        }
        ends = {info.name.split(":")[0] for one in named.values() for info in one.outputs.values()}
        definition = convert_to_constants.convert_variables_to_constants_from_session_graph(
            session, session.graph.as_graph_def(), sorted(ends)
        )
    signatures = {
        name: GraphSignature(definition, _specs(one.inputs), _specs(one.outputs))
        for name, one in named.items()
    }
    return LoadedGraph(signatures)


def _specs(tensors: Any) -> dict[str, Any]:
    tf = tensorflow()
    return {
        name: tf.TensorSpec(
            tf.TensorShape(tensors[name].tensor_shape),
            tf.dtypes.as_dtype(tensors[name].dtype),
            tensors[name].name,
        )
        for name in sorted(tensors)
    }
