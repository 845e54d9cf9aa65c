import gc
import math
import time
import weakref
from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
import real_ranks
import tiny_images
import torch
from live_bytes import LiveBytes
from tiny_images import INFO
from torch import distributed as dist

from tuner.errors import SpecError
from tuner.testing.learner_contract import LearnerContract, same
from tuner.trial.memory import MemoryWatch
from tuner.vision.batches import image_set
from tuner.vision.catalog import DATASETS, METRICS, DataChoice
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

    def test_state_is_a_copy(self):
        learner = self.make()
        learner.step()
        state = learner.state_dict()
        before = deepcopy(state)
        learner.step()
        assert same(state, before)

    def test_loading_keeps_the_state_as_it_is(self, tmp_path):
        learner = self.make()
        learner.step()
        state = self.saved(learner, tmp_path)
        before = deepcopy(state)
        restored = self.make()
        restored.load_state_dict(state)
        restored.step()
        assert same(state, before)


class TestDigits(ClassifierContract):
    def make(self, *, seed=0):
        config = {"lr": 0.3, "width": 8, "crop_padding": 1}
        constants = {"model": "cnn", "dataset": "digits", "batch_size": 128, "epochs": 3}
        return ImageClassifier(config, {**constants, "seed": seed})


class TestNet(ClassifierContract):
    def make(self, *, seed=0):
        config = {"lr": 1e-3, "l1": 16, "l2": 8, "optimizer": "adamw", "lr_schedule": "one_cycle"}
        return ImageClassifier(config, {**TINY, "model": "net", **AUGMENTED, "seed": seed})


class TestResNet20(ClassifierContract):
    def make(self, *, seed=0):
        config = {"lr": 0.1, "label_smoothing": 0.1, "lr_schedule": "constant"}
        return ImageClassifier(config, {**TINY, "model": "resnet20", **AUGMENTED, "seed": seed})


def tiny(*, seed=0, **settings):
    return ImageClassifier(settings, {**TINY, "model": "cnn", "width": 4, "seed": seed})


def quick(report):
    return {name: report[name] for name in ("train_loss", "val_loss", "val_accuracy", "lr")}


def test_image_classifier_learns_digits():
    learner = ImageClassifier({"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 5})
    reports = [learner.step() for _ in range(5)]
    assert reports[-1]["val_accuracy"] > 0.95
    assert reports[-1]["train_loss"] < reports[0]["train_loss"]
    assert learner.test()["test_accuracy"] > 0.95


def test_step_reports_the_declared_metrics():
    report = tiny(lr=0.1).step()
    assert tuple(report) == METRICS
    assert 0 <= report["val_accuracy"] <= 1
    assert report["epoch_s"] > INFO.train / report["images_per_s"] > 0


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "group"},
        {"width": 5},
        {"dtype": "float64"},
        *({"optimizer": name} for name in ("adamw", "sgdw", "muon")),
        {"norm_bias_lr": 4},
        {"lr": 0.2},
        {"momentum": 0.5},
        {"weight_decay": 0.1},
        {"label_smoothing": 0.2},
        *({"lr_schedule": name} for name in ("constant", "one_cycle", "triangular")),
        {"batch_size": 20},
        {"cutout": 6},
        {"epochs": 4},
        {"split_seed": 1},
        {"seed": 1},
    ],
    ids=lambda change: "-".join(map(str, *change.items())),
)
def test_each_setting_changes_the_result(change):
    base = {**TINY, "model": "cnn", "width": 4, "lr": 0.1}
    plain, changed = ImageClassifier({}, base), ImageClassifier({}, {**base, **change})
    assert quick(plain.step()) != quick(changed.step())


def test_test_time_flip_evaluates_both_mirror_images_alike():
    learner = tiny(test_time_flip=True, lr=0.1)
    learner.step()
    seen = []
    learner.model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    before = learner.test()
    assert torch.equal(seen[0].flip(3), seen[1])
    learner.model.register_forward_pre_hook(lambda module, inputs: inputs[0].flip(3))
    assert learner.test() == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize("class_weights", [None, [1.0 + label for label in range(10)]])
def test_metrics_equal_those_of_a_plain_loop(class_weights):
    one_batch = {"norm": "group", "dtype": "float64", "batch_size": 49, "lr_schedule": "constant"}
    learner = tiny(**one_batch, class_weights=class_weights)
    weights = class_weights and torch.tensor(class_weights).double()
    model = learner.model
    data = image_set(DataChoice("tiny"), torch.device("cpu"))

    def measure(split, weights=None):
        rows = data.splits[split]
        x = data.rows_NP[rows].view(-1, 32, 32, 3).permute(0, 3, 1, 2).double() / 255
        logits = model.eval()((x - 0.5) / 0.25)
        labels = data.labels_N[rows]
        loss = torch.nn.functional.cross_entropy(logits, labels, weights).item()
        return loss, (logits.argmax(1) == labels).double().mean().item()

    before = measure("train", weights)[
        0
    ]  # one batch: the training loss is the one before the update
    report = learner.step()
    assert report["train_loss"] == pytest.approx(before, rel=1e-6)
    assert (report["val_loss"], report["val_accuracy"]) == pytest.approx(measure("validation"))
    labels = data.labels_N[data.splits["test"]]
    share = labels.bincount().max().item() / len(labels)
    assert tuple(learner.test().values()) == pytest.approx((*measure("test"), len(labels), share))


def test_step_of_a_diverged_model_reports_a_loss_that_is_not_finite():
    learner = tiny(lr=1e30, momentum=0.0)
    assert not math.isfinite([learner.step() for _ in range(2)][-1]["val_loss"])


@pytest.mark.parametrize("schedule", ["cosine", "one_cycle", "triangular", "step", "constant"])
@pytest.mark.parametrize("more", [{}, {"warmup_epochs": 1}], ids=["", "warmed up"])
def test_load_state_dict_of_a_longer_trial_stretches_the_schedule(schedule, more):
    settings = {"lr": 0.1, "lr_schedule": schedule, **more}
    learner = tiny(epochs=6, **settings)
    whole = [learner.step()["lr"] for _ in range(6)]
    for done in (1, 3):
        short = tiny(epochs=3, **settings)
        for _ in range(done):
            short.step()
        longer = tiny(epochs=6, **settings)
        longer.load_state_dict(short.state_dict())
        assert [longer.step()["lr"] for _ in range(6 - done)] == pytest.approx(whole[done:])


def test_trials_in_one_process_do_not_affect_each_other():
    alone = tiny(seed=1, lr=0.1)
    expected = [quick(alone.step()) for _ in range(2)]
    first, second = tiny(seed=1, lr=0.1), tiny(seed=2, lr=0.2)
    got = []
    for _ in range(2):
        second.step()
        got.append(quick(first.step()))
    assert got == expected


def test_step_frees_the_graphs_of_earlier_batches():
    learner = tiny(lr=0.1)
    graphs = []

    class Mark:
        """Lives as long as the graph that it is tied to."""

    def watch(module, inputs, output):
        if not module.training:
            return
        mark = output.grad_fn.metadata["mark"] = Mark()
        graphs.append(weakref.ref(mark))
        assert all(ref() is None for ref in graphs[:-2])

    learner.model.register_forward_hook(watch)
    learner.step()
    assert len(graphs) == 4


def test_each_epoch_is_augmented_differently():
    learner = tiny(lr=1e-12, crop_padding=8, norm="group")
    first, second = (learner.step()["train_loss"] for _ in range(2))
    assert first != pytest.approx(second, abs=1e-5)


def test_test_leaves_the_model_unchanged():
    learner = tiny(lr=0.1)
    learner.step()
    before = learner.state_dict()
    for parameter in learner.model.parameters():
        parameter.grad = None
    learner.test()
    assert same(learner.state_dict(), before)
    assert all(p.grad is None for p in learner.model.parameters())


def test_image_classifier_raises_every_fault_of_its_settings():
    with pytest.raises(SpecError) as caught:
        ImageClassifier({"lr": -1, "l1": 3}, {"dataset": "digit"})
    assert [fault.key for fault in caught.value.faults] == ["dataset", "lr", "l1"]


# Of 49 training images batches of 16 leave 1, so rank 1 has none in the last one; 20 leave 9.
RANKED = {
    "plain": {"batch_size": 16},
    "uneven": {"batch_size": 20, **AUGMENTED, "label_smoothing": 0.1},
    "adamw": {"batch_size": 16, "optimizer": "adamw", "lr": 1e-3, **AUGMENTED},
    "muon": {"batch_size": 16, "optimizer": "muon", "clip_grad_norm": 1},
}
EXACT = {**tiny_images.EXACT, "epochs": 3}
BATCH_NORM = {"norm": "batch", "batch_size": 20}


def trained(rank, settings):
    place = {"rank": rank, "world_size": dist.get_world_size()}
    learner = ImageClassifier(settings, EXACT, **place)
    dist.barrier()
    started = time.perf_counter()
    reports = [learner.step() for _ in range(2)]
    elapsed_s = time.perf_counter() - started
    assert sum(report["epoch_s"] for report in reports) < 1.5 * elapsed_s
    state = learner.state_dict()
    restored = ImageClassifier(settings, EXACT, **place)
    restored.load_state_dict(state)
    assert quick(restored.step()) == quick(learner.step())
    return {"reports": reports, "test": restored.test(), "state": state}


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def ranks(request, tmp_path_factory):
    settings = {**RANKED, "batch_norm": BATCH_NORM}
    cases = {name: partial(trained, settings=each) for name, each in settings.items()}
    return real_ranks.run(cases, tmp_path_factory.mktemp("ranks"), world_size=request.param)


@pytest.mark.parametrize("name", RANKED)
def test_ranks_equal_one_process(ranks, name):
    learner = ImageClassifier(RANKED[name], EXACT)
    reports = [learner.step() for _ in range(2)]
    weights = learner.state_dict()["model"]
    for rank in ranks:
        for ours, theirs in zip(reports, rank[name]["reports"], strict=True):
            assert quick(theirs) == pytest.approx(quick(ours), rel=1e-11)
        for key, value in rank[name]["state"]["model"].items():
            assert (value - weights[key]).abs().max() <= 1e-12, key
    learner.step()
    assert ranks[0][name]["test"] == pytest.approx(learner.test(), rel=1e-11)


@pytest.mark.parametrize("name", [*RANKED, "batch_norm"])
def test_ranks_agree_bit_for_bit(ranks, name):
    first, *others = (rank[name] for rank in ranks)
    assert all(same(first, other) for other in others)  # and each timing is the slowest rank's


def memory_of(work):
    watch = MemoryWatch("cpu")
    watch.begin()
    work()
    return watch.end()


@pytest.fixture
def one_batch(monkeypatch):
    """The data set "tiny" with one batch to train on: memory takes no more to be filled."""

    def load(folder, *, split_seed):
        whole = tiny_images.load(folder, split_seed=split_seed)
        splits = {name: rows[: getattr(info, name)] for name, rows in whole.splits.items()}
        return replace(whole, splits=splits)

    info = tiny_images.info(load, train=TINY["batch_size"], validation=4, test=4)
    monkeypatch.setitem(DATASETS, "tiny", info)


@pytest.mark.usefixtures("one_batch")
def test_thirty_trials_in_one_process_leave_no_memory():
    def trials(count):
        for _ in range(count):
            ImageClassifier({"lr": 0.1}, DEEP).step()
        gc.collect()

    trials(5)  # what is made once, and the allocator's own ups and downs
    with LiveBytes() as tensors:  # before the measure: torch imports 70 MiB for its first mode
        trials(1)
        assert tensors.live == 0
    before = memory_of(lambda: None)
    trials(29)
    after = memory_of(lambda: None)
    # One trial's weights, gradients and momentum are 3 MiB, its activations 15.
    assert after["memory_mib"] - before["memory_mib"] < 20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: none here")
def test_thirty_trials_on_a_gpu_leave_no_memory():
    device = torch.device("cuda")

    def run():
        ImageClassifier({"lr": 0.1}, DEEP, device=device).step()
        gc.collect()
        return torch.cuda.memory_allocated(device)

    before = run()
    assert [run() for _ in range(29)] == [before] * 29
