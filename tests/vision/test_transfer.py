import pytest
import tiny_images
import torch
from own_networks import own
from torch import nn

from tuner.errors import CheckpointError, SpecError
from tuner.testing.contracts import is_equal
from tuner.vision.blueprint import Blueprint
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.model_catalog import find_model_info
from tuner.vision.settings import ClassifierSettings
from tuner.vision.transfer import (
    convert_channels,
    find_start_faults,
    load_initial_weights,
    remove_prefix,
)


def plan(name):
    return Blueprint(
        name=own(name),
        settings={"model_args": {}},
        in_channels=1,
        image_size=8,
        num_classes=5,
    )


TINY = {**tiny_images.TINY, "epochs": 4}


def model(classes=10, width=4):
    return nn.Sequential(
        nn.Conv2d(3, width, 3),
        nn.BatchNorm2d(width),
        nn.Flatten(),
        nn.Linear(width, classes),
    )


def saved(state, folder, name="weights.pt"):
    torch.save(state, folder / name)
    return folder / name


@pytest.mark.parametrize("prefix", ["", "net.", "_orig_mod.module."])
def test_without_prefix_names_the_weights_as_the_network_does(prefix):
    """Weights of other parts keep their names."""
    state = model().state_dict()
    prefixed = {prefix + name: weight for name, weight in state.items()}
    others = {"loss.weight": torch.ones(3), "scale": torch.ones(1)}
    inner = remove_prefix({**others, **prefixed}, model(), source="x")
    assert is_equal(inner, {**others, **state})


def test_without_prefix_refuses_two_sets_of_weights(snapshot):
    state = model().state_dict()
    both = {
        f"{part}.{name}": w for part in ("model", "ema") for name, w in state.items()
    }
    with snapshot.raises(SpecError):
        remove_prefix(both, model(), source="x")


def test_start_from_of_other_classes_keeps_the_new_head():
    source = model(classes=100)
    target = model(classes=10)
    head = target[3].weight.clone()
    new, unused = load_initial_weights(target, source.state_dict(), source="x")
    assert (new, unused) == (["3.weight", "3.bias"], [])
    assert is_equal(dict(target[:2].state_dict()), dict(source[:2].state_dict()))
    assert torch.equal(target[3].weight, head)


def test_start_from_names_unused_weights_and_refuses_many(snapshot):
    weights = model().state_dict() | {"aux.0": torch.zeros(1)}
    assert load_initial_weights(model(), weights, source="x") == ([], ["aux.0"])
    weights |= {f"aux.{n}": torch.zeros(1) for n in range(90)}
    with snapshot.raises(SpecError):
        load_initial_weights(model(), weights, source="x")


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_for_channels_adapts_the_first_convolution(channels):
    """On images whose channels are all the same the first convolution gives what it gave."""
    colour = nn.Conv2d(3, 5, 3, bias=False)
    other = nn.Conv2d(channels, 5, 3, bias=False)
    adapted = convert_channels({"0.weight": colour.weight}, nn.Sequential(other))
    grey = torch.rand(2, 1, 4, 4)
    expected = colour(grey.expand(-1, 3, -1, -1))
    got = nn.functional.conv2d(grey.expand(-1, channels, -1, -1), adapted["0.weight"])
    assert torch.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["efficientnet_lite1", "torchvision:resnet18"])
def test_a_file_of_a_known_network_is_refused_with_its_name(snapshot, name):
    info = find_model_info(name)
    arguments = {**info.defaults, **({"image_size": 32} if info.foreign else {})}
    state = info.build(in_channels=3, num_classes=7, **arguments).state_dict()
    with snapshot.raises(SpecError):
        load_initial_weights(model(), state, source="x")


def test_start_faults_try_the_head_where_it_trains_alone(tmp_path):
    blueprint = plan("Scaled")
    path = saved(blueprint.initialize_model().state_dict(), tmp_path)
    settings = {"model": own("Scaled"), "start_from": str(path)}
    assert find_start_faults(ClassifierSettings(**settings), blueprint) == []
    for head in ({"fit_head": True}, {"train_layers": "head"}):
        [fault] = find_start_faults(ClassifierSettings(**settings, **head), blueprint)
        assert fault.key == "train_layers"


def source_file(tmp_path, **settings):
    learner = ImageClassifier(settings, TINY)
    learner.step()
    report = learner.step()
    return str(saved(learner.state_dict(), tmp_path)), report


def weights(learner):
    return {name: value.clone() for name, value in learner.model.state_dict().items()}


def test_start_from_begins_with_the_loss_of_its_source(tmp_path, capsys):
    path, source = source_file(tmp_path, norm="group")
    settings = {**TINY, "norm": "group", "lr": 1e-9}
    first = ImageClassifier({"start_from": path}, settings).step()
    assert "started from" in capsys.readouterr().out
    assert first["val_loss"] == pytest.approx(source["val_loss"], abs=1e-4)


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
    learner = ImageClassifier({"freeze": ["features"], "unfreeze_epoch": 1}, TINY)
    before = weights(learner)
    learner.step()
    held = weights(learner)
    same = {name for name in before if torch.equal(before[name], held[name])}
    # Statistics too
    assert same == {name for name in before if name.startswith("features")}
    learner.step()
    assert not any(torch.equal(held[n], w) for n, w in weights(learner).items())
