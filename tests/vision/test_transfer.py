from dataclasses import replace

import pytest
import tiny_images
import torch
from safetensors.torch import save_file
from torch import nn

from tuner.errors import CheckpointError, SpecError
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.settings import ClassifierSettings
from tuner.vision.transfer import (
    for_channels,
    freeze,
    head_of,
    load_weights,
    matching,
    rest_frozen_norms,
    start_from,
    with_pixel_stats,
    without_prefix,
)

TINY = {**tiny_images.TINY, "epochs": 4}


def model(classes=10, width=4):
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(width, classes)
    )


def saved(state, folder, name="weights.pt"):
    torch.save(state, folder / name)
    return folder / name


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"model": s}, lambda s: {"state_dict": s}])
def test_load_weights_reads_state_dicts_of_trainers(wrap, tmp_path):
    state = model().state_dict()
    loaded = load_weights(saved(wrap(state), tmp_path))
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_load_weights_reads_safetensors_and_exports(tmp_path):
    state = model().state_dict()
    save_file(state, tmp_path / "model.safetensors")
    assert load_weights(tmp_path).keys() == state.keys()
    assert load_weights(str(tmp_path / "model.safetensors")).keys() == state.keys()


@pytest.mark.parametrize("prefix", ["", "net.", "module.", "_orig_mod.module."])
def test_without_prefix_names_the_weights_as_the_network_does(prefix):
    state = model().state_dict()
    prefixed = {prefix + name: weight for name, weight in state.items()}
    assert without_prefix(prefixed, model()).keys() == state.keys()


class Evil:
    def __reduce__(self):
        return print, ("it ran",)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("evil.pt", {"weight": Evil()}),
        ("list.pt", [1, 2]),
        ("empty.pt", {"epoch": 1}),
        ("gone.pt", None),
        ("cut.pt", b"PK\x03\x04 cut off"),
        ("cut.safetensors", b"PK\x03\x04 cut off"),
    ],
)
def test_load_weights_of_another_file_raises_and_runs_nothing(
    name, state, snapshot, tmp_path, capsys
):
    if isinstance(state, bytes):
        (tmp_path / name).write_bytes(state)
    elif state is not None:
        saved(state, tmp_path, name)
    with snapshot.raises(CheckpointError):
        load_weights(tmp_path / name)
    assert capsys.readouterr().out == ""


def test_start_from_of_other_classes_keeps_the_new_head():
    source, target = model(classes=100), model(classes=10)
    head = target[3].weight.clone()
    assert start_from(target, source.state_dict(), source="x") == ["3.weight", "3.bias"]
    assert torch.equal(target[0].weight, source[0].weight)
    assert torch.equal(target[1].running_var, source[1].running_var)
    assert torch.equal(target[3].weight, head)
    assert start_from(model(), model().state_dict(), source="x") == []


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_for_channels_adapts_the_first_convolution(channels):
    """On images whose channels are all the same the first convolution gives what it gave."""
    colour, other = nn.Conv2d(3, 5, 3, bias=False), nn.Conv2d(channels, 5, 3, bias=False)
    adapted = for_channels({"0.weight": colour.weight}, nn.Sequential(other))
    grey = torch.rand(2, 1, 4, 4)
    expected = colour(grey.expand(-1, 3, -1, -1))
    got = nn.functional.conv2d(grey.expand(-1, channels, -1, -1), adapted["0.weight"])
    assert torch.allclose(got, expected, atol=1e-5)


def test_start_from_of_another_model_raises(snapshot):
    with snapshot.raises(SpecError):
        start_from(model(), model(width=5).state_dict(), source="x")


def test_matching_takes_layers_and_patterns():
    made = model()
    assert head_of(made) == "3"
    assert matching(made, ["0"]) == {"0.weight", "0.bias"}
    assert matching(made, ["*.bias"]) == {"0.bias", "1.bias", "3.bias"}
    names = {f"{layer}.{kind}" for layer in "01" for kind in ("weight", "bias")}
    assert matching(made, ["[01].*", "3.bias"]) == {*names, "3.bias"}
    assert matching(made, []) == frozenset()


def test_matching_reports_all_useless_patterns(snapshot):
    with pytest.raises(SpecError) as caught:
        matching(model(), ["features", "0", "nope.*"])
    assert [fault.value for fault in caught.value.faults] == ["features", "nope.*"]
    assert caught.value.faults[0].choices == ("0", "1", "3")
    with snapshot.raises(SpecError):
        matching(model(), ["*"])


def test_rest_frozen_norms_needs_all_parameters_frozen():
    made = model().train()
    freeze(made, {"1.weight"})
    rest_frozen_norms(made)
    assert made[1].training
    freeze(made, {"1.weight", "1.bias"})
    rest_frozen_norms(made)
    assert not made[1].training
    assert made.training


def source_file(tmp_path, **settings):
    learner = ImageClassifier(settings, TINY)
    reports = [learner.step() for _ in range(3)]
    return str(saved(learner.state_dict(), tmp_path)), reports[-1]


def weights(learner):
    return {name: value.clone() for name, value in learner.model.state_dict().items()}


def test_start_from_begins_with_the_loss_of_its_source(tmp_path, capsys):
    path, source = source_file(tmp_path, norm="group")
    settings = {**TINY, "norm": "group", "lr": 1e-9}
    first = ImageClassifier({"start_from": path}, settings).step()
    assert "started from" in capsys.readouterr().out
    fresh = ImageClassifier({}, settings).step()
    assert first["val_loss"] == pytest.approx(source["val_loss"], abs=1e-4)
    assert fresh["val_loss"] != pytest.approx(source["val_loss"], abs=1e-2)


def test_start_from_file_is_needed_only_at_the_start(snapshot, tmp_path):
    path, _ = source_file(tmp_path)
    learner = ImageClassifier({"start_from": path}, TINY)
    learner.step()
    state = learner.state_dict()
    expected = learner.step()
    (tmp_path / "weights.pt").unlink()
    restored = ImageClassifier({"start_from": path}, TINY)
    restored.load_state_dict(state)
    assert restored.step()["val_loss"] == expected["val_loss"]
    with snapshot.raises(CheckpointError):
        ImageClassifier({"start_from": path}, TINY).step()


def test_frozen_layers_change_only_after_unfreeze_epoch():
    learner = ImageClassifier({"freeze": ["features"], "unfreeze_epoch": 2}, TINY)
    before = weights(learner)
    for _ in range(2):
        learner.step()
    held = weights(learner)
    same = {name for name in before if torch.equal(before[name], held[name])}
    assert same == {name for name in before if name.startswith("features")}  # statistics too
    learner.step()
    assert not any(torch.equal(held[n], w) for n, w in weights(learner).items())


@pytest.mark.parametrize(
    ("settings", "channels", "mean"),
    [
        ({"pixel_stats": "imagenet"}, 3, (0.485, 0.456, 0.406)),
        ({"pixel_stats": "imagenet"}, 1, (pytest.approx(0.449),)),
        ({"pixel_stats": "imagenet"}, 4, (0.1, 0.1, 0.1, 0.1)),
        ({"pixel_stats": "data", "pretrained": True, "model": "torchvision:resnet18"}, 1, (0.1,)),
        ({"pretrained": True, "model": "torchvision:resnet18"}, 3, (0.485, 0.456, 0.406)),
        ({}, 3, (0.1, 0.1, 0.1)),
    ],
)
def test_pixel_stats_are_those_of_the_weights_where_known(settings, channels, mean):
    stats = (0.1,) * channels
    data = replace(tiny_images.INFO, channels=channels, mean=stats, std=stats)
    assert with_pixel_stats(data, ClassifierSettings(**settings)).mean == mean


def test_pixel_stats_of_an_export_are_in_its_config(tmp_path):
    (tmp_path / "config.json").write_text('{"input": {"mean": [0.5], "std": [0.2]}}')
    data = replace(tiny_images.INFO, channels=1, mean=(0.1,), std=(0.1,))
    for source in (tmp_path, tmp_path / "model.safetensors"):
        settings = ClassifierSettings(start_from=str(source))
        assert with_pixel_stats(data, settings).mean == (0.5,)
