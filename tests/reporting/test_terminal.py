import contextlib
import io
import logging
import os
import pty
import re
import time
from time import sleep

import pyte
import pytest
from rich.console import Console
from synthetic import OWNER, START, Clock, Writer, make_folder

from tuner.experiment.history import fold
from tuner.experiment.results.results import Results
from tuner.reporting.live_view import Status, build_live_view, format_status
from tuner.reporting.terminal import Progress, follow_search
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Objective

OBJECTIVE = Objective(metric="val_accuracy", mode="max")
SPACE = {"space": {"lr": "uniform(0, 1)"}}
SPEC = build_spec(
    {
        "search": SPACE,
        "objective": OBJECTIVE,
        "num_samples": 3,
        "scheduler": {"max_t": 4, "grace_period": 4},
    }
)

CONFIG = {"lr": 0.003552, "momentum": 0.9, "weight_decay": 0.00142, "batch_size": 64, "width": 32}


class Shown:
    """A history, and what shows it: notified as a driver notifies its observers."""

    def __init__(self, stream, earlier=(), spec=SPEC):
        self.history = fold(earlier, OBJECTIVE)
        self._progress = Progress(spec, self.history, stream=stream)

    def __call__(self, event):
        self.history.apply(event)
        self._progress(event)

    def close(self):
        self._progress.close()


@pytest.fixture
def events(tmp_path):
    """Two whole trials and a failed one, an event every 4 s: 60 s in all."""
    writer = Writer(make_folder(tmp_path / "digits"), clock=Clock(tick=4.0))
    writer.trial(1, [0.5, 0.25, 0.75, 0.5], config=CONFIG)
    writer.trial(2, [0.5, 0.25], end="stopped", config=CONFIG)
    writer.trial(3, [0.25], error=("oom", "m"), config=CONFIG)
    writer.end()
    return writer.events


def test_progress_of_a_refit_names_no_best(events):
    refits = {"name": "x", "trial_id": "00001", "epoch": 3, "chosen_by": "val_loss", "value": 0.5}
    stream = io.StringIO()
    shown = Shown(stream, spec=SPEC.replace(refits=refits))
    for event in events:
        shown(event)
    shown.close()
    assert "3/3 trials: 0 running, 1 completed" in stream.getvalue()
    assert "best" not in stream.getvalue()


def test_progress_without_terminal_prints_plain_lines(events):
    stream = io.StringIO()
    shown = Shown(stream)
    for event in events:
        shown(event)
    shown.close()
    config = "lr=0.003552 momentum=0.9 weight_decay=0.00142 batch_size=64 width=32"
    assert stream.getvalue().splitlines() == [
        f"new best val_accuracy 0.5, trial 00001, epoch 1: {config}",
        f"new best val_accuracy 0.75, trial 00001, epoch 3: {config}",
        "32s, ~39s left: 1/3 trials: 1 running, 1 completed"
        "; best val_accuracy 0.75, trial 00001, epoch 3",
        "trial 00003 failed: oom: m",
        "56s: 3/3 trials: 0 running, 1 completed, 1 stopped, 1 failed"
        "; best val_accuracy 0.75, trial 00001, epoch 3",
    ]


def test_progress_limits_lines_of_new_bests():
    stream = io.StringIO()
    shown = Shown(stream)
    for second in range(25):
        metrics = {"val_accuracy": second / 100}
        result = {"epoch": second + 1, "metrics": metrics, "trial_id": "00001"}
        shown({"event": "result", "time": START + second} | result)
    shown({"event": "experiment_ended", "time": START + 25, "status": "completed"})
    bests = [line.split(",")[0] for line in stream.getvalue().splitlines() if "new" in line]
    assert bests == [f"new best val_accuracy {value}" for value in ("0", 0.1, 0.2, 0.24)]


def test_progress_shows_warnings():
    stream = io.StringIO()
    shown = Shown(stream)
    logging.getLogger("tuner.anything").warning("no space left on %s", "disk")
    shown.close()
    logging.getLogger("tuner.anything").warning("too late")
    assert stream.getvalue() == "warning: no space left on disk\n"


def test_progress_shows_controls():
    stream = io.StringIO()
    shown = Shown(stream)
    shown({"event": "control", "time": START, "id": "1", "control": {"verb": "pause"}, "by": "ada"})
    shown.close()
    assert stream.getvalue() == "pause, asked by ada\n"
    assert Status(shown.history, SPEC).format_counts() == "0 running, paused"
    shown({"event": "control", "time": START, "id": "2", "control": {"verb": "finish"}})
    assert Status(shown.history, SPEC).format_counts() == "0 running, ending as asked"


def test_progress_of_resume_shows_only_new_bests(events):
    stream = io.StringIO()
    shown = Shown(stream, earlier=events)
    shown({"event": "experiment_started", "time": START + 100, "resumed": True, "owner": OWNER})
    result = {"event": "result", "trial_id": "00002", "epoch": 3}
    shown(result | {"time": START + 101, "metrics": {"val_accuracy": 0.6}})
    assert stream.getvalue() == ""
    shown(result | {"time": START + 102, "epoch": 4, "metrics": {"val_accuracy": 0.8}})
    assert stream.getvalue().startswith("new best val_accuracy 0.8, trial 00002, epoch 4: lr=")


def test_progress_shows_each_failure_once():
    stream = io.StringIO()
    shown = Shown(stream)
    message = f"ValueError: {'far too long ' * 50}, at train.py:12 in step: x = y"
    for number in range(12):
        error = {"kind": "exception", "message": message if number < 8 else f"m{number}"}
        shown({"event": "trial_started", "trial_id": f"{number:05}", "time": START, "config": {}})
        ended = {"event": "trial_ended", "time": START, "status": "failed", "error": error}
        shown(ended | {"trial_id": f"{number:05}"})
    shown.close()
    assert stream.getvalue().splitlines() == [
        f"trial 00000 failed: exception: {message}",
        "trial 00008 failed: exception: m8",
        "trial 00009 failed: exception: m9",
    ]


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize("unknown", [{}, {"num_samples": None, "time_budget_s": 60}])
def test_live_view_fits_every_width(events, width, unknown):
    for upto in range(len(events) + 1):
        history = fold(events[:upto], OBJECTIVE)
        file = io.StringIO()
        status = Status(history, SPEC.replace(**unknown))
        now = events[upto - 1]["time"] if upto else START
        Console(file=file, width=width).print(build_live_view(status, now=now, width=width))
        lines = file.getvalue().splitlines()
        assert len(lines) <= 8
        assert all(len(line) <= width for line in lines)


def on_a_terminal(events, monkeypatch, *, pause=0.0, **environment):
    """What reaches a pseudo-terminal of 80 columns when `events` are shown on it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm-256color", "COLUMNS": "80"} | environment).items():
        monkeypatch.setenv(name, value)
    reader, writer = pty.openpty()
    with open(writer, "w", encoding="utf-8") as stream:
        shown = Shown(stream)
        for event in events:
            shown(event)
            if event["event"] == "trial_ended":
                sleep(pause)  # the view renews itself meanwhile
        shown.close()
    received = b""
    with contextlib.suppress(OSError):  # how the end of a pseudo-terminal reads
        while chunk := os.read(reader, 65536):
            received += chunk
    os.close(reader)
    return received.decode()


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_progress_on_terminal_has_colour_unless_disabled(events, monkeypatch, environment):
    received = on_a_terminal(events, monkeypatch, **environment)
    assert "3/3 trials" in received
    assert "best val_accuracy 0.75, trial 00001, epoch 3" in received
    has_colour = bool(re.search(r"\x1b\[[0-9;]*(3[0-9]|38;5;[0-9]+)m", received))
    assert has_colour == (not environment)
    assert received.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_progress_on_terminal_scrolls_nothing_away(events, monkeypatch):
    screen = pyte.HistoryScreen(80, 24, history=100)
    terminal = pyte.Stream(screen)
    terminal.feed("$ tuner run digits\r\n")
    monkeypatch.setattr(time, "time", lambda: events[-1]["time"])
    terminal.feed(on_a_terminal(events, monkeypatch, pause=0.3))
    terminal.feed("$ \r\n")
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert not screen.history.top
    assert lines[0] == "$ tuner run digits"
    assert lines[1] == "trial 00003 failed: oom: m"
    assert lines[2].endswith("3/3 trials 56s")
    assert lines[3] == "0 running, 1 completed, 1 stopped, 1 failed"
    assert [line for line in lines if "3/3 trials" in line] == [lines[2]]  # drawn in its place
    assert lines[-1] == "$"


@pytest.fixture
def story(tmp_path):
    """A search that runs: its driver holds the journal."""
    folder = make_folder(tmp_path / "digits", trainable="mine:Learner")
    story = Writer(folder)
    story.trial(0, [0.5, 0.75], config={"lr": 0.5})
    story.trial(1, [0.25], end=None, config={"lr": 0.5})
    yield story
    story.journal.close()


def test_status_text_of_running_search_shows_its_trials(story):
    now = story.events[-1]["time"] + 1
    lines = format_status(Results(story.folder), now=now).splitlines()
    assert lines[0] == "digits: running"
    assert "1/4 trials" in lines[1]
    assert "left" in lines[1]
    assert lines[2:] == [
        "1 running, 1 completed",
        "best val_accuracy 0.75, trial 00000, epoch 2",
        "  lr=0.5",
        "running, each on 1 CPU",
        "  00001  epoch 1    val_accuracy 0.25           lr=0.5",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_follow_shows_a_search_to_its_end(story):
    stream = io.StringIO()

    def sleep(seconds):
        story.trial(2, [0.875], config={"lr": 0.5})
        story.end()

    follow_search(Results(story.folder), stream=stream, sleep=sleep)
    first, last = stream.getvalue().splitlines()
    assert first == "new best val_accuracy 0.875, trial 00002, epoch 1: lr=0.5"
    assert "2/4 trials: 1 running, 2 completed; best val_accuracy 0.875" in last
