"""The classifier's settings: whole checks, in words."""

from functools import partial
from itertools import combinations

import calls
import photos
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.catalog import DATASETS
from tuner.vision.model_catalog import MODELS
from tuner.vision.settings import (
    COMBINED,
    ClassifierSettings,
    check_settings,
    resolve_model_settings,
)


def keys(**values):
    return [fault.key for fault in check_settings(values)]


@pytest.fixture
def photos_dir(tmp_path):
    return photos.write(tmp_path / "photos", each=10)


def test_check_settings_of_a_folder_uses_its_listing(photos_dir):
    settings = {"dataset": f"folder:{photos_dir}", "image_size": 16, "model": "resnet18"}
    assert keys(**settings, batch_size=22) == []
    (fault,) = check_settings({**settings, "batch_size": 23})
    assert (fault.key, fault.value) == ("batch_size", 23)
    assert keys(**{**settings, "image_size": 8}, batch_size=4) == ["model"]
    assert keys(**settings, cutout=17, crop_padding=9, batch_size=4) == ["crop_padding", "cutout"]
    assert keys(dataset=f"folder:{photos_dir}", image_size=3, batch_size=4) == ["image_size"]


def test_unknown_dataset_lists_all_forms():
    (fault,) = check_settings({"dataset": "cifar"})
    forms = {"folder:PATH", "hf:NAME", "torchvision:NAME", "my_module:load"}
    assert {*fault.choices} == {*DATASETS, *forms}
    assert "did you mean 'cifar10'?" in fault.rule


def test_check_settings_without_files_ignores_a_missing_folder(tmp_path):
    gone = {"dataset": f"folder:{tmp_path / 'gone'}", "batch_size": 8}
    assert keys(**gone) == ["dataset"]
    assert check_settings(gone, files=False) == []


@pytest.mark.parametrize(
    "values",
    [
        {"model": "net", "dataset": "cifar10", "l1": 8, "l2": 4, "data_dir": "/data"},
        {"precision": "float32", "dtype": "float64", "compile": True},
        {"batch_size": 64.0, "epochs": 3, "seed": 5},
        {"warmup_epochs": 0.5, "epochs": 1, "crop_scale": 0.35, "crop_padding": 0, "flip": True},
        {"lr_schedule": "step", "lr_steps": 5, "lr_step_factor": 0.2},
        {"lr_schedule": "step", "lr_steps": [3, 9.5], "mixup": 0.2, "cutmix": 1},
        {"class_weights": [1] * 9 + [0], "metrics": ["macro_f1", "top5_accuracy", "macro_f1"]},
    ],
)
def test_check_settings_of_sound_values_finds_no_fault(values):
    assert check_settings(values) == []


BEYOND = {
    "dataset": ["foldr", "foldr:my photos", "foldr:photos", "folder:", "cifar"],
    "lr": [0, float("nan")],
    "momentum": [1, -0.1],
    "weight_decay": [-1e-9],
    "label_smoothing": [1],
    "batch_size": [0, 1078],
    **{name: [0] for name in ("epochs", "width")},
    **{name: [-1] for name in ("seed", "split_seed")},
    "crop_padding": [5],
    "cutout": [9],
    "image_size": [16],
    "dtype": ["float16"],
    "precision": ["bfloat16"],
    "norm": ["layer"],
    "lr_schedule": ["linear"],
    "optimizer": ["adam", "lbfgs"],
    **{name: ["perhaps"] for name in ("compile", "flip")},
    "data_dir": ["/data"],
    **{name: [4] for name in ("l1", "l2")},
    "warmup_epochs": [-1, 10],
    "clip_grad_norm": [-1],
    "ema_decay": [1, -0.1],
    "mixup": [-1, 101],
    "cutmix": [float("nan")],
    "crop_scale": [0, 1.1, float("nan")],
    "decay_norms_and_biases": ["perhaps"],
    "lr_steps": [[3]],
    "lr_step_factor": [0.1],
    "class_weights": [[1, 2], [1] * 11, [0] * 10, "even", []]
    + [[1] * 9 + [value] for value in (-1, True, float("inf"))],
    "metrics": [["val_macro_f1"], {"macro_f1": 1}],
    **{name: [0.1] for name in ("muon_lr", "muon_momentum")},  # without Muon
    "unfreeze_epoch": [1],
    "freeze": [3, ["head", None]],
    "start_from": ["/nowhere/at/all.pt"],
    "train_layers": ["head"],  # of random weights
    "fit_head": [True],
    "pixel_stats": ["coco", 3],
    "folds": [1, 21, 2.5, 5],
    "crops_per_image": [-1, 65, 2],
    "fold_epochs": [0, 3],
}
NOT_IN_FOLDS = {"batch_size": 1150, "warmup_epochs": 4}
NOT_IN_FOLDS |= {"train_on": "train+validation"}
LBFGS = {"optimizer": "lbfgs", "train_layers": "head", "start_from": __file__}
NOT_BY_LBFGS = {"fit_head": True, "mixup": 0.1, "cutmix": 1, "ema_decay": 0.9, "clip_grad_norm": 1}
NOT_TOGETHER = [
    ("crop_scale", {"crop_scale": 0.5, "crop_padding": 2}),
    ("unfreeze_epoch", {"unfreeze_epoch": 0, "freeze": "x"}),
    ("freeze", {"train_layers": "head", "start_from": __file__, "freeze": "head"}),
    *((key, {**LBFGS, key: value}) for key, value in NOT_BY_LBFGS.items()),
    ("crops_per_image", {**LBFGS, "crops_per_image": 2}),  # of which no part is left out
    ("model", {"model": "resnet18", "dataset": "digits"}),
    ("pixel_stats.mean", {"pixel_stats": {"mean": [], "std": []}}),
    ("pixel_stats.mean.1", {"pixel_stats": {"mean": [0, "x"], "std": [1, 1]}}),
    ("pixel_stats.std.0", {"pixel_stats": {"mean": [0.5], "std": [0]}}),
    ("pixel_stats", {"pixel_stats": {"mean": [0.5], "std": [1, 1]}}),
    ("pixel_stats.mean", {"pixel_stats": {"mean": [0], "std": [1]}, "dataset": "cifar10"}),
    *((key, {"folds": 5, "fold_epochs": 4, key: value}) for key, value in NOT_IN_FOLDS.items()),
    *(("precision", {"precision": n, "dtype": "float64"}) for n in ("tf32", "bf16", "fp16")),
    *(
        ("lr_steps", {"lr_schedule": "step", "lr_steps": steps})  # epochs that rise
        for steps in ([], 0, [0, 1], [3, 3], [3, 2], [10], [1, 11], -1, "5", [None], True)
    ),
]


@pytest.mark.parametrize(
    ("key", "values"),
    [*((key, {key: v}) for key, beyond in BEYOND.items() for v in beyond), *NOT_TOGETHER],
)
def test_check_settings_names_the_key_beyond_its_bound(key, values):
    assert keys(**values) == [key]


def test_check_settings_rejects_a_model_for_other_images():
    (fault,) = check_settings({"model": "net"})
    taking = {n for n, info in MODELS.items() if info.can_take(channels=1, image_size=8)}
    assert {"cnn", "resnet20"} <= taking
    assert not {"net", "resnet18"} & taking
    assert fault.choices == tuple(sorted(taking))


def test_model_settings_fill_in_the_models_defaults():
    assert resolve_model_settings(ClassifierSettings()) == {"width": 16, "norm": "batch"}
    group = ClassifierSettings(width=3, norm="group")
    assert resolve_model_settings(group) == {"width": 3, "norm": "group"}
    net = ClassifierSettings(model="net", dataset="cifar10", l1=7)
    assert resolve_model_settings(net) == {"l1": 7, "l2": 84}


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


@pytest.mark.parametrize(
    ("values", "split", "keys"),
    [
        ({"norm": "group"}, 12, []),
        ({"norm": "group"}, 13, ["model"]),
        ({}, 2, ["norm"]),
        ({"model": "net", "dataset": "cifar10"}, 2, ["model"]),
        ({"norm": "group", "freeze": "features", "compile": True}, 2, ["freeze", "compile"]),
        ({"norm": "group", "precision": "fp16"}, 2, ["precision"]),
    ],
)
def test_check_settings_of_a_split_rejects_what_stages_lack(values, split, keys):
    assert [fault.key for fault in check_settings(values, split=split)] == keys
    assert check_settings(values) == []


BASES = ({}, {"freeze": ["head"]}, {"start_from": "a.safetensors", "train_layers": "head"})
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
NEVER_SEARCHED = {"train_on", "folds", "fold_epochs", "resplit", "image_size", "weights_sha256"}


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
            values += {convert(n) for n in (kind.get("minimum", 1), kind.get("maximum", 8), 0.5, 4)}
    return values


@pytest.mark.parametrize("base", BASES)
def test_settings_that_fail_together_alone_are_among_the_combined_ones(base):
    def is_sound(values):
        return not check_settings({**base, **values}, files=False)

    sound = [
        (name, value)
        for name in ClassifierSettings.model_fields.keys() - base.keys() - NEVER_SEARCHED
        for value in list_values(name)
        if is_sound({name: value})
    ]
    failing = {
        name
        for (one, value), (other, beside) in combinations(sound, 2)
        if one != other and not is_sound({one: value, other: beside})
        for name in (one, other)
    }
    assert failing
    assert failing <= COMBINED
