import gc
import math
from copy import deepcopy
from statistics import mean, stdev

import pytest
import torch
from live_bytes import LiveBytes

from tuner.errors import SpecError, UsageError
from tuner.testing.contracts import LearnerContract, is_equal
from tuner.vision.batches import load_image_set
from tuner.vision.catalog import DataChoice
from tuner.vision.image_classifier import ImageClassifier

AUGMENTED = {"crop_padding": 4, "flip": True, "cutout": 8}
TINY = {"dataset": "tiny", "batch_size": 16, "epochs": 3}
DEEP = {**TINY, "model": "resnet20", "epochs": 1}


class ClassifierContract(LearnerContract):
    timings = frozenset({"images_per_s", "epoch_s"})

    def test_leaves_global_random_state_alone(self):
        before = torch.get_rng_state()
        self.make().step()
        assert torch.equal(torch.get_rng_state(), before)

    def test_state_is_a_copy_before_and_after_it_is_loaded(self):
        learner = self.make()
        learner.step()
        state = learner.state_dict()
        before = deepcopy(state)
        restored = self.make()
        restored.load_state_dict(state)
        learner.step()
        restored.step()
        assert is_equal(state, before)


class TestFolds(ClassifierContract):
    steps = 2

    def make(self, *, seed=0):
        return tiny(seed=seed, folds=3, fold_epochs=2)

    def test_reports_its_metrics(self, snapshot):
        learner = self.make()
        reports = [learner.step() for _ in range(3)]
        names = {*learner.metrics, "val_loss_std", "val_accuracy_std"}
        assert ({*reports[0]}, {*reports[1]}) == ({*learner.metrics}, names)
        losses = [fold["val_loss"] for fold in learner.state_dict()["folds"]]
        for number, report in enumerate(reports, 1):
            assert report["val_loss"] == pytest.approx(mean(losses[:number]))
        assert reports[2]["val_loss_std"] == pytest.approx(stdev(losses)) != 0
        plain = tiny(epochs=2, batch_size=17)  # as many batches as a fold has
        plain.step()
        assert plain.step()["lr"] == reports[0]["lr"] == reports[2]["lr"]
        with snapshot.raises(UsageError):
            learner.step()


def test_folds_of_a_seed_validate_every_image_once():
    learner = tiny(seed=3, folds=3, fold_epochs=1, resplit=True)
    rows = []
    for _ in range(3):
        learner.step()
        rows += learner._data.splits["validation"].tolist()
    assert sorted(rows) == learner._data.searched_N.tolist()


def tiny(*, seed=0, **settings):
    return ImageClassifier(settings, {**TINY, "model": "cnn", "width": 4, "seed": seed})


def test_step_reports_parameters_and_requested_latency():
    learner = tiny(latency=True)
    report = learner.step()
    again = learner.step()
    assert report["parameters"] == sum(p.numel() for p in learner.model.parameters())
    assert 0 < report["latency_ms"] == again["latency_ms"]
    assert "latency_ms" in learner.metrics
    assert "latency_ms" not in tiny().step()


def quick(report):
    return {
        name: report[name] for name in ("train_loss", "val_loss", "val_accuracy", "lr")
    }


def test_image_classifier_learns_digits():
    learner = ImageClassifier(
        {"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 5}
    )
    losses = [learner.step()["train_loss"] for _ in range(5)]
    assert losses[-1] < losses[0]
    assert learner.test()["test_accuracy"] > 0.95


def test_test_time_flip_evaluates_all_views_alike():
    flips = [[3], [2], [2, 3]]
    learner = tiny(test_time_flip=True, vertical_flip=True, lr=0.1)
    learner.step()
    seen = []
    learner.model.register_forward_pre_hook(
        lambda module, inputs: seen.append(inputs[0])
    )
    before = learner.test()
    for axes, view_NCHW in zip(flips, seen[1:], strict=True):
        assert torch.equal(seen[0].flip(axes), view_NCHW)
    for axes in flips:
        hook = learner.model.register_forward_pre_hook(
            lambda module, inputs, axes=axes: inputs[0].flip(axes)
        )
        assert learner.test() == pytest.approx(before, rel=1e-5)
        hook.remove()


def test_metrics_equal_those_of_a_plain_loop():
    weights = [1.0 + label for label in range(10)]
    settings = {"norm": "group", "dtype": "float64", "class_weights": weights}
    learner = tiny(**settings, batch_size=49)
    data = load_image_set(DataChoice("tiny"), torch.device("cpu"))

    def measure(split, weights=None):
        rows = data.splits[split]
        x = data.rows_NP[rows].view(-1, 32, 32, 3).permute(0, 3, 1, 2).double() / 255
        logits = learner.model.eval()((x - 0.5) / 0.25)
        labels = data.labels_N[rows]
        loss = torch.nn.functional.cross_entropy(logits, labels, weights).item()
        return loss, (logits.argmax(1) == labels).double().mean().item()

    # Of one batch, so it is the loss before the update
    before, _ = measure("train", torch.tensor(weights).double())
    report = learner.step()
    assert report["train_loss"] == pytest.approx(before, rel=1e-6)
    validated = report["val_loss"], report["val_accuracy"]
    assert validated == pytest.approx(measure("validation"))
    labels_N = data.labels_N[data.splits["test"]]
    share = labels_N.bincount().max().item() / len(labels_N)
    expected = (*measure("test"), len(labels_N), share)
    assert tuple(learner.test().values()) == pytest.approx(expected)


def test_step_of_a_diverged_model_reports_a_loss_that_is_not_finite():
    learner = tiny(lr=1e30, momentum=0.0)
    assert not math.isfinite([learner.step() for _ in range(2)][-1]["val_loss"])


def test_load_state_dict_of_a_longer_trial_stretches_the_schedule():
    settings = {"lr": 0.1, "lr_schedule": "step", "warmup_epochs": 1}
    learner = tiny(epochs=4, **settings)
    complete = [learner.step()["lr"] for _ in range(4)]
    short = tiny(epochs=2, **settings)
    longer = tiny(epochs=4, **settings)
    short.step()
    longer.load_state_dict(short.state_dict())
    assert [longer.step()["lr"] for _ in range(3)] == pytest.approx(complete[1:])


def test_image_classifier_raises_every_fault_of_its_settings():
    with pytest.raises(SpecError) as caught:
        ImageClassifier({"lr": -1, "l1": 3}, {"dataset": "digit"})
    assert [fault.key for fault in caught.value.faults] == ["dataset", "lr", "l1"]


def test_trial_leaves_no_tensors():
    ImageClassifier({"lr": 0.1}, DEEP).step()  # loads the data set, which stays
    with LiveBytes() as tensors:
        ImageClassifier({"lr": 0.1}, DEEP).step()
        gc.collect()
        assert tensors.live == 0


@pytest.mark.gpu
def test_thirty_trials_on_a_gpu_leave_no_memory():
    device = torch.device("cuda")

    def run():
        ImageClassifier({"lr": 0.1}, DEEP, device=device).step()
        gc.collect()
        return torch.cuda.memory_allocated(device)

    before = run()
    assert [run() for _ in range(29)] == [before] * 29


def digits(**settings):
    constants = {
        "model": "cnn",
        "dataset": "digits",
        "width": 4,
        "batch_size": 128,
        "epochs": 3,
    }
    return ImageClassifier(settings, constants)


def test_training_on_the_validation_split_reports_the_epochs_and_tests():
    refit = digits(train_on="train+validation")
    report = refit.step()
    assert report.keys() == set(refit.metrics)
    assert [report["epochs_trained"], refit.step()["epochs_trained"]] == [1, 2]
    data = refit.state_dict()["data"]
    assert (data["train"], data["validation"], data["baseline"]) == (1437, 0, None)
    assert set(digits().metrics) - set(refit.metrics) == {"val_loss", "val_accuracy"}


def test_training_on_the_validation_split_with_an_average_continues_bit_for_bit():
    settings = {"train_on": "train+validation", "ema_decay": 0.9}
    whole = digits(**settings)
    whole.step()
    restored = digits(**settings)
    restored.load_state_dict(whole.state_dict())
    assert whole.step()["train_loss"] == restored.step()["train_loss"]
    assert is_equal(whole.state_dict()["model"], restored.state_dict()["model"])
