"""What a spec comes to, before it runs."""

import pytest

from tuner.spec.declaration import load_declaration
from tuner.spec.experiment import build_spec
from tuner.spec.plan import count_local_gpus, describe_plan, list_warnings
from tuner.spec.validation import Machine

LR = {"lr": "uniform(0, 1)"}
SPEC = {"search": {"space": LR}, "num_samples": 5}


def plan(**changes):
    return describe_plan(
        build_spec(SPEC | changes), here=True, machine=Machine(cpus=4, gpus=2)
    )


def warnings(**changes):
    return list_warnings(build_spec(SPEC | changes), here=False)


@pytest.mark.parametrize(
    ("changes", "at_once"),
    [
        ({}, 4),
        ({"max_concurrent": 2}, 2),
        ({"resources": {"cpus": 0.5, "gpus": 0.3}}, 6),
        ({"resources": {"cpus": 1, "workers": 2}}, 2),
    ],
)
def test_plan_counts_trials_that_fit(changes, at_once):
    assert plan(**changes)["at_once"] == at_once


def test_plan_has_trials_epochs_and_reservation():
    counted = plan(resources={"cpus": 2, "workers": 2})
    assert (counted["trials"], counted["epochs_a_trial"]) == (5, 10)
    assert counted["a_trial_reserves"] == {"cpus": 4, "gpus": 0}
    unknown = plan(num_samples=None, time_budget_s=60, scheduler="none")
    assert unknown["trials"] == "as many as 1m 00s allow"
    assert unknown["epochs_a_trial"] == "as many as the function reports"


@pytest.mark.parametrize(
    ("scheduler", "total_s"),
    [({"name": "none", "max_t": 10}, 5 * 10 * 3 / 4), ("none", 5 * 3 / 4)],
)
def test_plan_multiplies_the_seconds_of_an_epoch(monkeypatch, scheduler, total_s):
    kind = type(load_declaration(build_spec(SPEC).trainable))
    monkeypatch.setattr(kind, "measure_epoch_s", lambda declaration, spec: 3.0)
    takes = plan(scheduler=scheduler)["takes"]
    assert takes == {"epoch_s": 3.0, "total_s": pytest.approx(total_s)}


def test_gpus_here_counts_visible_gpus(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert (count_local_gpus(tmp_path), count_local_gpus(tmp_path / "none")) == (2, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert count_local_gpus(tmp_path) == 0


GRID = {"strategy": "grid", "space": {"a": "uniform(0, 1)", "b": 1}}
CHOICES = {
    "a": "grid_search([1, 2])",
    "b": "grid_search([1, 2, 3])",
    "c": "choice([1, 2])",
}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        (
            {"objective": {"metric": "val_accuracy", "mode": "min"}},
            "objective.mode=min takes the trial with the lowest val_accuracy for the best",
        ),
        (
            {"search": {"space": {**LR, "o": {"l": [1, 2]}}}},
            "search.space.o.l is [1, 2] in every",
        ),
        (
            {"search": GRID, "num_samples": 2},
            "num_samples=2 takes 2 of the grid's 3 trials, spread over it, and leaves 1 out.",
        ),
        (
            {"search": {"space": CHOICES}, "num_samples": 3},
            "grid_search of a, b is a choice for --search random: num_samples=3 means 3 trials in "
            "all, where Ray Tune alone would run every value so often, 18 trials.",
        ),
    ],
)
def test_warnings_of_doubtful_settings(changes, warning):
    [text] = warnings(**changes)
    assert text.startswith(warning)


@pytest.mark.parametrize(
    "changes",
    [
        {"objective": {"metric": "val_accuracy"}},
        {"objective": {"metric": "epoch_s", "mode": "max"}},
        {"search": {"space": {"l1": "constant([1, 2])"}}},
        {"search": GRID, "num_samples": None},
        {"search": {"strategy": "grid", "space": CHOICES}, "num_samples": None},
    ],
)
def test_warnings_of_sound_settings_are_empty(changes):
    assert warnings(**changes) == []
