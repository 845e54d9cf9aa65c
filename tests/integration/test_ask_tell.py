"""Trials that run elsewhere, beside Tune's own; and processes whose server is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import commands
import noisy
import pytest
from pages import Page

from tuner.experiment.changes import Lengths
from tuner.experiment.events import TRIAL_STARTED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.ask_tell import AskTell
from tuner.search.driver import build_scheduler
from tuner.search.replay import replay_events
from tuner.service.access import TOKEN_VARIABLE

pytestmark = pytest.mark.slow
TOKEN = "0123456789abcdef" * 2


def journal_of(folder):
    timed = ("time", "owner", "started", "idle_s")
    return [
        {k: v for k, v in event.items() if k not in timed} for event in read(folder)
    ]


@pytest.mark.parametrize("strategy", ["random", "bayesopt"])
def test_the_journal_is_that_of_tunes_trials(searched, tmp_path, strategy):
    tuned = searched(
        trainable="noisy:function",
        search={"strategy": strategy, "space": {"x": "uniform(-5, 5)"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 8, "grace_period": 1, "reduction_factor": 2},
        num_samples=10,
        seed=5,
    )
    spec = tuned.spec.replace(trainable="elsewhere", storage=str(tmp_path))
    with AskTell(spec) as search:
        while trial := search.suggest():
            for epoch in range(1, 9):
                loss = noisy.noisy(trial.config["x"], 0, epoch)
                if search.report(trial.trial_id, epoch, {"loss": loss}):
                    break
    assert journal_of(spec.folder) == journal_of(tuned.folder)


class Server:
    """`tuner serve`, which is killed and started again on the same port with the same token."""

    def __init__(self, storage):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api/ask-tell"
        self.storage = storage
        self.start()

    def start(self):
        command = ("serve", "--storage", self.storage, "--port", self.port)
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = commands.start(*command, **silent)
        self.wait_until(self.answers)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def wait_until(self, reached):
        for _ in range(1200):
            if reached():
                return
            assert self.process.poll() is None
            time.sleep(0.05)
        raise AssertionError("not reached")

    def kill(self):
        self.process.kill()
        self.process.wait()


def test_clients_go_on_after_their_server_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    page = Page("docs/ask_tell.md")
    folder = tmp_path / "storage/far"
    page.write_files(tmp_path)
    slower = (
        (tmp_path / "client.py")
        .read_text()
        .replace("        yield", "        time.sleep(0.05)\n        yield")
    )
    (tmp_path / "client.py").write_text(slower)
    server = Server(folder.parent)
    spec = {
        "name": "far",
        "search": {"strategy": "bohb", "space": {"lr": "loguniform(1e-4, 1)"}},
        "objective": {"metric": "loss"},
        "scheduler": {"max_t": 9, "grace_period": 1, "reduction_factor": 3},
        "num_samples": 40,
        "max_concurrent": 4,
    }
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    urlopen(Request(f"{server.url}/", json.dumps(spec).encode(), bearer)).close()
    command = [sys.executable, "client.py"]
    environment = {**os.environ, "SERVER": server.url, "TOKEN": TOKEN}
    clients = [
        subprocess.Popen(command, cwd=tmp_path, env=environment) for _ in range(4)
    ]
    try:
        for size in (4_000, 8_000):
            server.wait_until(
                lambda size=size: (folder / "journal.jsonl").stat().st_size > size
            )
            server.kill()
            server.start()
        assert [client.wait(240) for client in clients] == [0] * 4
    finally:
        for process in (*clients, server.process):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
    results = Results(folder)
    assert results.status == "completed"
    assert results.history.resumed == 2
    assert sorted(results.trials) == [f"{number:05}" for number in range(40)]
    assert {trial.status for trial in results.trials.values()} == {
        "completed",
        "stopped",
    }
    for trial in results.trials.values():  # no epoch is missing, none is there twice
        assert [r.epoch for r in trial.results] == list(range(1, trial.last_epoch + 1))
    started = [e for e in read(folder) if e["event"] == TRIAL_STARTED]
    owners = {e["trial_id"]: e["client"] for e in started}
    assert all(owners[e["trial_id"]] == e["client"] for e in started)
    assert len(set(owners.values())) == 4
    replayed = build_scheduler(results.spec)
    for _ in replay_events(
        ExperimentFolder(folder).read_events(), History(), replayed, "loss", Lengths()
    ):
        pass
    assert replayed.stopped == {
        t.trial_id for t in results.history.list_by_status("stopped")
    }
