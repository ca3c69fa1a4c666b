"""The declaration: strict reading, round trip, digests."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given

from phoneproof.data.preprocessing import Layout, Mode, Preprocess, canonical_json
from phoneproof.errors import DataError
from tests.data.builders import as_is, preprocesses, stretch

IMAGENET: dict[str, Any] = {
    "mode": "RGB",
    "layout": "nchw",
    "resize": {"width": 256, "height": 256, "method": "shortest_side", "interpolation": "bilinear"},
    "centre_crop": [224, 224],
    "crop_rounding": "half_even",
    "scale": 1 / 255,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}


@given(preprocesses())
def test_round_trip_through_json_text(preprocess: Preprocess) -> None:
    written = json.loads(json.dumps(preprocess.to_dict()))
    assert Preprocess.from_dict(written) == preprocess
    assert Preprocess.from_dict(written).digest == preprocess.digest


def test_reading_does_not_change_the_caller_dict() -> None:
    given_dict = json.loads(json.dumps(IMAGENET))
    Preprocess.from_dict(given_dict)
    assert given_dict == IMAGENET


@pytest.mark.parametrize(
    ("change", "place", "advice"),
    [
        ({"interpolaton": "bilinear"}, "preprocess", ""),
        ({"means": [0, 0, 0]}, "preprocess", "'mean'"),
        ({"mode": "rgb"}, "preprocess.mode", "'RGB'"),
        ({"layout": "nwhc"}, "preprocess.layout", "'n"),
        ({"alpha": "composit"}, "preprocess.alpha", "'composite'"),
        ({"dtype": "float"}, "preprocess.dtype", "'float"),
        ({"dtype": "int64"}, "preprocess.dtype", "'int"),
        ({"mean": [0.5]}, "preprocess.mean", ""),
        ({"mean": "0.5"}, "preprocess.mean", ""),
        ({"std": [1, 1, 0]}, "preprocess.std", ""),
        ({"std": [1, 1, float("nan")]}, "preprocess.std", ""),
        ({"scale": True}, "preprocess.scale", ""),
        ({"scale": "1/255"}, "preprocess.scale", ""),
        ({"background": [0, 0, 256]}, "preprocess.background", ""),
        ({"centre_crop": 224}, "preprocess.centre_crop", ""),
        ({"centre_crop": [224]}, "preprocess.centre_crop", ""),
        ({"centre_crop": [224, 224.0]}, "preprocess.centre_crop", ""),
        ({"centre_crop": [300, 224]}, "preprocess.centre_crop", ""),
        ({"centre_crop": None}, "preprocess.centre_crop", "centre_crop"),
        ({"resize": "stretch"}, "preprocess.resize", ""),
        (
            {"resize": {**IMAGENET["resize"], "interpolation": "linear"}},
            "preprocess.resize.interpo",
            "linear",
        ),
        ({"resize": {**IMAGENET["resize"], "hight": 3}}, "preprocess.resize", "'height'"),
        ({"resize": {**IMAGENET["resize"], "pad_colour": [0, 0, 0]}}, "preprocess.resize.pad", "letterbox"),
        ({"resize": {**IMAGENET["resize"], "width": 0}}, "preprocess.resize.width", ""),
        ({"resize": {"width": 3, "height": 3, "method": "stretch"}}, "preprocess.resize", "'interpolation'"),
        ({"mode": "L", "mean": [], "std": [], "colour_order": "bgr"}, "preprocess.colour_order", ""),
    ],
)
def test_what_cannot_be_meant_is_refused_with_place_and_nearest_word(
    change: dict[str, Any], place: str, advice: str
) -> None:
    with pytest.raises(DataError) as caught:
        Preprocess.from_dict(IMAGENET | change)
    assert (caught.value.where or "").startswith(place)
    assert advice in (caught.value.next_step or "")


@pytest.mark.parametrize("key", ["mode", "layout"])
def test_mode_and_layout_have_no_default(key: str) -> None:
    with pytest.raises(DataError, match="missing"):
        Preprocess.from_dict({k: v for k, v in IMAGENET.items() if k != key})


def test_whole_numbers_and_floats_are_one_declaration() -> None:
    assert as_is(scale=2, mean=(1, 2, 3)).digest == as_is(scale=2.0, mean=(1.0, 2.0, 3.0)).digest


def test_defaults_and_their_explicit_values_are_one_declaration() -> None:
    explicit = as_is(scale=1, mean=(0, 0, 0), std=(1, 1, 1), background=(0, 0, 0))
    assert explicit == as_is()


def test_values_do_not_touch_the_geometry_digest_and_geometry_does() -> None:
    base = stretch(4, 4)
    assert stretch(4, 4, mean=(1, 1, 1), layout=Layout.NHWC, dtype="uint8").geometry_digest == (
        base.geometry_digest
    )
    assert stretch(4, 5).geometry_digest != base.geometry_digest
    assert stretch(4, 4, mode=Mode.L).geometry_digest != base.geometry_digest


def test_digest_is_fixed_across_versions() -> None:
    """Stored sets are found by it: a change here has to come with a raised REVISION."""
    text = canonical_json(Preprocess.from_dict(IMAGENET).to_dict()).decode()
    assert text == (
        '{"alpha":"refuse","background":[0,0,0],"centre_crop":[224,224],"colour_order":"rgb",'
        '"crop_rounding":"half_even","dtype":"float32","layout":"nchw","mean":[0.485,0.456,0.406],'
        '"mode":"RGB","resize":{"height":256,"interpolation":"bilinear","method":"shortest_side",'
        '"width":256},"scale":0.00392156862745098,"std":[0.229,0.224,0.225]}'
    )
    assert Preprocess.from_dict(IMAGENET).digest == hashlib.sha256(text.encode()).hexdigest()


def test_output_size_is_known_before_any_image() -> None:
    assert Preprocess.from_dict(IMAGENET).output_size == (224, 224)
    assert stretch(4, 7).output_size == (4, 7)
    assert as_is().output_size is None
