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

CONFIG = {
    "lr": 0.003552,
    "momentum": 0.9,
    "weight_decay": 0.00142,
    "batch_size": 64,
    "width": 32,
}


class Shown:
    """A history, and what shows it: notified as a driver notifies its observers."""

    def __init__(self, spec, earlier=(), stream=None):
        self.stream = stream or io.StringIO()
        self.history = fold(earlier, spec.objective)
        self._progress = Progress(spec, self.history, stream=self.stream)

    def show(self, *events):
        for event in events:
            self.history.apply(event)
            self._progress(event)

    def close(self):
        self._progress.close()

    def finish(self):
        """The text that was shown, of a stream in memory."""
        self.close()
        return self.stream.getvalue()


@pytest.fixture
def shown(spec):
    return Shown(spec)


@pytest.fixture
def events(tmp_path):
    """Two whole trials and a failed one, an event every 4 s: 60 s in all."""
    writer = Writer(make_folder(tmp_path / "digits"), clock=Clock(tick=4.0))
    writer.trial(1, [0.5, 0.25, 0.75, 0.5], config=CONFIG)
    writer.trial(2, [0.5, 0.25], end="stopped", config=CONFIG)
    writer.trial(3, [0.25], error=("oom", "m"), config=CONFIG)
    writer.end()
    return writer.events


def test_progress_of_a_refit_names_no_best(snapshot, spec, events):
    refits = {
        "name": "x",
        "trial_id": "00001",
        "epoch": 3,
        "chosen_by": "val_loss",
        "value": 0.5,
    }
    shown = Shown(spec.replace(refits=refits))
    shown.show(*events)
    snapshot(shown.finish())


def test_progress_without_terminal_prints_plain_lines(snapshot, shown, events):
    shown.show(*events)
    snapshot(shown.finish())


def test_progress_limits_lines_of_new_bests(snapshot, shown):
    for second in range(25):
        metrics = {"val_accuracy": second / 100}
        result = {"epoch": second + 1, "metrics": metrics, "trial_id": "00001"}
        shown.show({"event": "result", "time": START + second} | result)
    shown.show({"event": "experiment_ended", "time": START + 25, "status": "completed"})
    snapshot(shown.finish())


def test_progress_shows_warnings(shown):
    logging.getLogger("tuner.anything").warning("no space left on %s", "disk")
    shown.close()
    logging.getLogger("tuner.anything").warning("too late")
    assert shown.finish() == "warning: no space left on disk\n"


def test_progress_shows_controls(spec, shown):
    pause = {"event": "control", "time": START, "id": "1", "control": {"verb": "pause"}}
    shown.show(pause | {"by": "ada"})
    assert shown.finish() == "pause, asked by ada\n"
    assert Status(shown.history, spec).format_counts() == "0 running, paused"
    shown.show(pause | {"id": "2", "control": {"verb": "finish"}})
    assert Status(shown.history, spec).format_counts() == "0 running, ending as asked"


def test_progress_of_resume_shows_only_new_bests(spec, events):
    shown = Shown(spec, earlier=events)
    started = {"event": "experiment_started", "resumed": True, "owner": OWNER}
    result = {"event": "result", "trial_id": "00002", "time": START + 101}
    shown.show(started | {"time": START + 100})
    shown.show(result | {"epoch": 3, "metrics": {"val_accuracy": 0.6}})
    assert shown.stream.getvalue() == ""
    shown.show(result | {"epoch": 4, "metrics": {"val_accuracy": 0.8}})
    assert shown.finish().startswith(
        "new best val_accuracy 0.8, trial 00002, epoch 4: lr="
    )


def test_progress_shows_each_failure_once(snapshot, shown):
    message = f"ValueError: {'far too long ' * 50}, at train.py:12 in step: x = y"
    for number in range(12):
        error = {
            "kind": "exception",
            "message": message if number < 8 else f"m{number}",
        }
        trial = {"time": START, "trial_id": f"{number:05}"}
        shown.show({"event": "trial_started", "config": {}} | trial)
        shown.show({"event": "trial_ended", "status": "failed", "error": error} | trial)
    snapshot(shown.finish())


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize("unknown", [{}, {"num_samples": None, "time_budget_s": 60}])
def test_live_view_fits_every_width(spec, events, width, unknown):
    for upto in range(len(events) + 1):
        file = io.StringIO()
        status = Status(fold(events[:upto], spec.objective), spec.replace(**unknown))
        now = events[upto - 1]["time"] if upto else START
        Console(file=file, width=width).print(
            build_live_view(status, now=now, width=width)
        )
        lines = file.getvalue().splitlines()
        assert len(lines) <= 8
        assert max(map(len, lines)) <= width


@pytest.fixture
def show_on_terminal(spec, events, monkeypatch):
    """A function: what reaches a pseudo-terminal of 80 columns when `events` are shown on it."""

    def show(pause=0.0, **environment):
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {
            "TERM": "xterm-256color",
            "COLUMNS": "80",
            **environment,
        }.items():
            monkeypatch.setenv(name, value)
        reader, writer = pty.openpty()
        with open(writer, "w", encoding="utf-8") as stream:
            shown = Shown(spec, stream=stream)
            for event in events:
                shown.show(event)
                if event["event"] == "trial_ended":
                    sleep(pause)  # the view renews itself meanwhile
            shown.close()
        received = b""
        with contextlib.suppress(OSError):  # how the end of a pseudo-terminal reads
            while chunk := os.read(reader, 65536):
                received += chunk
        os.close(reader)
        return received.decode()

    return show


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_progress_on_terminal_has_colour_unless_disabled(show_on_terminal, environment):
    received = show_on_terminal(**environment)
    assert "best val_accuracy 0.75, trial 00001, epoch 3" in received
    has_colour = bool(re.search(r"\x1b\[[0-9;]*(3[0-9]|38;5;[0-9]+)m", received))
    assert has_colour == (not environment)
    assert received.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_progress_on_terminal_scrolls_nothing_away(
    snapshot, show_on_terminal, events, monkeypatch
):
    screen = pyte.HistoryScreen(80, 24, history=100)
    terminal = pyte.Stream(screen)
    terminal.feed("$ tuner run digits\r\n")
    monkeypatch.setattr(time, "time", lambda: events[-1]["time"])
    terminal.feed(show_on_terminal(pause=0.3))
    terminal.feed("$ \r\n")
    assert not screen.history.top
    snapshot("\n".join(line for line in screen.display if line.strip()))


@pytest.fixture
def story(tmp_path):
    """A search that runs: its driver holds the journal."""
    folder = make_folder(tmp_path / "digits", trainable="mine:Learner")
    story = Writer(folder)
    story.trial(0, [0.5, 0.75], config={"lr": 0.5})
    story.trial(1, [0.25], end=None, config={"lr": 0.5})
    yield story
    story.journal.close()


def test_status_text_of_running_search_shows_its_trials(snapshot, story):
    text = format_status(Results(story.folder), now=story.events[-1]["time"] + 1)
    snapshot(text)
    assert max(map(len, text.splitlines())) <= 80


def test_follow_shows_a_search_to_its_end(story):
    stream = io.StringIO()

    def sleep(seconds):
        story.trial(2, [0.875], config={"lr": 0.5})
        story.end()

    follow_search(Results(story.folder), stream=stream, sleep=sleep)
    first, last = stream.getvalue().splitlines()
    assert first == "new best val_accuracy 0.875, trial 00002, epoch 1: lr=0.5"
    assert "2/4 trials: 1 running, 2 completed; best val_accuracy 0.875" in last
