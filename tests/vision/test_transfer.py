import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tuner.errors import CheckpointError, SpecError
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.settings import check_settings
from tuner.vision.transfer import (
    for_channels,
    freeze,
    head_of,
    load_weights,
    matching,
    rest_frozen_norms,
    start_from,
)

TINY = {"dataset": "tiny", "model": "cnn", "width": 4, "batch_size": 16, "epochs": 4, "lr": 0.1}


def model(classes=10, width=4):
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(width, classes)
    )


def saved(state, folder, name="weights.pt"):
    torch.save(state, folder / name)
    return folder / name


@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"model": s}, lambda s: {"state_dict": s}])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
def test_state_dicts_as_trainers_save_them(wrap, prefix, tmp_path):
    state = model().state_dict()
    path = saved(wrap({prefix + name: value for name, value in state.items()}), tmp_path)
    loaded = load_weights(path)
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def test_safetensors_and_exported_folders(tmp_path):
    state = model().state_dict()
    save_file(state, tmp_path / "model.safetensors")
    assert load_weights(tmp_path).keys() == state.keys()
    assert load_weights(str(tmp_path / "model.safetensors")).keys() == state.keys()


class Evil:
    def __reduce__(self):
        return print, ("it ran",)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"weight": Evil()}, "cannot be loaded"),
        ([1, 2], "holds list, not a state dict"),
        ({"epoch": 1}, "holds no tensors"),
    ],
)
def test_files_that_hold_no_weights_are_refused_and_run_nothing(state, message, tmp_path, capsys):
    with pytest.raises(CheckpointError, match=message):
        load_weights(saved(state, tmp_path))
    assert capsys.readouterr().out == ""


def test_a_missing_and_a_damaged_file(tmp_path):
    with pytest.raises(CheckpointError, match="is no file"):
        load_weights(tmp_path / "none.pt")
    for name in ("cut.pt", "cut.safetensors"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut off")
        with pytest.raises(CheckpointError, match="cannot be loaded"):
            load_weights(tmp_path / name)


def test_a_new_head_where_shapes_differ():
    source, target = model(classes=100), model(classes=10)
    head = target[3].weight.clone()
    assert start_from(target, source.state_dict(), source="x") == ["3.weight", "3.bias"]
    assert torch.equal(target[0].weight, source[0].weight)
    assert torch.equal(target[1].running_var, source[1].running_var)
    assert torch.equal(target[3].weight, head)
    assert start_from(model(), model().state_dict(), source="x") == []


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_weights_for_colours_are_adapted_to_other_channels(channels):
    """On images whose channels are all the same the first convolution gives what it gave."""
    colour, other = nn.Conv2d(3, 5, 3, bias=False), nn.Conv2d(channels, 5, 3, bias=False)
    adapted = for_channels({"0.weight": colour.weight}, nn.Sequential(other))
    grey = torch.rand(2, 1, 4, 4)
    expected = colour(grey.expand(-1, 3, -1, -1))
    got = nn.functional.conv2d(grey.expand(-1, channels, -1, -1), adapted["0.weight"])
    assert torch.allclose(got, expected, atol=1e-5)


def test_only_a_convolution_of_other_channels_is_adapted():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(5, 2))
    given = {"0.weight": torch.zeros(5, 3, 3, 3), "2.weight": torch.zeros(9, 5)}
    assert for_channels(given, model) == given
    other_size = {"0.weight": torch.zeros(5, 3, 5, 5)}
    assert for_channels(other_size, model) == other_size


def test_a_headless_file_and_one_of_an_old_batch_norm():
    state = model().state_dict()
    for name in ("3.weight", "3.bias", "1.num_batches_tracked"):
        del state[name]
    assert len(start_from(model(), state, source="x")) == 3


def test_weights_of_another_model_are_refused():
    with pytest.raises(
        SpecError, match=r"not the head '3': 0\.weight, 0\.bias, 1\.weight, \.\.\., got"
    ):
        start_from(model(), model(width=5).state_dict(), source="x")


def test_patterns_name_layers_or_match_names():
    made = model()
    assert head_of(made) == "3"
    assert matching(made, ["0"]) == {"0.weight", "0.bias"}
    assert matching(made, ["*.bias"]) == {"0.bias", "1.bias", "3.bias"}
    assert matching(made, ["[01].*", "3.bias"]) == {
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "3.bias",
    }
    assert matching(made, []) == frozenset()


def test_patterns_that_cannot_work_are_refused_together():
    with pytest.raises(SpecError) as caught:
        matching(model(), ["features", "0", "nope.*"])
    assert [fault.value for fault in caught.value.faults] == ["features", "nope.*"]
    assert caught.value.faults[0].choices == ("0", "1", "3")
    with pytest.raises(SpecError, match="leaves nothing to train"):
        matching(model(), ["*"])


def test_what_is_frozen_may_train_again():
    made = model()
    freeze(made, {"0.weight"})
    assert [p.requires_grad for p in made.parameters()] == [False] + [True] * 5
    freeze(made, ())
    assert all(p.requires_grad for p in made.parameters())


def test_frozen_norms_rest():
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


def test_training_starts_from_what_was_trained(tmp_path, capsys):
    path, source = source_file(tmp_path, norm="group")
    settings = {**TINY, "norm": "group", "lr": 1e-9}
    first = ImageClassifier({"start_from": path}, settings).step()
    assert "started from" in capsys.readouterr().out
    fresh = ImageClassifier({}, settings).step()
    assert first["val_loss"] == pytest.approx(source["val_loss"], abs=1e-4)
    assert fresh["val_loss"] != pytest.approx(source["val_loss"], abs=1e-2)


def test_a_later_epoch_does_not_need_the_file(tmp_path):
    path, _ = source_file(tmp_path)
    learner = ImageClassifier({"start_from": path}, TINY)
    learner.step()
    state = learner.state_dict()
    expected = learner.step()
    (tmp_path / "weights.pt").unlink()
    restored = ImageClassifier({"start_from": path}, TINY)
    restored.load_state_dict(state)
    assert restored.step()["val_loss"] == expected["val_loss"]
    with pytest.raises(CheckpointError, match="is no file"):
        ImageClassifier({"start_from": path}, TINY).step()


def test_what_is_frozen_stays_until_its_epoch():
    learner = ImageClassifier({"freeze": ["features"], "unfreeze_epoch": 2}, TINY)
    before = weights(learner)
    for _ in range(2):
        learner.step()
    held = weights(learner)
    same = {name for name in before if torch.equal(before[name], held[name])}
    assert same == {name for name in before if name.startswith("features")}  # statistics too
    learner.step()
    assert not any(torch.equal(held[n], w) for n, w in weights(learner).items())


def test_it_continues_alike_on_both_sides_of_the_unfreezing():
    settings = {"freeze": "features", "unfreeze_epoch": 2, "optimizer": "adamw", "lr": 1e-3}
    learner = ImageClassifier(settings, TINY)
    for _ in range(3):
        state = learner.state_dict()
        expected = learner.step()
        restored = ImageClassifier(settings, TINY)
        restored.load_state_dict(state)
        assert restored.step()["train_loss"] == expected["train_loss"]


def test_unfreeze_epoch_matters():
    late, soon = (
        ImageClassifier({"freeze": "features", "unfreeze_epoch": epoch}, TINY) for epoch in (3, 1)
    )
    assert late.step()["val_loss"] == soon.step()["val_loss"]
    assert late.step()["val_loss"] != soon.step()["val_loss"]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"unfreeze_epoch": 1}, "unfreeze_epoch"),
        ({"freeze": "x", "unfreeze_epoch": 0}, "unfreeze_epoch"),
        ({"freeze": 3}, "freeze"),
        ({"freeze": ["head", None]}, "freeze"),
        ({"start_from": "/nowhere/at/all.pt"}, "start_from"),
    ],
)
def test_settings_that_cannot_work(values, key):
    assert [fault.key for fault in check_settings(values)] == [key]
