"""A search that is steered, and killed around it: every control is done, and none twice."""

import json
import random
import signal
import time
from contextlib import suppress

import driven
import pytest
from gated import wait_for

from tuner.errors import UsageError
from tuner.experiment.control import build_control, send_request
from tuner.experiment.events import CONTROL, EXPERIMENT_STARTED, RESULT, TRIAL_ENDED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results

EPOCHS = 9
TRIALS = 5
SPEC = {
    "name": "steered",
    "trainable": "unhurried:Unhurried",
    "training": {"epoch_s": 0.4, "epochs": EPOCHS},
    "search": {"strategy": "random", "space": {"x": "uniform(0, 4)"}},
    "objective": {"metric": "loss", "mode": "min"},
    "scheduler": "none",
    "resources": {"cpus": 0.5},
    "num_samples": 12,
    "max_concurrent": 2,
}


class Steered:
    """The experiment, the process that drives it, and the ids of its control requests."""

    def __init__(self, storage):
        self.cwd = storage
        self.files = ExperimentFolder(storage / "results/steered")
        self.request_ids = []
        (storage / "spec.json").write_text(json.dumps(SPEC))
        self.process = None

    def drive(self):
        """Run the search, or go on with it, until it trains, or does not as it was asked to."""
        options = ("--no-evaluate", "--yes", "--storage", self.cwd / "results")
        begin = (
            ("resume", "steered") if self.files.path.exists() else ("run", "spec.json")
        )
        results = self.count(RESULT)
        starts = self.count(EXPERIMENT_STARTED)
        with (self.cwd / "log.txt").open("ab") as log:
            command = (*begin, *options)
            self.process = driven.start(*command, cwd=self.cwd, stdout=log, stderr=log)

        def is_under_way():
            is_new = self.count(EXPERIMENT_STARTED) > starts
            return self.count(RESULT) > results or (is_new and self.is_paused())

        wait_for(lambda: is_under_way() or self.process.poll() is not None)

    def is_paused(self):
        with suppress(OSError, ValueError):
            return Results(self.files.path).history.steered.paused is not None
        return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def events(self):
        with suppress(OSError, ValueError):
            return list(read(self.files.path))
        return []

    def count(self, kind):
        return sum(event["event"] == kind for event in self.events())

    def answers(self):
        return [event for event in self.events() if event["event"] == CONTROL]

    def ask(self, control):
        with suppress(UsageError):  # where the search, or the trial, has just ended
            self.request_ids.append(send_request(self.files, control, by="test"))

    def ask_and_wait(self, control):
        self.ask(control)
        wait_for(
            lambda: {e["id"] for e in self.answers()} >= set(self.request_ids),
            self.process,
        )


@pytest.fixture
def steered(tmp_path):
    made = Steered(tmp_path)
    yield made
    if made.process and made.process.poll() is None:
        made.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_control_after_kill_is_done_once(steered, seed):
    rng = random.Random(seed)
    steered.drive()
    first = next(
        event["trial_id"] for event in steered.events() if event["event"] == RESULT
    )
    rounds = [
        [
            build_control("try", {"x": 2.5}),
            build_control("stop-trial", first),
            build_control("num-samples", TRIALS),
        ],
        [build_control("pause"), build_control("try", {"x": 1.5})],
        [
            build_control("max-concurrent", 1),
            build_control("go-on"),
            build_control("max-concurrent", 3),
        ],
    ]
    for controls in rounds:
        for control in controls:
            steered.ask(control)
            if rng.random() < 0.5:
                time.sleep(rng.uniform(0, 1.5))  # up to its journaling, or beyond
        steered.kill()
        steered.drive()
    if steered.is_paused():  # the last driver has done it first
        steered.ask_and_wait(build_control("go-on"))
    assert steered.process.wait(180) == 0

    answers = steered.answers()
    assert sorted(answer["id"] for answer in answers) == sorted(steered.request_ids)
    refused = [a["control"]["verb"] for a in answers if "refused" in a]
    assert set(refused) <= {"stop-trial", "pause", "go-on"}
    results = Results(steered.files.path)
    assert results.spec.num_samples == TRIALS
    requested = [trial for trial in results.trials.values() if trial.origin == "asked"]
    assert [trial.config["x"] for trial in requested] == [2.5, 1.5]
    suggested = [
        trial.config for trial in results.trials.values() if trial.origin != "asked"
    ]
    searcher = results.spec.search.build(results.spec.seed)
    assert suggested == [
        searcher.suggest(f"{number:05}") for number in range(len(suggested))
    ]
    assert len(suggested) >= TRIALS
    for trial in results.trials.values():
        epochs = [report.epoch for report in trial.results]
        assert epochs == list(range(1, len(epochs) + 1))
        if trial.status == "completed":
            assert len(epochs) == EPOCHS
        else:
            assert (trial.trial_id, trial.status, "stop-trial" in refused) == (
                *(first, "stopped"),
                False,
            )
            assert trial.ended_by in steered.request_ids


@pytest.mark.slow
def test_pause_frees_all_cpus_and_finish_ends_started_trials(steered):
    steered.drive()
    steered.ask_and_wait(build_control("pause"))
    wait_for(lambda: not Results(steered.files.path).counts["running"], steered.process)
    ended = [event for event in steered.events() if event["event"] == TRIAL_ENDED]
    assert {event["status"] for event in ended} <= {"interrupted", "completed"}
    shown = driven.shown("show", steered.files.path)
    assert (shown["status"], shown["paused"]) == ("running", True)
    output = driven.shown("control", steered.files.path, "finish")
    assert (output["answer"], output["control"]) == ("done", {"verb": "finish"})
    assert steered.process.wait(180) == 0
    results = Results(steered.files.path)
    assert results.status_text == "ended as asked"
    assert results.counts["completed"] == len(results.trials) < SPEC["num_samples"]
    assert results.history.never_started == SPEC["num_samples"] - len(results.trials)
    with pytest.raises(UsageError, match="has no driver"):
        send_request(steered.files, build_control("finish"))
