"""Networks of torchvision and timm; most of it skips itself where they are not installed."""

import sys
from pathlib import Path

import pytest
import torch
from fresh import ran
from own_networks import import_torchvision
from torch import nn

from tuner.errors import CheckpointError
from tuner.settings import FaultsError
from tuner.vision.catalog import model_info
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.models import _libraries

SHAPE = {"in_channels": 1, "num_classes": 5, "image_size": 32}


@pytest.fixture
def torchvision():
    return import_torchvision()


@pytest.fixture
def timm():
    import_torchvision()
    return pytest.importorskip("timm")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A torchvision whose import would be seen."""
    models = tmp_path / "torchvision" / "models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").write_text("raise SystemExit('imported')")
    (models / "nets.py").write_text(
        "@register_model()\n@handle(weights=1)\ndef resnet9(*, weights=None): ...\n"
        "@register_model\ndef vgg5(): ...\ndef helper(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    return models


def test_model_info_reads_names_without_an_import(package):
    assert model_info("torchvision:resnet9").foreign
    assert model_info("torchvision:vgg5").settings.model_fields.keys() == {"model_args"}
    for wrong in ("helper", "resnet99", "", "resnet9.tag"):
        with pytest.raises(FaultsError, match=f"unknown network of torchvision '{wrong}'"):
            model_info(f"torchvision:{wrong}")
    with pytest.raises(FaultsError, match=r"did you mean 'resnet9'"):
        model_info("torchvision:resnet99")
    assert "torchvision" not in sys.modules


def test_faults_reject_arguments_that_are_settings(package):
    faults = model_info("torchvision:resnet9").faults({"weights": None, "width_per_group": 3})
    assert [fault.key for fault in faults] == ["model_args.weights"]


@pytest.mark.parametrize("library", _libraries.LIBRARIES)
def test_model_info_of_a_missing_package_says_how_to_install_it(library, monkeypatch):
    monkeypatch.setattr(_libraries, "find_spec", lambda name: None)
    with pytest.raises(FaultsError, match=rf"a package: pip .* 'tuner\[{library}\]'"):
        model_info(f"{library}:resnet18")


def test_names_include_all_of_torchvision(torchvision):
    from torchvision.models import list_models

    known = _libraries._names(Path(torchvision.__file__).parent / "models")
    assert known == {*list_models(module=torchvision.models)}


def test_names_include_all_of_timm(timm):
    known = _libraries._names(Path(timm.__file__).parent / "models")
    assert known >= {*timm.list_models()}
    assert model_info("timm:resnet18.a1_in1k").foreign


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "densenet121"])
def test_torchvision_network_takes_images_of_any_channels(torchvision, name):
    model = model_info(f"torchvision:{name}").build(**SHAPE, model_args={}).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 1, 64, 64)).shape == (2, 5)
    colour = model_info(f"torchvision:{name}").build(**{**SHAPE, "in_channels": 3}, model_args={})
    first = [next(m for m in n.modules() if isinstance(m, nn.Conv2d)) for n in (model, colour)]
    assert [conv.in_channels for conv in first] == [1, 3]
    same = ("out_channels", "kernel_size", "stride", "padding", "dilation")
    assert all(getattr(first[0], key) == getattr(first[1], key) for key in same)
    assert (first[0].bias is None) == (first[1].bias is None)


def test_torchvision_network_gets_its_arguments(torchvision):
    vit = model_info("torchvision:vit_b_16").build(
        **SHAPE, model_args={"image_size": 32, "dropout": 0.1}
    )
    assert vit.image_size == 32


def test_timm_network_trains(timm):
    constants = {"model": "timm:test_resnet", "dataset": "tiny", "batch_size": 13, "epochs": 1}
    learner = ImageClassifier({"lr": 0.01}, {**constants, "model_args": {"drop_rate": 0.1}})
    assert 0 <= learner.step()["val_accuracy"] <= 1


def test_torchvision_network_trains_from_pretrained_weights_on_disk(
    torchvision, tmp_path, monkeypatch, capsys
):
    """Its head is new, and its first convolution is that for the images' channels."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    settings = {"model": "torchvision:resnet18", "dataset": "tiny", "batch_size": 13, "epochs": 2}
    settings |= {"pretrained": True, "freeze": ["layer1", "layer2", "layer3", "layer4"]}
    learner = ImageClassifier({}, settings)
    file = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    with pytest.raises(CheckpointError, match=rf"not here in {file}, .* python -c \"import torchv"):
        learner.step()
    file.parent.mkdir(parents=True)
    torch.manual_seed(7)
    given = torchvision.models.resnet18(weights=None).state_dict()
    torch.save(given, file)
    learner.step()
    assert capsys.readouterr().out == f"started from {file}; new: fc.weight, fc.bias\n"
    state = learner.model.state_dict()
    assert torch.equal(state["layer1.0.conv1.weight"], given["layer1.0.conv1.weight"])


def test_timm_weights_come_only_from_its_cache(timm, tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match=r"timm.create_model\('resnet18', pretrained=True\)"):
        model_info("timm:resnet18").pretrained()
    folder = tmp_path / "models--timm--resnet18.a1_in1k"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc" / "model.safetensors").write_bytes(b"")
    path = model_info("timm:resnet18").pretrained()
    assert path == folder / "snapshots" / "abc" / "model.safetensors"


def test_model_info_imports_no_torch():
    code = (
        "from tuner.vision.catalog import model_info\n"
        "try: model_info('timm:resnet18')\nexcept ValueError: pass"
    )
    assert not ran(code).modules & {"torch", "timm"}
