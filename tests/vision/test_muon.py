import pytest
import torch
from test_image_classifier import TINY, ClassifierContract, quick
from test_replica import short_of_memory
from torch import nn

from tuner.errors import SpecError
from tuner.vision import recipe
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.models._layers import Whitening
from tuner.vision.muon import MuonBesideSGD, hidden_weights
from tuner.vision.optimizer import build_optimizer
from tuner.vision.settings import ClassifierSettings, check_settings

SMALL = {**TINY, "model": "cnn", "width": 4, "lr": 0.1, "optimizer": "muon"}


def layers():
    first, last = nn.Conv2d(1, 4, 3), nn.Linear(6, 2)
    hidden = nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3)
    return nn.Sequential(first, *hidden, nn.AdaptiveMaxPool2d(1), nn.Flatten(), last)


HIDDEN = {"1.weight", "3.weight"}


def test_the_first_layer_the_head_norms_and_biases_are_not_of_muon():
    assert hidden_weights(layers()) == HIDDEN
    whitened = nn.Sequential(Whitening(1), nn.Conv2d(8, 4, 3), nn.Linear(4, 2))
    assert hidden_weights(whitened) == {"1.weight"}
    assert hidden_weights(nn.Linear(2, 2)) == frozenset()


def with_gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_filter_is_a_row_of_the_matrix_that_torchs_muon_takes(layout):
    torch.manual_seed(0)
    model = layers().to(memory_format=layout)
    matrix = nn.Parameter(model[1].weight.detach().flatten(1).clone())
    settings = ClassifierSettings(
        optimizer="muon", muon_lr=0.1, muon_momentum=0.8, weight_decay=0.01
    )
    optimizer = build_optimizer(settings, model)
    wanted = torch.optim.Muon([matrix], lr=0.1, momentum=0.8, weight_decay=0.1)
    for step in range(3):
        with_gradients(model, step)
        matrix.grad = model[1].weight.grad.flatten(1).clone()
        optimizer.step()
        wanted.step()
        assert torch.equal(model[1].weight.flatten(1), matrix)


def test_all_else_has_sgd_with_its_own_rate():
    torch.manual_seed(0)
    ours, theirs = layers(), layers()
    theirs.load_state_dict(ours.state_dict())
    same = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.01}
    pairs = (
        (ours, build_optimizer(ClassifierSettings(optimizer="muon", **same), ours)),
        (theirs, build_optimizer(ClassifierSettings(optimizer="sgdw", **same), theirs)),
    )
    for model, optimizer in pairs:
        for step in range(3):
            with_gradients(model, step)
            optimizer.step()
    wanted = theirs.state_dict()
    differ = {name for name, value in ours.state_dict().items() if (value != wanted[name]).any()}
    assert differ == HIDDEN


def test_rates_and_decays():
    settings = ClassifierSettings(optimizer="muon", lr=0.5, norm_bias_lr=8, weight_decay=0.01)
    groups = build_optimizer(settings, layers()).param_groups
    assert [group["lr"] for group in groups] == [0.5, 4, 0.02]
    assert [group["weight_decay"] * group["lr"] for group in groups] == pytest.approx([0.01] * 3)
    assert groups[2]["momentum"] == 0.95


def test_what_has_no_gradient_stays_and_is_remembered_nowhere():
    model = layers()
    optimizer = build_optimizer(ClassifierSettings(optimizer="muon"), model, frozen={"1.weight"})
    with_gradients(model, 0)
    model[1].weight.grad, before = None, model[1].weight.detach().clone()
    optimizer.step()
    assert torch.equal(model[1].weight, before)
    assert model[1].weight not in optimizer.state
    assert optimizer.state[model[3].weight]["momentum_buffer"].shape == (6, 54)


def test_a_model_without_hidden_layers_is_refused():
    with pytest.raises(SpecError, match="'muon' needs a hidden convolution or linear layer"):
        build_optimizer(ClassifierSettings(optimizer="muon"), nn.Linear(2, 2))


def test_an_older_torch_is_refused_in_one_sentence(monkeypatch):
    assert check_settings({"optimizer": "muon"}) == []
    monkeypatch.setattr(recipe, "version", lambda package: "2.8.1+cu128")
    (fault,) = check_settings({"optimizer": "muon"})
    rule = "optimizer: needs torch 2.9 or newer, and torch 2.8.1+cu128 is installed"
    assert str(fault).startswith(rule)


@pytest.mark.parametrize("key", ["muon_lr", "muon_momentum"])
def test_its_settings_are_its_own(key):
    (fault,) = check_settings({key: 0.1})
    assert str(fault) == (
        f"{key}: is used by optimizer 'muon' alone, and optimizer is 'sgd', got 0.1"
    )
    assert check_settings({key: 0.1, "optimizer": "muon"}) == []
    plain, changed = ImageClassifier({}, SMALL), ImageClassifier({key: 0.1}, SMALL)
    assert quick(plain.step()) != quick(changed.step())


class TestMuon(ClassifierContract):
    def make(self, *, seed=0):
        recipe = {"clip_grad_norm": 1, "ema_decay": 0.9, "lr_schedule": "triangular"}
        later = {"freeze": "features.3", "unfreeze_epoch": 1}
        return ImageClassifier({**recipe, **later}, {**SMALL, "seed": seed})


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_trains_with_it(precision, monkeypatch):
    from tuner.vision import precision as numbers

    has = numbers.Hardware("cpu", bf16=True, fp16=True)
    monkeypatch.setattr(numbers, "hardware", lambda device: has)
    plain, half = ImageClassifier({}, SMALL), ImageClassifier({"precision": precision}, SMALL)
    for _ in range(2):
        assert half.step()["train_loss"] == pytest.approx(plain.step()["train_loss"], rel=0.05)


def test_a_step_in_parts_is_the_whole_step():
    exact = {**SMALL, "norm": "group", "dtype": "float64"}
    whole, parts = ImageClassifier({}, exact), ImageClassifier({}, exact)
    failures = []
    short_of_memory(parts, 5, failures)
    for _ in range(2):
        wanted = quick(whole.step())
        assert quick(parts.step()) == pytest.approx(wanted, rel=1e-9)
    assert failures == [16, 8]


def test_it_learns():
    digits = {"model": "cnn", "dataset": "digits", "epochs": 4, "optimizer": "muon"}
    learner = ImageClassifier({"lr": 0.3, "muon_lr": 0.05}, digits)
    assert isinstance(learner._optimizer, MuonBesideSGD)
    accuracies = [learner.step()["val_accuracy"] for _ in range(4)]
    assert accuracies[-1] > 0.95
