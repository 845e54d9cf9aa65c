"""The real TensorBoard, run on an experiment that has trials in every state."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from synthetic import Writer

from tuner.experiment.files import EXPERIMENT
from tuner.experiment.history import History
from tuner.reporting.tensorboard import TensorBoardWriter
from tuner.spec.experiment import build_spec

LIMIT_S = 120
STATUSES = [f"STATUS_{name}" for name in ("UNKNOWN", "SUCCESS", "FAILURE", "RUNNING")]
CONFIG = {
    "lr": 0.01,
    "batch_size": 32,
    "schedule": None,
    "nesterov": True,
    "layers": [1, 2],
}


class RunningTensorBoard:
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
        self.history = History(self.spec.objective)
        self.writer = TensorBoardWriter(self.spec, self.history)
        self.story = Writer(self.spec.folder)
        reports = [
            {"val_loss": v, "val_accuracy": 1 - v, "epoch_s": 2.0}
            for v in (0.5, 0.2, 0.3)
        ]
        self.story.trial(0, reports, config=CONFIG)
        self.story.trial(
            1, reports[:1], end="stopped", config=CONFIG | {"batch_size": 128}
        )
        self.story.trial(
            2, [], error=("exception", "m"), config=CONFIG | {"schedule": "cosine"}
        )
        self.story.trial(
            3, reports[:1], error=("nan", "m"), config=CONFIG | {"layers": [3]}
        )
        self.story.trial(4, reports[:1], end=None, config=CONFIG)
        self.story.trial(5, [], end=None, config=CONFIG)
        for event in self.story.events:
            self.notify(event)
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
                groups = self.ask("hparams/session_groups", body).get(
                    "sessionGroups", []
                )
            except OSError:
                groups = []
            values = {group["name"]: group["metricValues"] for group in groups}
            if len(groups) == 6 and values["00000"] and values["00004"]:
                return {group["name"]: group for group in groups}
            time.sleep(0.2)
        raise AssertionError("TensorBoard does not show the trials")

    def notify(self, event):
        """Notify the writer as a driver does."""
        self.history.apply(event)
        self.writer(event)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=LIMIT_S)
        self.process.stderr.close()
