"""The classifier's settings: whole checks, in words."""

import re
from functools import partial
from itertools import product

import calls
import photos
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.settings import (
    COMBINED,
    ClassifierSettings,
    check_settings,
)


def keys(**values):
    return [fault.key for fault in check_settings(values)]


@pytest.fixture
def photos_dir(tmp_path):
    return photos.write(tmp_path / "photos", each=10)


def test_check_settings_of_a_folder_uses_its_listing(snapshot, photos_dir):
    settings = {"dataset": f"folder:{photos_dir}", "image_size": 16, "batch_size": 4}
    assert (
        keys(**settings, model="resnet18")
        == keys(**settings | {"batch_size": 22})
        == []
    )
    for changes in (
        {"batch_size": 23},
        {"image_size": 8, "model": "resnet18"},
        {"cutout": 17, "crop_padding": 9},
        {"image_size": 3},
    ):
        show_faults(snapshot, settings | changes)


def test_check_settings_without_files_ignores_a_missing_folder(tmp_path):
    gone = {"dataset": f"folder:{tmp_path / 'gone'}", "batch_size": 8}
    assert keys(**gone) == ["dataset"]
    assert check_settings(gone, files=False) == []


@pytest.mark.parametrize(
    "values",
    [
        {"precision": "float32", "dtype": "float64", "compile": True},
        {"batch_size": 64.0},
        {"warmup_epochs": 0.5, "epochs": 1, "crop_scale": 0.35, "crop_padding": 0},
        {"lr_schedule": "step", "lr_steps": 5, "lr_step_factor": 0.2},
        {"class_weights": [1] * 9 + [0], "metrics": ["macro_f1", "macro_f1"]},
    ],
)
def test_check_settings_of_sound_values_finds_no_fault(values):
    assert check_settings(values) == []


# A bound is in docs/spec.md, too; here are those that another setting or the data set decides
BEYOND = {
    "dataset": ["foldr", "foldr:my photos", "foldr:photos", "folder:", "cifar"],
    "lr": [float("nan")],
    "batch_size": [1078],
    "width": [0],
    "crop_padding": [5],
    "cutout": [9],
    "image_size": [16],
    "norm": ["layer"],
    "optimizer": ["adam", "lbfgs"],
    "data_dir": ["/data"],
    "l1": [4],
    "warmup_epochs": [10],
    "lr_steps": [[3]],
    "lr_step_factor": [0.1],
    "class_weights": [[1, 2], [1] * 11, [0] * 10, "even", []]
    + [[1] * 9 + [value] for value in (-1, True, float("inf"))],
    "metrics": [["val_macro_f1"], {"macro_f1": 1}],
    "muon_lr": [0.1],  # without Muon
    "muon_momentum": [0.1],
    "unfreeze_epoch": [1],
    "freeze": [3, ["head", None]],
    "start_from": ["/nowhere/at/all.pt"],
    "train_layers": ["head"],  # of random weights
    "fit_head": [True],
    "pixel_stats": ["coco", 3],
    "folds": [5],
    "crops_per_image": [2],
    "fold_epochs": [3],
}
LBFGS = {"optimizer": "lbfgs", "train_layers": "head", "start_from": __file__}
NOT_BY_LBFGS = {
    "fit_head": True,
    "mixup": 0.1,
    "cutmix": 1,
    "ema_decay": 0.9,
    "clip_grad_norm": 1,
}
NOT_BY_LBFGS |= {"crops_per_image": 2}  # of which no part is left out
NOT_IN_FOLDS = {"batch_size": 1150, "warmup_epochs": 4, "train_on": "train+validation"}
# No rising epochs
STEPS = ([], 0, [0, 1], [3, 3], [3, 2], [10], [1, 11], -1, "5", [None], True)
NOT_TOGETHER = [
    {"dataset": "cifar"},  # all forms of a data set are listed
    {"model": "net"},  # all models that take the images are listed
    {"crop_scale": 0.5, "crop_padding": 2},
    {"unfreeze_epoch": 0, "freeze": "x"},
    {"train_layers": "head", "start_from": __file__, "freeze": "head"},
    *({**LBFGS, key: value} for key, value in NOT_BY_LBFGS.items()),
    {"model": "resnet18", "dataset": "digits"},
    {"pixel_stats": {"mean": [0, "x"], "std": [1, 1]}},
    {"pixel_stats": {"mean": [0.5], "std": [0]}},
    {"pixel_stats": {"mean": [0.5], "std": [1, 1]}},
    {"pixel_stats": {"mean": [0], "std": [1]}, "dataset": "cifar10"},
    *(
        {"folds": 5, "fold_epochs": 4, key: value}
        for key, value in NOT_IN_FOLDS.items()
    ),
    *({"precision": name, "dtype": "float64"} for name in ("tf32", "bf16", "fp16")),
    *({"lr_schedule": "step", "lr_steps": steps} for steps in STEPS),
]


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, beyond in BEYOND.items() for value in beyond],
)
def test_check_settings_names_the_key_beyond_its_bound(key, value):
    assert keys(**{key: value}) == [key]


def test_check_settings_names_the_key_within_pixel_stats():
    assert keys(pixel_stats={"mean": [], "std": []}) == ["pixel_stats.mean"]


def show_faults(snapshot, values, **how):
    faults = map(str, check_settings(values, **how))
    snapshot(
        "\n".join([f"{values} {how or ''}", *faults]),
        {re.escape(__file__): "THIS FILE"},
    )


def test_check_settings_names_what_excludes_another(snapshot):
    for values in NOT_TOGETHER:
        show_faults(snapshot, values)


def test_check_settings_makes_few_calls():
    """Each config of a search is checked; what the first of them imports is not counted."""
    checked = partial(check_settings, {"lr": 0.1, "batch_size": 64, "width": 8})
    checked()
    assert calls.made_by(checked) < 500


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "cnn", "net", "cifar10", "3", "x"]),
    st.lists(st.none()),
)
NAMES = st.sampled_from([*ClassifierSettings.model_fields, "other"])


@given(st.dictionaries(NAMES, ANYTHING))
def test_check_settings_of_any_values_names_key_or_builds(values):
    faults = check_settings(values)
    if not faults:
        ClassifierSettings.model_validate(values)
    assert {fault.key for fault in faults} <= values.keys()


SPLIT = [
    ({"norm": "group"}, 12),
    ({"norm": "group"}, 13),
    ({}, 2),
    ({"model": "net", "dataset": "cifar10"}, 12),
    ({"norm": "group", "freeze": "features", "compile": True}, 2),
    ({"norm": "group", "precision": "fp16"}, 2),
]


def test_check_settings_of_a_split_rejects_what_stages_lack(snapshot):
    for values, split in SPLIT:
        show_faults(snapshot, values, split=split)
        assert check_settings(values) == []


BASES = (
    {},
    {"freeze": ["head"]},
    {"start_from": "a.safetensors", "train_layers": "head"},
)
EXTREMES = {
    "model": ("resnet18", "mlp"),
    "dataset": ("cifar10",),
    "start_from": ("weights.safetensors",),
    "pixel_stats": ("imagenet",),
    "freeze": ("head",),
    "metrics": (["macro_f1"],),
    "lr_steps": ([2], [9]),
    "class_weights": ("balanced", [1.0] * 10),
    "model_args": ({"width": 8},),
}


def list_values(name):
    """Values of a setting, its bounds among them."""
    if name in EXTREMES:
        return EXTREMES[name]
    schema = ClassifierSettings.model_json_schema()["properties"][name]
    values = []
    for kind in (schema, *schema.get("anyOf", ())):
        values += kind.get("enum", ())
        if kind.get("type") == "boolean":
            values += [True, False]
        if kind.get("type") in ("integer", "number"):
            convert = int if kind["type"] == "integer" else float
            values += {
                convert(n)
                for n in (kind.get("minimum", 1), kind.get("maximum", 8), 0.5, 4)
            }
    return values


@pytest.mark.parametrize("base", BASES)
def test_settings_that_are_not_combined_fail_with_no_other_one(base):
    def is_sound(values):
        return not check_settings({**base, **values}, files=False)

    sound = [
        (name, value)
        for name in ClassifierSettings.model_fields.keys() - base.keys()
        for value in list_values(name)
        if is_sound({name: value})
    ]
    alone = [(name, value) for name, value in sound if name not in COMBINED]
    assert {
        name for name, _ in alone
    } == ClassifierSettings.model_fields.keys() - COMBINED
    for (one, value), (other, beside) in product(alone, sound):
        assert is_sound({other: beside, one: value}), (one, other)
