"""Functions and classes of a script, of its closures, and with parameters run as Ray runs them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.experiment.reading import read

SCRIPT = Path(__file__).with_name("a_script.py")
ROOT = Path(__file__).parents[2]
LIMIT_S = 300


def start(*command, cwd):
    kept = {k: v for k, v in os.environ.items() if k != "TUNER_STORAGE"}
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(*command, cwd):
    process = start(*command, cwd=cwd)
    out, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, errors


def test_a_closure_goes_to_the_workers(searched):
    factor = 5.0
    results = searched(
        trainable=lambda config: {"loss": factor * config["lr"]},
        search={"strategy": "grid", "space": {"lr": "grid_search([1.0, 2.0])"}},
        objective={"metric": "loss"},
        scheduler="none",
    )
    assert [trial.list_values("loss") for trial in results.trials.values()] == [
        [(1, 5)],
        [(1, 10)],
    ]


@pytest.mark.slow
def test_script_trainables_run_by_value(tmp_path):
    code, out, errors = run(SCRIPT, "all", cwd=tmp_path)
    assert code == 0, errors
    assert json.loads(out) == {
        "function": [1, 2],
        "closure": [5, 10],
        "partial": [2, 4],
        "parameters": [31, 32],
        "class": [31, 32],
        "learner": [1 / 3, 2 / 3],
        "confirmed": 2,
        "tested": 1,
        "exported": ["README.md", "config.json", "metrics.json", "model.safetensors"],
    }
    document = json.loads((tmp_path / "results/function/experiment.json").read_text())
    assert document["spec"]["trainable"] == "__main__:train (by value)"
    for command in (["confirm", "learner"], ["evaluate", "learner"]):
        code, _, errors = run("-m", "tuner", *command, cwd=tmp_path)
        assert (code, "pass it again" in errors) == (2, True), errors
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.mark.slow
def test_resume_after_kill_takes_trainable_from_python(tmp_path):
    killed = start(SCRIPT, "slow", cwd=tmp_path)
    journal = tmp_path / "results/slow"
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if (journal / "journal.jsonl").exists() and any(
            event["event"] == "checkpoint" for event in read(journal)
        ):
            break
        time.sleep(0.1)
    killed.send_signal(signal.SIGTERM)
    _, errors = killed.communicate(timeout=LIMIT_S)
    how = re.search(
        r"go on with: tuner\.(resume_experiment\('.*slow', trainable=train\))", errors
    )
    assert how, errors
    code, _, errors = run("-m", "tuner", "resume", "slow", cwd=tmp_path)
    assert (code, how[1].partition("(")[0] in errors) == (2, True), errors
    code, out, errors = run(SCRIPT, "resume", cwd=tmp_path)
    assert code == 0, errors
    firsts = json.loads(out)
    assert len(firsts) == 3
    assert firsts[0] == 1
    assert firsts[-1] > 1
