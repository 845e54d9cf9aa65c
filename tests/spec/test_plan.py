"""What a spec comes to, before it runs."""

from pathlib import Path

import pytest

from tuner.spec import plan, quotas
from tuner.spec.experiment import build_spec
from tuner.spec.plan import plan_of
from tuner.spec.validation import Machine

SAMPLES = {"num_samples": 5}
A = {"space": {"a": "uniform(0, 1)"}}
SPEC = {"search": {"space": {"lr": "uniform(0, 1)"}}, **SAMPLES}


@pytest.fixture(autouse=True)
def four_cpus_two_gpus(monkeypatch):
    monkeypatch.setattr(Machine, "here", lambda: Machine(cpus=4, gpus=2))
    monkeypatch.setattr(quotas, "cpu_limit", lambda *root: None)
    monkeypatch.setattr(plan, "_GPUS", Path("/nowhere"))


@pytest.mark.parametrize(
    ("changes", "at_once"),
    [
        ({}, 4),
        ({"max_concurrent": 2}, 2),
        ({"resources": {"cpus": 2}}, 2),
        ({"resources": {"cpus": 1, "gpus": 1}}, 2),
        ({"resources": {"cpus": 0.5, "gpus": 0.3}}, 6),
        ({"resources": {"cpus": 0.1, "gpus": 2}}, 1),
        ({"resources": {"cpus": 1, "workers": 2}}, 2),
    ],
)
def test_plan_counts_trials_that_fit(changes, at_once):
    assert plan_of(build_spec(SPEC | changes), here=True)["at_once"] == at_once


def test_plan_notes_cpu_quota(monkeypatch):
    spec = build_spec(SPEC)
    assert plan_of(spec, here=True)["notes"] == []
    quota = quotas.Limit(1.5, Path("/box/cpu.max"))
    monkeypatch.setattr(quotas, "cpu_limit", lambda *root: quota)
    [note] = plan_of(spec, here=True)["notes"]
    assert note.startswith("of this machine's CPUs 1 of ")
    assert note.endswith(" may be used: /box/cpu.max gives 1.5 CPUs")
    assert plan_of(spec, here=False)["notes"] == []


def test_plan_notes_idle_gpus(tmp_path, monkeypatch):
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(plan, "_GPUS", tmp_path)
    spec = build_spec(SPEC)
    [note] = plan_of(spec, here=True)["notes"]
    assert "leave 2 GPUs idle; --gpus 1 uses" in note
    assert plan_of(spec, here=False)["notes"] == []
    assert plan_of(build_spec(SPEC | {"resources": {"gpus": 0.5}}), here=True)["notes"] == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert plan_of(spec, here=True)["notes"] == []


def test_plan_notes_unusual_mode():
    wrong = {"metric": "val_accuracy", "mode": "min"}
    assert plan_of(build_spec(SPEC | {"objective": wrong}), here=True)["notes"] == [
        "objective.mode=min takes the trial with the lowest val_accuracy for the best"
    ]
    for right in ({"metric": "val_accuracy"}, {"metric": "epoch_s", "mode": "max"}):
        assert plan_of(build_spec(SPEC | {"objective": right}), here=True)["notes"] == []


def test_plan_notes_list_without_choice():
    def notes(l1):
        space = {"lr": "uniform(0, 1)", "optimizer": {"l1": l1}}
        return plan_of(build_spec({"search": {"space": space}} | SAMPLES), here=True)["notes"]

    [note] = notes([1, 2])
    assert note.startswith("search.space.optimizer.l1 is [1, 2] in every trial")
    assert notes("constant([1, 2])") == []


def test_plan_has_trials_epochs_and_reservation():
    plan = plan_of(build_spec(SPEC | {"resources": {"cpus": 2, "workers": 2}}), here=True)
    assert (plan["trials"], plan["epochs_a_trial"]) == (5, 10)
    assert plan["a_trial_reserves"] == {"cpus": 4, "gpus": 0}


def test_plan_unknown_numbers_are_words():
    free = {"num_samples": None, "time_budget_s": 60, "scheduler": "none"}
    plan = plan_of(build_spec(SPEC | free), here=True)
    assert plan["trials"] == "as many as 1m 00s allow"
    assert plan["epochs_a_trial"] == "as many as the function reports"


def test_plan_notes_cells_left_out_of_grid():
    grid = build_spec({"search": {"strategy": "grid", "space": {"a": "uniform(0, 1)", "b": 1}}})
    assert plan_of(grid, here=True)["notes"] == []
    [note] = plan_of(grid.replace(num_samples=2), here=True)["notes"]
    assert note == (
        "num_samples=2 takes 2 of the grid's 3 trials, spread over it, and leaves 1 out."
    )


def test_plan_notes_grid_search_as_choice():
    space = {"a": "grid_search([1, 2])", "b": "grid_search([1, 2, 3])", "c": "choice([1, 2])"}
    drawn = build_spec({"search": {"space": space}, "num_samples": 3})
    [note] = plan_of(drawn, here=True)["notes"]
    assert note.startswith(
        "grid_search of a, b is a choice for --search random: num_samples=3 means 3 trials in all, "
        "where Ray Tune alone would run every value so often, 18 trials."
    )
    whole = drawn.replace(search={"strategy": "grid", "space": space}, num_samples=None)
    assert plan_of(whole, here=True)["notes"] == []
