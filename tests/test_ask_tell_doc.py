"""docs/ask_tell.md is true: its loop, its curl lines and its client work as they stand."""

import itertools
import json
import os
import runpy
import shutil
import subprocess
import sys
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest
from pages import Page
from served import TOKEN, listen

from tuner.experiment.events import TRIAL_STARTED
from tuner.experiment.results.results import Results
from tuner.search.ask_tell import AskTell

PAGE = Page("docs/ask_tell.md")
LIMIT_S = 120
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@contextmanager
def serve(storage):
    """The URL of the searches that a server of the storage drives."""
    with listen(storage) as url:
        yield f"{url}/api/ask-tell"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    PAGE.write_files(tmp_path)
    return tmp_path


def test_page_loop_completes_search(here):
    runpy.run_path("in_a_loop.py")
    results = Results(here / "results/loop")
    assert results.status == "completed"
    assert len(results.trials) == 12
    assert abs(results.get_best_trial().config["lr"] - 0.1) < 0.2


def post(url, path, body):
    urlopen(Request(f"{url}/{path}", json.dumps(body).encode(), BEARER)).close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_page_curl_lines_get_shown_answers(here):
    with serve(here / "results") as url:
        environment = {**os.environ, "SERVER": url, "TOKEN": TOKEN}
        command = ["bash", "by_hand.sh"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        post(url, "far/close", {})
    assert done.stderr == ""
    assert done.stdout == PAGE.block('{"name":"far"')


def test_page_clients_survive_closed_search(here, monkeypatch):
    """It is closed while their second and their ninth report are under way."""
    report = AskTell.report
    calls = itertools.count(1)

    def report_late(*arguments):
        if next(calls) in (2, 9):
            post(url, "far/close", {})
        return report(*arguments)

    monkeypatch.setattr(AskTell, "report", report_late)
    space = {"space": {"lr": "loguniform(1e-4, 1)"}}
    rest = {
        "objective": {"metric": "loss"},
        "scheduler": {"max_t": 9},
        "num_samples": 6,
    }
    with serve(here / "results") as url:
        post(url, "", {"name": "far", "search": space, **rest})
        environment = {**os.environ, "SERVER": url, "TOKEN": TOKEN}
        command = [sys.executable, "client.py"]
        clients = [subprocess.Popen(command, env=environment) for _ in range(2)]
        assert [client.wait(LIMIT_S) for client in clients] == [0, 0]
        post(url, "far/close", {})
    results = Results(here / "results/far")
    assert (results.status, results.history.resumed) == ("completed", 2)
    epochs = [
        [report.epoch for report in trial.results] for trial in results.trials.values()
    ]
    assert len(epochs) == 6
    assert all(each == list(range(1, len(each) + 1)) for each in epochs)
    assert all(event["client"] for event in started(results))


def started(results):
    return [
        event
        for event in results.files.read_events()
        if event["event"] == TRIAL_STARTED
    ]
