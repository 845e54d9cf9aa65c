"""Networks of the user's own: what is told of them before one is built, and how one is called."""

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


def faults(name, **model_args):
    return [str(fault) for fault in model_info(own(name)).faults(model_args)]


def test_it_gets_what_it_takes_and_the_arguments_that_are_set():
    assert build("Small").head.out_features == 5
    assert build("Small", width=8).conv.weight.shape[:2] == (8, 3)
    assert build("Flat").norm.num_features == 3 * 8 * 8
    assert build("any_arguments", width=6).conv.out_channels == 6
    assert build("wide").head.out_features == 6


def test_nothing_is_imported_to_name_one(tmp_path, monkeypatch):
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
    assert [str(f) for f in check_settings({"model": path}, files=False)] == [
        f"model: must not be of Python's standard library, got '{path}'"
    ]


@pytest.mark.parametrize(
    ("name", "model_args", "told"),
    [
        ("Small", {}, []),
        ("Small", {"width": 8, "dropout": 0.1}, []),
        ("any_arguments", {"anything": 1}, []),
        (
            "Small",
            {"widht": 8},
            [
                "model_args.widht: unknown argument of Small 'widht' (did you mean 'width'?); "
                "available: dropout, width"
            ],
        ),
        (
            "Small",
            {"num_classes": 8},
            ["model_args.num_classes: follows from the data set, so it cannot be set"],
        ),
        ("wide", {"x": 1}, ["model_args.x: wide takes no arguments"]),
        ("needing", {}, ["model_args.depth: is required: needing has no default"]),
        ("needing", {"depth": 3}, []),
        ("positional", {}, ["model: positional must take its arguments by name, and not"]),
        ("SHAPELESS", {}, ["model: cannot be imported (AttributeError: module 'own_networks'"]),
        ("pytest.x", {}, ["model: cannot be imported (AttributeError"]),
        ("F.one_hot", {}, ["model: must not be a function that is implemented in C"]),
    ],
)
def test_faults_of_arguments_name_rule_and_choices(name, model_args, told):
    got = faults(name, **model_args)
    assert len(got) == len(told)
    for fault, beginning in zip(got, told, strict=True):
        assert fault.startswith(beginning)


def test_the_arguments_are_checked_again_where_it_is_built():
    with pytest.raises(SpecError, match="unknown argument of Small 'depth'"):
        build("Small", depth=3)


def test_the_settings_tell_all_of_it():
    values = {"model": own("Small"), "model_args": {"width": 8, "depth": 1}, "norm": "group"}
    told = sorted(str(fault) for fault in check_settings(values))
    assert told == [
        "model_args.depth: unknown argument of Small 'depth' (did you mean 'width'?); "
        "available: dropout, width",
        "norm: is not used by model 'own_networks:Small', which uses model_args, got 'group'",
    ]
    [fault] = check_settings({"model": "cnn", "model_args": {"width": 8}})
    assert fault.rule == "is not used by model 'cnn', which uses norm, width"
    [fault] = check_settings({"model": own("Small"), "pretrained": True})
    assert fault.rule == f"is not used by model '{own('Small')}': set start_from"
    [fault] = check_settings({"model": own("Small")}, split=2)
    assert fault.rule == "cannot be split into stages"
