"""Confirming a search and going on from it, by the commands, on real Ray."""

import json
import shutil
from pathlib import Path

import pytest
from driven import call, shown
from noisy import noisy

from tuner.experiment.results.results import Results

SPACE = {"x": "uniform(0, 4)"}


def spec(trainable, **changes):
    return {
        "trainable": f"noisy:{trainable}",
        "search": {"space": SPACE},
        "objective": {"metric": "loss", "mode": "min"},
        "scheduler": {"max_t": 3, "reduction_factor": 2},
        "resources": {"cpus": 1},
        "num_samples": 6,
        "max_concurrent": 1,
        **changes,
    }


@pytest.fixture(scope="module")
def here(ray_here, tmp_path_factory):
    """A working directory with a finished search in results/."""
    here = tmp_path_factory.mktemp("trust")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.delenv("TUNER_STORAGE", raising=False)
        patch.syspath_prepend(Path(__file__).parent)
        (here / "learner.json").write_text(json.dumps(spec("Noisy")))
        call("run", "learner.json")
        yield here


def test_confirm_retrains_leaders_and_measures_the_test_split_once(here):
    before = shown("best", "learner")
    assert before["shown"] == "searched"
    output = shown("confirm", "learner", "--top", 2, "--seeds", 3)
    assert output["seeds"] == [1, 2, 3]
    results = Results(here / "results/learner-confirm")
    assert results.counts["completed"] == 6
    assert {trial.last_epoch for trial in results.trials.values()} == {3}
    for trial in results.trials.values():
        assert trial.results[0].metrics["seed"] == trial.seed
    assert [trial.seed for trial in results.trials.values()] == [1, 2, 3] * 2
    leader = output["leaders"][0]
    x = leader["config"]["x"]
    assert leader["values"] == {
        str(s): pytest.approx(noisy(x, s, 3)) for s in (1, 2, 3)
    }
    best = shown("best", "learner")
    assert (best["shown"], best["trial_id"]) == ("confirmed", leader["trial_id"])
    seed = min((1, 2, 3), key=lambda s: noisy(x, s, 3))
    assert best["confirmed"]["seed"] == seed
    assert output["test"]["test_loss"] == pytest.approx(noisy(x, seed, 3) + 100)
    evaluated = shown("evaluate", "learner")
    assert evaluated["trial_id"] == leader["trial_id"]
    assert evaluated["test_loss"] == output["test"]["test_loss"]
    records = list((here / "results/learner-confirm/trials").glob("*/test.json"))
    assert len(records) == 1  # only what was chosen
    now = shown("show", "learner")
    assert (now["best"], now["confirmed"]["trial_id"]) == (before, leader["trial_id"])


@pytest.mark.slow
def test_resume_continues_a_confirmation(here):
    """After the first test: its experiment as a kill in the fourth trial would have left it."""
    folder = here / "results/learner-confirm"
    whole = shown("confirm", "learner", "--top", 2, "--seeds", 3)
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    cut = next(
        i for i, line in enumerate(lines) if '"00003"' in line and '"result"' in line
    )
    shutil.copytree(folder, here / "kept")
    journal.write_text("".join(lines[: cut + 1]))
    assert shown("best", "learner")["shown"] == "searched"
    again = shown("resume", "learner-confirm")
    assert again["leaders"] == whole["leaders"]
    assert shown("best", "learner")["shown"] == "confirmed"
