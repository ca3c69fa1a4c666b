"""Small Keras networks and SavedModels, made the same every time. Imported where TensorFlow may start."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phoneproof.protocol.tensors import TensorSpec
from phoneproof.protocol.work import Progress
from phoneproof.sources.tensorflow_vendor import keras, tensorflow

IMAGE = TensorSpec("image", "float32", (1, 16, 16, 3))
IDS = TensorSpec("ids", "int32", (1, 8))


def build(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Save the models that `request` names into its folder `to`; each as its function here says."""
    to = Path(request["to"])
    to.mkdir(parents=True, exist_ok=True)
    # Before anything runs: the reference may be asked for in this process too.
    tensorflow().config.threading.set_intra_op_parallelism_threads(1)
    for name in request["names"]:
        keras().utils.set_random_seed(7)
        globals()[f"_{name}"](to)
    return {}


def samples(count: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Samples of both inputs, first axis samples."""
    draw = np.random.default_rng(seed)
    images = draw.random((count, *IMAGE.shape[1:]), dtype=np.float32)
    return {"image": images, "ids": draw.integers(0, 300, (count, 8)).astype(np.int32)}


def _randomised(model: Any) -> Any:
    """With batch normalisation as after training: a fresh one would hide a wrong folding."""
    draw = np.random.default_rng(3)
    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            for variable in layer.weights:
                variable.assign(draw.uniform(0.5, 1.5, variable.shape))
    return model


def _convolutions(image: Any) -> Any:
    layers = keras().layers
    x = layers.Conv2D(16, 3, padding="same", use_bias=False, name="conv")(image)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.ReLU(6.0, name="clip")(x)
    y = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x)
    x = layers.Add(name="sum")([x, y])
    return layers.GlobalAveragePooling2D(name="pool")(x)


def _two_heads(to: Path) -> None:
    """Image and token ids in, classes and a box out."""
    layers, vendor = keras().layers, keras()
    image = vendor.Input(IMAGE.shape[1:], name="image")
    ids = vendor.Input(IDS.shape[1:], dtype="int32", name="ids")
    x = _convolutions(image)
    e = layers.Embedding(300, 16, name="words")(ids)
    e = layers.GlobalAveragePooling1D(name="mean")(e)
    z = layers.Concatenate(name="both")([x, e])
    z = layers.Dense(64, activation="relu", name="hidden")(z)
    classes = layers.Dense(10, activation="softmax", name="classes")(z)
    box = layers.Dense(4, name="box")(z)
    model = _randomised(vendor.Model([image, ids], [classes, box]))
    model.save(to / "two_heads.keras")


def _two_heads_exported(to: Path) -> None:
    """The same as a SavedModel."""
    keras().saving.load_model(to / "two_heads.keras").export(to / "two_heads", verbose=False)


def _names(to: Path) -> None:
    """A dict in and a dict out, with keys that are no identifiers; layer names that Keras numbers."""
    vendor = keras()
    inputs = {"a-b": vendor.Input((4,), name="first"), "x/y": vendor.Input((4,), name="second")}
    x = vendor.layers.Dense(32, name="dense")(vendor.layers.Add(name="add")(list(inputs.values())))
    x = vendor.layers.Dense(64, name="dense_1")(x)
    model = vendor.Model(inputs, {"z out": vendor.layers.Dense(3, name="dense_2")(x), "a out": x})
    model.save(to / "names.keras")


def _plain(to: Path) -> None:
    """Convolutions and a dense layer: what every recipe can do."""
    vendor = keras()
    image = vendor.Input(IMAGE.shape[1:], name="image")
    classes = vendor.layers.Dense(10, activation="softmax", name="classes")(_convolutions(image))
    _randomised(vendor.Model(image, classes)).save(to / "plain.keras")


def _open_axes(to: Path) -> None:
    vendor = keras()
    image = vendor.Input((None, None, 3), name="image")
    x = vendor.layers.Conv2D(4, 3, name="conv")(image)
    vendor.Model(image, vendor.layers.GlobalMaxPooling2D(name="most")(x)).save(to / "open_axes.keras")


def _recurrent(to: Path) -> None:
    """An LSTM and a GRU over a sequence."""
    vendor = keras()
    given = vendor.Input((6, 8), name="given")
    x = vendor.layers.LSTM(16, return_sequences=True, name="long")(given)
    x = vendor.layers.GRU(8, name="gated")(x)
    vendor.Model(given, vendor.layers.Dense(2, name="answer")(x)).save(to / "recurrent.keras")


def _scaled_by_its_maximum(to: Path) -> None:
    """Zeros throughout are divided by zero, which TensorFlow makes zero."""
    vendor = keras()
    given = vendor.Input((16,), name="given")
    most = vendor.ops.max(vendor.ops.abs(given), axis=-1, keepdims=True)
    scaled = vendor.ops.divide_no_nan(given, most)
    model = vendor.Model(given, vendor.layers.Dense(4, name="after")(scaled))
    model.save(to / "scaled_by_its_maximum.keras")


def _no_integer_form(to: Path) -> None:
    """A sine between dense layers: TFLite has it in float only."""
    vendor = keras()
    given = vendor.Input((32,), name="given")
    x = vendor.layers.Dense(64, name="before")(given)
    x = vendor.ops.sin(x)
    vendor.Model(given, vendor.layers.Dense(4, name="after")(x)).save(to / "no_integer_form.keras")


def _lambda(to: Path) -> None:
    vendor = keras()
    given = vendor.Input((4,), name="given")
    doubled = vendor.layers.Lambda(lambda x: x * 2.0, output_shape=(4,), name="doubled")(given)
    vendor.Model(given, doubled).save(to / "lambda.keras")


def _custom(to: Path) -> None:
    vendor = keras()

    @vendor.saving.register_keras_serializable(package="ours")
    class Doubled(vendor.layers.Layer):  # type: ignore[misc, name-defined]
        def call(self, x: Any) -> Any:
            return x * 2.0

    given = vendor.Input((4,), name="given")
    vendor.Model(given, Doubled(name="doubled")(given)).save(to / "custom.keras")


def _several_signatures(to: Path) -> None:
    """Two signatures, none the default one; and a folder without any."""
    tf = tensorflow()
    module = tf.Module()
    module.weight = tf.Variable(3.0)
    spec = tf.TensorSpec((None, 4), name="given")
    by = {
        "times": tf.function(lambda given: {"product": given * module.weight}, input_signature=[spec]),
        "plus": tf.function(lambda given: {"sum": given + module.weight}, input_signature=[spec]),
    }
    tf.saved_model.save(module, str(to / "several"), signatures=by)
    tf.saved_model.save(tf.Module(), str(to / "none"))


def _reads_files(to: Path) -> None:
    tf = tensorflow()

    def read(given: Any) -> Any:
        size = tf.strings.length(tf.io.read_file("/etc/hostname"))
        return {"result": given + tf.cast(size, tf.float32)}

    function = tf.function(read, input_signature=[tf.TensorSpec((1, 4), name="given")])
    tf.saved_model.save(tf.Module(), str(to / "reads_files"), signatures={"serving_default": function})


def _untracked_variables(to: Path) -> None:
    """What the converter makes of variables that it does not know: the trap, as a .tflite file."""
    tf, vendor = tensorflow(), keras()
    model = vendor.saving.load_model(to / "plain.keras", compile=False)
    holder = tf.Module()
    holder.model = model
    function = tf.function(lambda image: {"classes": model(image, training=False)}, autograph=False)
    concrete = function.get_concrete_function(tf.TensorSpec(IMAGE.shape, name="image"))
    tf.saved_model.save(holder, str(to / "holder"), signatures={"serving_default": concrete})
    content = tf.lite.TFLiteConverter.from_saved_model(str(to / "holder")).convert()
    (to / "untracked.tflite").write_bytes(content)


def _no_builtin(to: Path) -> None:
    """An operator that TFLite does not have."""
    tf = tensorflow()
    function = tf.function(lambda x: {"y": tf.raw_ops.Erfinv(x=x)}, autograph=False)
    concrete = function.get_concrete_function(tf.TensorSpec((1, 4), name="x"))
    tf.saved_model.save(tf.Module(), str(to / "erfinv"), signatures={"serving_default": concrete})


def depthwise_range(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """Least and greatest value of two_heads' depthwise layer over the samples: as Keras itself computes it,
    and as the vendor's calibrator has it."""
    from phoneproof.quantize.tflite_converter import converters
    from phoneproof.sources.keras_model import load_keras
    from phoneproof.sources.request import KerasSourceRequest

    tf, vendor = tensorflow(), keras()
    given = samples(request["count"])
    model = vendor.saving.load_model(request["path"])
    part = vendor.Model(model.inputs, model.get_layer("depthwise").output)
    true = np.asarray(part([given["image"], given["ids"]]))
    feeds = [
        {"input_000": given["image"][i : i + 1], "input_001": given["ids"][i : i + 1]}
        for i in range(request["count"])
    ]
    with converters(load_keras(KerasSourceRequest("keras", request["path"]))) as make:
        converter = make()
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: iter(feeds)
        converter._experimental_calibrate_only = True
        content = converter.convert()
    from tensorflow.lite.tools import flatbuffer_utils

    graph = flatbuffer_utils.convert_bytearray_to_object(bytearray(content)).subgraphs[0]
    (tensor,) = (t for t in graph.tensors if b"depthwise_1/depthwise1" in t.name)
    vendors = [float(tensor.quantization.min[0]), float(tensor.quantization.max[0])]
    return {"true": [float(true.min()), float(true.max())], "vendors": vendors, "name": tensor.name.decode()}


def answers(request: Mapping[str, Any], folder: Path, progress: Progress) -> Mapping[str, Any]:
    """What the reference gives for samples 0 to `count` of `samples`: answers.npz, output_0, output_1, ..."""
    from phoneproof.runtimes.runtime import LoadRequest
    from phoneproof.runtimes.source import load

    given = samples(request["count"], seed=request["seed"])
    session = load(LoadRequest(Path(request["path"]), "cpu", False, 1, {}))
    found = []
    for index in range(request["count"]):
        feed = {name: given[name][index : index + 1] for name in request["inputs"]}
        found.append(session.prepare(feed)())
    stacked = {f"output_{k}": np.concatenate(values) for k, values in enumerate(zip(*found, strict=True))}
    np.savez(folder / "answers.npz", **stacked)  # type: ignore[arg-type]
    return {"operators": dict(session.operators or {}), "actual": session.accelerator_actual}


def _damaged(to: Path) -> None:
    """The SavedModel of two_heads with its variables cut short."""
    shutil.copytree(to / "two_heads", to / "damaged")
    (data,) = (to / "damaged" / "variables").glob("variables.data*")
    data.write_bytes(data.read_bytes()[:1000])
