"""Custom networks: their faults before one is built, and the arguments of the call."""

import sys

import pytest
from own_networks import own

from tuner.errors import SpecError
from tuner.settings import FaultsError
from tuner.vision.catalog import model_info
from tuner.vision.settings import check_settings

SHAPE = {"in_channels": 3, "num_classes": 5, "image_size": 8}


def build(name, **model_args):
    return model_info(own(name)).build(**SHAPE, model_args=model_args)


def test_build_passes_the_named_and_the_given_arguments():
    assert build("Small").head.out_features == 5
    assert build("Small", width=8).conv.weight.shape[:2] == (8, 3)
    assert build("Flat").norm.num_features == 3 * 8 * 8
    assert build("any_arguments", width=6).conv.out_channels == 6
    assert build("wide").head.out_features == 6


def test_model_info_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert model_info("never_imported:Net").foreign
    assert check_settings({"model": "never_imported:Net"}, files=False) == []
    assert "never_imported" not in sys.modules


@pytest.mark.parametrize("path", ["my net:Net", "a:", ":b", "a.b:c d", "a:b:c", "a/b:C"])
def test_model_info_rejects_malformed_paths(path):
    with pytest.raises(FaultsError, match=r"must be a dotted path, as in 'my_module:MyNet'"):
        model_info(path)


@pytest.mark.parametrize("path", ["os:system", "builtins:exec", "logging.config:dictConfig"])
def test_model_info_rejects_the_standard_library(path):
    with pytest.raises(FaultsError, match="must not be of Python's standard library"):
        model_info(path)
    assert [fault.key for fault in check_settings({"model": path}, files=False)] == ["model"]


@pytest.mark.parametrize(
    ("name", "model_args", "beginnings"),
    [
        ("Small", {}, []),
        ("Small", {"width": 8, "dropout": 0.1}, []),
        ("any_arguments", {"anything": 1}, []),
        ("Small", {"widht": 8}, ["model_args.widht: unknown argument of Small 'widht' (did you"]),
        ("Small", {"num_classes": 8}, ["model_args.num_classes: follows from the data set"]),
        ("wide", {"x": 1}, ["model_args.x: wide takes no arguments"]),
        ("needing", {}, ["model_args.depth: is required: needing has no default"]),
        ("needing", {"depth": 3}, []),
        ("positional", {}, ["model: positional must take its arguments by name, and not"]),
        ("SHAPELESS", {}, ["model: cannot be imported (AttributeError: module 'own_networks'"]),
        ("pytest.x", {}, ["model: cannot be imported (AttributeError"]),
        ("F.one_hot", {}, ["model: must not be a function that is implemented in C"]),
    ],
)
def test_faults_of_arguments_name_key_and_rule(name, model_args, beginnings):
    faults = [str(fault) for fault in model_info(own(name)).faults(model_args)]
    assert len(faults) == len(beginnings)
    assert all(map(str.startswith, faults, beginnings))


def test_build_checks_the_arguments_again():
    with pytest.raises(SpecError, match="unknown argument of Small 'depth'"):
        build("Small", depth=3)


@pytest.mark.parametrize(
    ("values", "split", "keys"),
    [
        (
            {"model_args": {"width": 8, "depth": 1}, "norm": "group"},
            1,
            ["norm", "model_args.depth"],
        ),
        ({"model": "cnn", "model_args": {"width": 8}}, 1, ["model_args"]),
        ({"pretrained": True}, 1, ["pretrained"]),
        ({}, 2, ["model"]),
    ],
)
def test_check_settings_of_a_custom_network_reports_all_faults(values, split, keys):
    faults = check_settings({"model": own("Small"), **values}, split=split)
    assert [fault.key for fault in faults] == keys
