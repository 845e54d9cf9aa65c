"""Queues of real searches: runners and drivers are killed, and each search runs once, whole."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
import real_nodes
from gated import LIMIT_S, wait_for
from stores import needs_s3

from tuner.errors import UsageError
from tuner.experiment.control import build_control, send_request
from tuner.experiment.events import (
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.experiment.storage import find_experiment
from tuner.service.queue.entries import Queue
from tuner.spec.quotas import count_usable_cpus

pytestmark = pytest.mark.slow

EPOCHS = 4
LEARNER = """
import time

class Slow:
    metrics = ("loss",)

    def __init__(self, config, constants, *, device, rank, world_size):
        self.x, self.epoch = config["x"], 0
        if constants.get("fails"):
            raise ValueError("as asked")

    def step(self):
        time.sleep(0.4)
        self.epoch += 1
        return {"loss": self.x / self.epoch}

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]
"""
SPEC = {
    "trainable": "slow_learner:Slow",
    "search": {"space": {"x": "uniform(0, 1)"}},
    "objective": {"metric": "loss", "mode": "min"},
    "scheduler": "none",
}


class Searches:
    """A folder with a trainable, and the real `tuner queue` there."""

    def __init__(self, folder, *, within=(), environment=os.environ):
        self.folder = folder
        self.storage = folder / "results"
        self.within = within
        self.environment = {**environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.queue = Queue(str(self.storage))
        self.processes = []
        (folder / "slow_learner.py").write_text(LEARNER)

    def start(self, *arguments):
        command = [*self.within, sys.executable, "-m", "tuner", "queue"]
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.processes.append(process)
        return process

    def add(self, name, user, samples, *, cpus=1, **constants):
        training = {"epochs": EPOCHS, **constants}
        spec = {
            **SPEC,
            "num_samples": samples,
            "training": training,
            "resources": {"cpus": cpus},
        }
        (self.folder / f"{name}.json").write_text(json.dumps(spec))
        process = self.start(
            "add", f"{name}.json", "--user", user, "--address", "auto", "--yes"
        )
        assert process.wait(LIMIT_S) == 0, process.stderr.read()

    def events(self, name, kind=None):
        if not (self.storage / name / "journal.jsonl").exists():
            return []
        return [e for e in read(self.storage / name) if kind in (None, e["event"])]

    def driver(self, name):
        return self.events(name, EXPERIMENT_STARTED)[-1]["owner"]["pid"]

    def log(self, name):
        return self.queue.find_log(name).read_text()

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for name in self.queue.list_open():
            if self.queue.find_folder(name).is_driven:
                os.kill(self.driver(name), signal.SIGKILL)


def assert_whole(searches, name, samples=None):
    """Each epoch of each trial was journaled once, and the search has ended: of itself, with so
    many trials, or as it was asked to.
    """
    results = Results(searches.storage / name)
    samples = samples or len(results.trials)
    assert (results.status, len(results.trials)) == ("completed", samples), (
        searches.log(name)
    )
    epochs = [(e["trial_id"], e["epoch"]) for e in searches.events(name, RESULT)]
    assert len(epochs) == len(set(epochs)) == samples * EPOCHS
    assert searches.queue.read_end(name).status == "completed"


def test_queue_goes_on_after_ray_and_runners_end(tmp_path):
    """A daemon of Ray is killed, then the runner; the next runner ends by SIGTERM."""
    searches = Searches(tmp_path)

    def reports():
        return len(searches.events("a", RESULT))

    def starts():
        return len(searches.events("a", EXPERIMENT_STARTED))

    try:
        searches.add("a", "ann", 12)
        first = searches.start("run")
        wait_for(lambda: reports() >= 2, first)
        for child in psutil.Process(searches.driver("a")).children():
            if child.name() == "raylet":
                child.kill()
        wait_for(lambda: starts() == 2, first)
        before = reports()
        wait_for(lambda: reports() >= before + 2, first)
        first.kill()
        notice = "the driver of a has ended too early: error: Ray's raylet has died"
        assert notice in first.communicate()[1]
        second = searches.start("run")
        assert second.stderr.readline() == "a runs already\n"
        second.terminate()
        assert "its searches end" in second.communicate(timeout=LIMIT_S)[1]
        assert searches.events("a")[-1]["status"] == "interrupted"
        third = searches.start("run")
        _, stderr = third.communicate(timeout=2 * LIMIT_S)
        assert third.returncode == 0, stderr
        assert_whole(searches, "a", 12)
        assert starts() == 3
    finally:
        searches.close()


@needs_s3
@pytest.mark.nodes
def test_queue_in_bucket_runs_from_other_machine(tmp_path, s3, monkeypatch):
    monkeypatch.setenv("TUNER_STORAGE", s3)
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "one"))
    searches = Searches(tmp_path, environment=os.environ)
    searches.add("fails", "ann", 2, fails=True)
    searches.add("first", "ann", 2)
    searches.environment["TUNER_MIRROR"] = str(tmp_path / "another machine")
    runner = searches.start("run")
    _, stderr = runner.communicate(timeout=2 * LIMIT_S)
    assert runner.returncode == 3, stderr
    entries = {one.entry.name: one for one in Queue(s3).list_statuses()}
    assert {name: one.status for name, one in entries.items()} == {
        "fails": "failed",
        "first": "completed",
    }
    assert entries["fails"].ended.code == 1
    assert entries["fails"].ended.why.startswith("error: fails has no usable trial")
    results = Results(find_experiment("first", s3))
    assert (results.status, len(results.trials)) == ("completed", 2)


def live_at_each_event(searches, names):
    """(time, {name: how many trials run}) after each event of a trial, by the journals."""
    events = sorted(
        (e["time"], name, e)
        for name in names
        for e in searches.events(name)
        if "trial_id" in e
    )
    live = {name: set() for name in names}
    for at, name, event in events:
        if event["event"] == TRIAL_STARTED:
            live[name].add(event["trial_id"])
        elif event["event"] == TRIAL_ENDED:
            live[name].discard(event["trial_id"])
        yield at, {name: len(trials) for name, trials in live.items()}


def most_at_once(searches, names, since, until):
    """The most trials of each that ran at a time, from `since` to `until`."""
    most = dict.fromkeys(names, 0)
    for at, live in live_at_each_event(searches, names):
        if since <= at <= until:
            most = {name: max(most[name], live[name]) for name in names}
    return most


def test_queue_with_separate_rays_divides_cpus_by_share(tmp_path):
    """And both end, though the driver of one is killed."""
    searches = Searches(tmp_path)
    names = ("first", "second")

    def live():
        *_, (_, counts) = [(0, {}), *live_at_each_event(searches, names)]
        return counts

    try:
        for name, user, samples in (("first", "ann", 400), ("second", "bob", 12)):
            searches.add(name, user, samples, cpus=count_usable_cpus() / 4)
        runner = searches.start("run", "--at-once", "2", "--share", "bob=3")
        wait_for(lambda: live() == {"first": 1, "second": 3}, runner)
        since = time.time()
        results = len(searches.events("second", RESULT))
        wait_for(lambda: len(searches.events("second", RESULT)) >= results + 6, runner)
        until = time.time()
        os.kill(searches.driver("first"), signal.SIGKILL)
        wait_for(lambda: searches.queue.read_end("second"), runner)
        wait_for(lambda: live()["first"] == 4, runner)
        send_request(searches.queue.find_folder("first"), build_control("finish"))
        _, stderr = runner.communicate(timeout=LIMIT_S)
        assert runner.returncode == 0, stderr
        assert "the driver of first was killed" in stderr
        assert_whole(searches, "first")
        assert_whole(searches, "second", 12)
        assert [len(searches.events(name, EXPERIMENT_STARTED)) for name in names] == [
            2,
            1,
        ]
        assert most_at_once(searches, names, since, until) == {
            "first": 1,
            "second": 3,
        }, stderr
    finally:
        searches.close()


@pytest.mark.nodes
def test_queue_with_shared_ray_completes_after_driver_kill(tmp_path):
    with real_nodes.cluster() as cluster:
        cluster.start(1, cpus=4)
        cluster.await_nodes(1)
        environment = {**cluster.foreign, **cluster.environment}
        searches = Searches(tmp_path, within=cluster.enter(1), environment=environment)
        try:
            # So that it runs until the second has been killed
            searches.add("first", "ann", 32)
            searches.add("second", "bob", 12)
            runner = searches.start("run", "--at-once", "2", "--address", cluster.head)
            wait_for(lambda: len(searches.events("second", TRIAL_STARTED)) >= 2, runner)
            since = searches.events("second", TRIAL_STARTED)[1]["time"]
            os.kill(searches.driver("second"), signal.SIGKILL)
            wait_for(lambda: searches.queue.read_end("second"), runner)
            with suppress(UsageError):  # where the first has just ended
                send_request(
                    searches.queue.find_folder("first"), build_control("finish")
                )
            _, stderr = runner.communicate(timeout=2 * LIMIT_S)
            assert runner.returncode == 0, stderr
            assert "the driver of second was killed" in stderr
            assert_whole(searches, "first")
            assert_whole(searches, "second", 12)
            assert len(searches.events("second", EXPERIMENT_STARTED)) == 2
            names = ("first", "second")
            until = min(searches.events(name)[-1]["time"] for name in names)
            most = most_at_once(searches, names, since, until)
            assert most == {"first": 2, "second": 2}, stderr
        finally:
            searches.close()
