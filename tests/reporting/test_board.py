"""The real TensorBoard, as `tuner tensorboard` starts it, by its HTTP interface."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from synthetic import START, Writer

from tuner.reporting.tensorboard import TensorBoardWriter, logdir
from tuner.spec import build_spec
from tuner.storage import EXPERIMENT

LIMIT_S = 120
STATUSES = [f"STATUS_{name}" for name in ("UNKNOWN", "SUCCESS", "FAILURE", "RUNNING")]
CONFIG = {"lr": 0.01, "batch_size": 32, "schedule": None, "nesterov": True, "layers": [1, 2]}


class Board:
    """TensorBoard on an experiment of six trials: two ended well, two failed, two run."""

    def __init__(self, storage):
        self.spec = build_spec(
            {
                "name": "seen",
                "storage": str(storage),
                "training": {"model": "cnn", "dataset": "digits"},
                "search": {
                    "space": {
                        "lr": "loguniform(1e-4, 1)",
                        "batch_size": "choice([16, 32, 128])",
                        "schedule": "choice([None, 'cosine'])",
                        "nesterov": "choice([True, False])",
                        "layers": "choice([[1, 2], [3]])",
                    }
                },
                "num_samples": 6,
            }
        )
        self.spec.folder.mkdir()
        document = {"format": 1, "spec": self.spec.model_dump(mode="json")}
        (self.spec.folder / EXPERIMENT).write_text(json.dumps(document))
        self.writer = TensorBoardWriter(self.spec, earlier={})
        self.story = Writer(self.spec.folder)
        reports = [{"val_loss": v, "val_accuracy": 1 - v, "epoch_s": 2.0} for v in (0.5, 0.2, 0.3)]
        self.story.trial(0, reports, config=CONFIG)
        self.story.trial(1, reports[:1], end="stopped", config=CONFIG | {"batch_size": 128})
        self.story.trial(2, [], error=("exception", "m"), config=CONFIG | {"schedule": "cosine"})
        self.story.trial(3, reports[:1], error=("nan", "m"), config=CONFIG | {"layers": [3]})
        self.story.trial(4, reports[:1], end=None, config=CONFIG)
        self.story.trial(5, [], end=None, config=CONFIG)
        for event in self.story.events:
            self.writer(event)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [sys.executable, "-m", "tuner", "tensorboard", str(self.spec.folder)]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stderr=subprocess.PIPE, text=True
        )

    def ask(self, path, body=None):
        """What TensorBoard answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/data/plugin/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def sessions(self):
        """trial_id -> its row; waits until all trials are read."""
        body = {
            "experimentName": "",
            "allowedStatuses": STATUSES,
            "colParams": [],
            "startIndex": 0,
            "sliceSize": 1000,
        }
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.stderr.read()
            try:
                groups = self.ask("hparams/session_groups", body).get("sessionGroups", [])
            except OSError:
                groups = []
            values = {group["name"]: group["metricValues"] for group in groups}
            if len(groups) == 6 and values["00000"] and values["00004"]:
                return {group["name"]: group for group in groups}
            time.sleep(0.2)
        raise AssertionError("TensorBoard does not show the trials")

    def end(self, number, status):
        trial_id = f"{number:05}"
        self.writer(self.story.add("trial_ended", trial_id=trial_id, status=status))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=LIMIT_S)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    board = Board(tmp_path_factory.mktemp("storage"))
    yield board
    board.close()


def test_every_trial_has_a_row_with_its_status_and_times(board):
    rows = board.sessions()
    told = {
        trial_id: (row["sessions"][0]["status"], row["hparams"]["status"])
        for trial_id, row in rows.items()
    }
    assert told == {
        "00000": ("STATUS_SUCCESS", "completed"),
        "00001": ("STATUS_SUCCESS", "stopped"),
        "00002": ("STATUS_FAILURE", "failed"),
        "00003": ("STATUS_FAILURE", "failed"),
        "00004": ("STATUS_RUNNING", "running"),
        "00005": ("STATUS_RUNNING", "running"),
    }
    session = rows["00000"]["sessions"][0]
    assert 0 < session["startTimeSecs"] < session["endTimeSecs"]


def test_the_columns_are_those_of_the_space_with_their_filters(board):
    board.sessions()
    experiment = board.ask("hparams/experiment", {"experimentName": ""})
    columns = {info["name"]: info for info in experiment["hparamInfos"]}
    assert set(columns) == {"status", *CONFIG}
    assert columns["lr"]["domainInterval"] == {"minValue": 0.0001, "maxValue": 1.0}
    assert [v.strip() for v in columns["batch_size"]["domainDiscrete"]] == ["16", "32", "128"]
    assert columns["schedule"]["domainDiscrete"] == ["None", "cosine"]
    assert columns["nesterov"]["domainDiscrete"] == [False, True]
    assert columns["layers"]["domainDiscrete"] == ["[1, 2]", "[3]"]
    tags = [info["name"]["tag"] for info in experiment["metricInfos"]]
    assert tags == ["best/val_loss", "val/loss", "val/accuracy"]


def test_a_row_shows_the_config_and_the_best_beside_the_last(board):
    row = board.sessions()["00000"]
    config = row["hparams"]
    assert config["batch_size"].strip() == "32"
    shown = {name: config[name] for name in ("lr", "schedule", "nesterov", "layers")}
    assert shown == {"lr": 0.01, "schedule": "None", "nesterov": True, "layers": "[1, 2]"}
    values = {value["name"]["tag"]: value["value"] for value in row["metricValues"]}
    assert values == pytest.approx({"best/val_loss": 0.2, "val/loss": 0.3, "val/accuracy": 0.7})
    assert board.sessions()["00002"]["metricValues"] == []


def test_the_scalars_are_the_reports(board):
    board.sessions()
    assert set(board.ask("scalars/tags")["00000"]) == {
        "best/val_loss",
        "val/loss",
        "val/accuracy",
        "system/epoch_s",
    }
    points = board.ask("scalars/scalars?run=00000&tag=best%2Fval_loss")
    assert [step for _, step, _ in points] == [1, 2, 3]
    assert [value for _, _, value in points] == pytest.approx([0.5, 0.2, 0.2])


def test_a_trial_that_was_seen_running_is_seen_to_end(board):
    assert board.sessions()["00005"]["hparams"]["status"] == "running"
    board.end(5, "stopped")
    row = board.sessions()["00005"]
    assert row["hparams"]["status"] == "stopped"
    assert row["sessions"][0]["status"] == "STATUS_SUCCESS"
    event = {"event": "trial_started", "time": START, "trial_id": "00005", "config": CONFIG}
    board.writer(event)  # as on a resume
    assert board.sessions()["00005"]["hparams"]["status"] == "running"


def test_it_is_served_to_this_machine_only(board):
    board.sessions()
    hexadecimal = f":{board.port:04X}"
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()]
    found = {address.split(":")[0] for address in listening if address.endswith(hexadecimal)}
    assert found == {"0100007F"}  # 127.0.0.1


def test_the_logdir_is_the_folder_of_the_trials(board):
    assert sorted(path.name for path in logdir(board.spec.folder).iterdir()) == [
        f"{number:05}" for number in range(6)
    ]
