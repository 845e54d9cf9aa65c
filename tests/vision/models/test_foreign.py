"""Custom networks and those of libraries, which are skipped where these are not installed."""

import sys
from pathlib import Path

import pytest
import torch
from own_networks import import_torchvision, own
from torch import nn

from tuner.errors import CheckpointError
from tuner.spec.settings import FaultsError
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.model_catalog import find_model_info
from tuner.vision.models import _foreign
from tuner.vision.models._foreign import NETWORKS
from tuner.vision.models._torchvisions import build_network
from tuner.vision.settings import check_settings

CUSTOM_SHAPE = {"in_channels": 3, "num_classes": 5, "image_size": 8}


def build(name, **model_args):
    return find_model_info(own(name)).build(**CUSTOM_SHAPE, model_args=model_args)


def test_build_passes_declared_and_user_arguments():
    small = build("Small", width=8)
    assert small.head.out_features == 5
    assert small.conv.weight.shape[:2] == (8, 3)
    assert build("Flat").norm.num_features == 3 * 8 * 8
    assert build("any_arguments", width=6).conv.out_channels == 6


def test_model_info_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "never_imported.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_model_info("never_imported:Net").foreign
    assert check_settings({"model": "never_imported:Net"}, files=False) == []
    assert "never_imported" not in sys.modules


@pytest.mark.parametrize("path", ["my net:Net", "a:", ":b", "a:b:c", "a/b:C"])
def test_model_info_rejects_malformed_paths(snapshot, path):
    with snapshot.raises(FaultsError):
        find_model_info(path)


@pytest.mark.parametrize(
    "path", ["os:system", "builtins:exec", "logging.config:dictConfig"]
)
def test_model_info_rejects_the_standard_library(snapshot, path):
    with snapshot.raises(FaultsError):
        find_model_info(path)
    assert [fault.key for fault in check_settings({"model": path}, files=False)] == [
        "model"
    ]


ARGUMENTS = [
    ("Small", {"width": 8, "dropout": 0.1}),
    ("any_arguments", {"anything": 1}),
    ("Small", {"widht": 8}),
    ("Small", {"num_classes": 8}),
    ("wide", {"x": 1}),
    ("needing", {}),
    ("needing", {"depth": 3}),
    ("positional", {}),
    ("OWN_SHAPELESS", {}),
    ("F.one_hot", {}),
]


def test_faults_of_arguments_name_the_key(snapshot):
    for name, model_args in ARGUMENTS:
        faults = find_model_info(own(name)).faults(model_args)
        snapshot("\n".join([f"{name} {model_args}", *map(str, faults)]))


SETTINGS = [
    ({"model_args": {"width": 8, "depth": 1}, "norm": "group"}, 1),
    ({"model": "cnn", "model_args": {"width": 8}}, 1),
    ({"pretrained": True}, 1),
    ({}, 2),
]


def test_check_settings_of_a_custom_network_reports_all_faults(snapshot):
    for values, split in SETTINGS:
        faults = check_settings({"model": own("Small"), **values}, split=split)
        snapshot("\n".join([f"{values}, split {split}", *map(str, faults)]))


SHAPE = {"in_channels": 1, "num_classes": 5, "image_size": 32}


@pytest.fixture
def torchvision():
    return import_torchvision()


@pytest.fixture
def timm():
    import_torchvision()
    return pytest.importorskip("timm")


@pytest.fixture
def package(tmp_path, monkeypatch, forget):
    """A torchvision whose import would be seen."""
    models = tmp_path / "torchvision/models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text("raise SystemExit('imported')")
    (models / "nets.py").write_text(
        "@register_model()\n@handle(weights=1)\ndef resnet9(*, weights=None): ...\n"
        "@register_model\ndef vgg5(): ...\ndef helper(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    forget("torchvision")
    return models


def test_model_info_reads_names_without_an_import(snapshot, package):
    assert find_model_info("torchvision:resnet9").foreign
    assert find_model_info("torchvision:vgg5").settings.model_fields.keys() == {
        "model_args"
    }
    for wrong in ("helper", "resnet99", "", "resnet9.tag"):
        with snapshot.raises(FaultsError):
            find_model_info(f"torchvision:{wrong}")
    with snapshot.raises(FaultsError):
        find_model_info("torchvision:resnet99")
    assert "torchvision" not in sys.modules


def test_networks_that_ship_stand_in_for_a_missing_torchvision(monkeypatch):
    monkeypatch.setattr(_foreign, "find_spec", lambda name: None)
    info = find_model_info("torchvision:mobilenet_v3_small")
    assert info.foreign
    assert list(info.faults({})) == []
    [fault] = info.faults({"dropout": 0.1})
    assert fault.key == "model_args.dropout"
    assert "needs a package" in fault.rule
    model = info.build(**SHAPE, model_args={}).eval()
    assert model(torch.zeros(2, 1, 32, 32)).shape == (2, 5)
    assert check_settings({"model": "torchvision:resnet50", "pretrained": True}) == []


def test_names_include_all_of_torchvision(torchvision):
    from torchvision.models import list_models

    names = _foreign._list_networks(Path(torchvision.__file__).parent / "models")
    assert names == {*list_models(module=torchvision.models)}


def test_names_include_all_of_timm(timm):
    names = _foreign._list_networks(Path(timm.__file__).parent / "models")
    assert names >= {*timm.list_models()}
    assert find_model_info("timm:resnet18.a1_in1k").foreign


@pytest.mark.parametrize(
    "name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "densenet121"]
)
def test_torchvision_network_takes_images_of_any_channels(torchvision, name):
    info = find_model_info(f"torchvision:{name}")
    grey = info.build(**SHAPE, model_args={}).eval()
    colour = info.build(**{**SHAPE, "in_channels": 3}, model_args={})
    with torch.no_grad():
        assert grey(torch.zeros(2, 1, 64, 64)).shape == (2, 5)
    first, expected = (
        next(m for m in network.modules() if isinstance(m, nn.Conv2d))
        for network in (grey, colour)
    )
    assert str(first) == str(expected).replace("Conv2d(3", "Conv2d(1")


def test_timm_network_trains(timm):
    constants = {"dataset": "tiny", "batch_size": 13, "epochs": 1}
    network = {"model": "timm:test_resnet", "model_args": {"drop_rate": 0.1}}
    learner = ImageClassifier({"lr": 0.01}, {**constants, **network})
    assert 0 <= learner.step()["val_accuracy"] <= 1


def test_timm_weights_come_only_from_its_cache(timm, tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        CheckpointError, match=r"timm.create_model\('resnet18', pretrained=True\)"
    ):
        find_model_info("timm:resnet18").pretrained(None)
    # Without refs/main, as on a node that got the file from another
    path = tmp_path / "models--timm--resnet18.a1_in1k/snapshots/abc/model.safetensors"
    path.parent.mkdir(parents=True)
    path.touch()
    assert find_model_info("timm:resnet18").pretrained(None) == path


@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_torchvisions_bit_for_bit(name):
    """With the same seed, too: a trial is the same on a machine without torchvision."""
    torchvision = import_torchvision()
    torch.manual_seed(1)
    theirs = torchvision.models.get_model(name, weights=None)
    torch.manual_seed(1)
    ours = build_network(name, 1000)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for buffer in [*theirs.buffers()]:
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    x = torch.randn(2, 3, 97, 97)
    for training in (False, True):
        torch.manual_seed(2)
        expected = theirs.train(training)(x)
        torch.manual_seed(2)
        assert torch.equal(ours.train(training)(x), expected)
