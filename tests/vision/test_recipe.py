"""The pieces of recipes: what they refuse, and what a trial does with them."""

from dataclasses import replace
from functools import cache, partial

import pytest
import real_ranks
import tiny_images
import torch
from real_ranks import compare_results, trained
from test_image_classifier import AUGMENTED, ClassifierContract, quick

from tuner.testing.contracts import is_equal
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.metrics import METRICS, OPTIONAL_METRICS
from tuner.vision.settings import check_settings

TINY = tiny_images.TINY
PIECES = {
    "warmup_epochs": 1.5,
    "decay_norms_and_biases": False,
    "clip_grad_norm": 0.05,
    "ema_decay": 0.8,
    "mixup": 0.4,
    "cutmix": 1.0,
    "class_weights": "balanced",
}
FAST = {
    "crop_padding": 2,
    "flip": True,
    "vertical_flip": True,
    "test_time_flip": True,
    "optimizer": "muon",
    "lr_schedule": "triangular",
}
WHOLE = {
    **PIECES,
    "lr_schedule": "step",
    "lr_steps": [2.2],
    "lr_step_factor": 0.3,
    "weight_decay": 0.1,
    "label_smoothing": 0.1,
    "metrics": list(OPTIONAL_METRICS),
    **AUGMENTED,
}


def test_recipe_by_default_adds_no_metrics_and_no_state():
    learner = ImageClassifier({}, TINY)
    assert learner.metrics == tuple(learner.step()) == METRICS
    assert [*learner.test()] == ["test_loss", "test_accuracy", "images", "baseline"]
    state = learner.state_dict()
    assert {"raw_model", "ema_updates", "data"}.isdisjoint(state)
    assert len(state["optimizer"]["param_groups"]) == 1


def test_check_settings_rejects_what_the_data_set_lacks(add_dataset):
    few = replace(tiny_images.INFO, classes=tuple("01234"), image_size=1)
    add_dataset("few", few)
    values = {
        "dataset": "few",
        "batch_size": 9,
        "metrics": ["top5_accuracy"],
        "cutmix": 1,
    }
    faults = check_settings(values)
    assert [fault.key for fault in faults] == ["cutmix", "metrics", "model"]


class TestTheWholeRecipe(ClassifierContract):
    def make(self, *, seed=0):
        constants = {
            "freeze": "features.0",
            "unfreeze_epoch": 1,
            "test_time_flip": True,
        }
        return ImageClassifier({**WHOLE, **constants}, {**TINY, "seed": seed})


class TestFast(ClassifierContract):
    steps = 2

    def make(self, *, seed=0):
        constants = {"precision": "bf16", "resplit": True, "seed": seed}
        return ImageClassifier(FAST, {**TINY, **constants})


OTHERS = {
    "norm": "group",
    "width": 5,
    "dtype": "float64",
    "lr": 0.2,
    "momentum": 0.5,
    "label_smoothing": 0.2,
    "batch_size": 20,
    "cutout": 6,
    "epochs": 4,
    **dict.fromkeys(("seed", "split_seed"), 1),
    "resplit": True,
    "crop_scale": 0.3,
}
CHANGES = [*(PIECES | FAST | OTHERS).items()]
CHANGES += [("optimizer", name) for name in ("adamw", "sgdw")]
CHANGES += [("lr_schedule", name) for name in ("constant", "one_cycle", "step")]


def report_twice(**setting):
    learner = ImageClassifier(setting, {**TINY, "weight_decay": 0.1})
    return [quick(learner.step()) for _ in range(2)]


@cache
def report_twice_plainly():
    return report_twice()


@pytest.mark.parametrize(("piece", "value"), CHANGES)
def test_each_setting_changes_the_result(piece, value):
    assert report_twice(**{piece: value}) != report_twice_plainly()


def test_compile_gives_the_same_training(monkeypatch):
    # Traced and differentiated as ever, but not turned into C++, which takes 20 seconds.
    compiled = []
    compile_with = partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(
        torch, "compile", lambda m: compiled.append(m) or compile_with(m)
    )
    settings = {**TINY, "batch_size": 49}
    learner = ImageClassifier({**WHOLE, "compile": True}, settings)
    plain = ImageClassifier(WHOLE, settings)
    assert compiled == [learner.model]
    assert learner.state_dict()["model"].keys() == plain.state_dict()["model"].keys()
    for _ in range(2):  # the second begins after the averages have been evaluated
        got = learner.step()
        expected = plain.step()
        assert got["train_loss"] == pytest.approx(expected["train_loss"], rel=1e-3)


def test_state_of_an_average_holds_averaged_and_raw_weights():
    learner = ImageClassifier({"ema_decay": 0.9}, TINY)
    report = [learner.step() for _ in range(2)][-1]
    state = learner.state_dict()
    assert is_equal(dict(learner.model.state_dict()), state["raw_model"])
    plain = ImageClassifier({}, TINY)
    plain.load_state_dict(state)
    assert plain.test() == learner.test()
    assert report["val_loss"] == plain._evaluate_split("validation").metrics["loss"]
    plain.load_state_dict({**state, "model": state["raw_model"]})
    assert plain.test() != learner.test()


def test_ema_decay_continues_a_training_without_average():
    plain = ImageClassifier({}, TINY)
    plain.step()
    learner = ImageClassifier({"ema_decay": 0.9}, TINY)
    learner.load_state_dict(plain.state_dict())
    assert learner.test() == plain.test()
    assert quick(learner.step())["train_loss"] == plain.step()["train_loss"]


EXACT = {**tiny_images.EXACT, "epochs": 3, "batch_size": 20}
ALL_METRICS = (*real_ranks.METRICS, *(f"val_{name}" for name in OPTIONAL_METRICS))
SPREAD = {"replicas": {"world_size": 2}, "stages": {"world_size": 2, "split": 2}}
RECIPES = {"whole": WHOLE, "fast": {**FAST, "metrics": list(OPTIONAL_METRICS)}}


def spread(rank, settings, **ranks):
    first = ImageClassifier(settings, EXACT, rank=rank, **ranks)
    result = trained(first)
    resumed = ImageClassifier(settings, EXACT, rank=rank, **ranks)
    resumed.load_state_dict(result["state"])
    assert quick(resumed.step()) == quick(first.step())
    assert is_equal(resumed.state_dict(), first.state_dict())
    return result


def batch_norm(rank):
    """On CPUs, each rank has statistics of its own, of which those of rank 0 count."""
    settings = {"norm": "batch", "ema_decay": 0.8}
    learner = ImageClassifier(settings, EXACT, rank=rank, world_size=2)
    result = trained(learner)
    resumed = ImageClassifier(settings, EXACT, rank=rank, world_size=2)
    resumed.load_state_dict(result["state"])
    assert quick(resumed.step()) == quick(learner.step())
    return result


@pytest.fixture(scope="module")
def ranks(group):
    cases = {
        f"{name} {spread_name}": partial(
            spread, settings=settings, **SPREAD[spread_name]
        )
        for name, settings in RECIPES.items()
        for spread_name in SPREAD
    }
    return group.run({**cases, "batch_norm": batch_norm})


@pytest.mark.parametrize("recipe", RECIPES)
def test_ranks_equal_one_process(ranks, recipe):
    expected = trained(ImageClassifier(RECIPES[recipe], EXACT))
    for rank in ranks:
        for spread_name in SPREAD:
            compare_results(
                rank[f"{recipe} {spread_name}"], expected, metrics=ALL_METRICS
            )


@pytest.mark.parametrize(
    "name", [*(f"{recipe} {how}" for recipe in RECIPES for how in SPREAD), "batch_norm"]
)
def test_ranks_agree_bit_for_bit(ranks, name):
    assert is_equal(ranks[0][name], ranks[1][name])


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_complete_recipe_trains_and_resumes_on_a_gpu(recipe, precision):
    config = {**RECIPES[recipe], "precision": precision}
    device = {"device": torch.device("cuda")}
    learner, restored = (ImageClassifier(config, TINY, **device) for _ in range(2))
    first = learner.step()
    restored.load_state_dict(learner.state_dict())
    assert quick(restored.step()) == pytest.approx(quick(learner.step()), rel=1e-2)
    assert learner.step()["train_loss"] < first["train_loss"]
    assert restored.test().keys() >= {"test_macro_f1", "test_top5_accuracy"}
