"""The classifier's settings: whole checks, in words."""

from functools import partial

import calls
import photos
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.catalog import MODELS
from tuner.vision.settings import ClassifierSettings, check_settings, model_settings


def keys(**values):
    return [fault.key for fault in check_settings(values)]


@pytest.fixture
def place(tmp_path):
    return photos.write(tmp_path / "photos", each=10)


def told(**values):
    return [str(fault) for fault in check_settings(values)]


def test_images_of_the_users_own_are_checked_by_what_is_listed(place):
    own = {"dataset": f"folder:{place}", "image_size": 16, "model": "resnet18"}
    assert told(**own, batch_size=22) == []
    assert told(**own, batch_size=23) == [
        f"batch_size: must be at most the number of training images of dataset 'folder:{place}', "
        "22, got 23"
    ]
    assert keys(**{**own, "image_size": 8}, batch_size=4) == ["model"]
    assert keys(**own, cutout=17, crop_padding=9, batch_size=4) == ["crop_padding", "cutout"]
    assert keys(dataset=f"folder:{place}", image_size=3, batch_size=4) == ["image_size"]


def test_unknown_dataset_lists_forms_and_the_nearest():
    (fault,) = told(dataset="foldr")
    assert fault.startswith(
        "dataset: unknown dataset 'foldr' (did you mean 'folder'?); available: "
    )
    assert fault.endswith(", folder:PATH, hf:NAME, torchvision:NAME, my_module:load")
    (fault,) = told(dataset="foldr:my photos")
    assert fault.startswith("dataset: unknown dataset 'foldr:my photos' (did you mean 'folder'?)")
    (fault,) = told(dataset="foldr:photos")
    assert fault.startswith("dataset: cannot be imported (ModuleNotFoundError")
    assert keys(dataset="folder:") == ["dataset"]


def test_a_folder_that_is_not_there_matters_only_where_it_is_looked_for(tmp_path):
    gone = {"dataset": f"folder:{tmp_path / 'gone'}", "batch_size": 8}
    assert "dataset: no folder" in told(**gone)[0]
    assert check_settings(gone, files=False) == []


def test_the_size_of_images_is_of_the_users_own_alone():
    rule = "image_size: is not used by dataset 'digits', whose images have 8 px, got 16"
    assert told(image_size=16) == [rule]


def test_defaults_have_no_fault():
    assert check_settings({}) == []


@pytest.mark.parametrize(
    "values",
    [
        {"model": "net", "dataset": "cifar10", "l1": 8, "l2": 4, "data_dir": "/data"},
        {"model": "resnet20", "norm": "group"},
        {"model": "resnet18", "dataset": "cifar10", "crop_padding": 4, "flip": True, "cutout": 8},
        {"optimizer": "adamw", "momentum": 0.8, "lr_schedule": "one_cycle", "width": 8},
        {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "dtype": "float64"},
        {"precision": "bf16", "compile": True},
        {"precision": "float32", "dtype": "float64"},
        {"batch_size": 64.0, "epochs": 3, "seed": 5},
    ],
)
def test_sound_settings_have_no_fault(values):
    assert check_settings(values) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lr", 0),
        ("lr", float("nan")),
        ("momentum", 1),
        ("momentum", -0.1),
        ("weight_decay", -1e-9),
        ("label_smoothing", 1),
        ("batch_size", 0),
        ("batch_size", 1078),
        ("epochs", 0),
        ("width", 0),
        ("crop_padding", 5),
        ("cutout", 9),
        ("seed", -1),
        ("split_seed", -1),
        ("dtype", "float8"),
        ("precision", "bfloat16"),
        ("compile", "perhaps"),
        ("norm", "layer"),
        ("lr_schedule", "linear"),
        ("optimizer", "adam"),
        ("flip", "perhaps"),
        ("alternating_flip", True),
        ("norm_bias_lr", 0),
        ("data_dir", "/data"),
        ("l1", 4),
        ("l2", 4),
    ],
)
def test_each_bound_is_held(key, value):
    assert keys(**{key: value}) == [key]


def test_unknown_names_list_the_choices_and_the_nearest():
    (fault,) = check_settings({"model": "ResNet-20"})
    assert str(fault).startswith("model: unknown model 'ResNet-20' (did you mean 'resnet20'?)")
    (fault,) = check_settings({"model": "resnet50"})
    assert "(did you mean 'torchvision:resnet50' or 'timm:resnet50'?)" in str(fault)
    elsewhere = {"my_module:MyNet", "torchvision:NAME", "timm:NAME"}
    assert set(fault.choices) == {*MODELS, *elsewhere}
    (fault,) = check_settings({"dataset": "cifar"})
    assert "did you mean 'cifar10'?" in str(fault)
    (fault,) = check_settings({"dataset": "cifar100"})
    assert "did you mean" not in str(fault)
    (fault,) = check_settings({"momentun": 0.9})
    assert "did you mean 'momentum'?" in str(fault)


def test_check_settings_reports_all_faults_at_once():
    faults = keys(model="net", dataset="digits", lr=-1, norm="batch", cutout=99, nope=1)
    assert sorted(faults) == ["cutout", "lr", "model", "nope", "norm"]


def test_a_hyperparameter_that_the_model_does_not_use_is_a_fault():
    (fault,) = check_settings({"l1": 64})
    assert str(fault) == "l1: is not used by model 'cnn', which uses norm, width, got 64"
    assert keys(model="net", dataset="cifar10", norm="batch", width=3) == ["norm", "width"]
    assert keys(model="resnet20", width=3) == ["width"]


def test_a_model_must_take_the_images():
    (fault,) = check_settings({"model": "net"})
    assert "takes 3x32x32 images and dataset 'digits' has 1x8x8" in str(fault)
    taking = {n for n, info in MODELS.items() if info.takes(channels=1, image_size=8)}
    assert {"cnn", "resnet20"} <= taking
    assert not {"net", "resnet18", "speednet"} & taking
    assert fault.choices == tuple(sorted(taking))
    assert keys(model="resnet18", dataset="digits") == ["model"]


def test_model_settings_are_the_given_ones_or_the_models_defaults():
    assert model_settings(ClassifierSettings()) == {"width": 16, "norm": "batch"}
    assert model_settings(ClassifierSettings(width=3, norm="group")) == {
        "width": 3,
        "norm": "group",
    }
    net = ClassifierSettings(model="net", dataset="cifar10", l1=7)
    assert model_settings(net) == {"l1": 7, "l2": 84}


@pytest.mark.parametrize("precision", ["tf32", "bf16", "fp16"])
def test_half_precision_is_of_float32(precision):
    (fault,) = check_settings({"precision": precision, "dtype": "float64"})
    assert str(fault).startswith("precision: applies to dtype 'float32', and dtype is 'float64'")


def test_a_check_costs_next_to_nothing():
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
def test_any_values_either_build_or_have_a_fault_that_names_a_given_key(values):
    faults = check_settings(values)
    if not faults:
        ClassifierSettings.model_validate(values)
    assert {fault.key for fault in faults} <= values.keys()


@pytest.mark.parametrize(
    ("values", "split", "told"),
    [
        ({"norm": "group"}, 12, []),
        ({"norm": "group"}, 13, ["model"]),
        ({}, 2, ["norm"]),
        ({"model": "net", "dataset": "cifar10"}, 2, ["model"]),
        ({"norm": "group", "freeze": "features", "compile": True}, 2, ["freeze", "compile"]),
        ({"norm": "group", "precision": "fp16"}, 2, ["precision"]),
    ],
)
def test_check_settings_of_a_split_rejects_what_stages_lack(values, split, told):
    assert [fault.key for fault in check_settings(values, split=split)] == told
    assert check_settings(values) == []


def test_model_that_cannot_be_split_lists_those_that_can():
    values = {"model": "speednet", "dataset": "cifar10"}
    (fault,) = check_settings(values, split=13)
    able = sorted(name for name, info in MODELS.items() if info.layers >= 13)
    assert {"resnet18", "resnet20"} <= set(able)
    assert not {"cnn", "net", "speednet"} & set(able)
    listed = ", ".join(able)
    assert str(fault) == f"model: cannot be split into stages, got 'speednet'; available: {listed}"
