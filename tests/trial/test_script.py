"""A script's process: how it reports, and how it ends."""

import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from patience import is_gone, wait_until
from ray import tune

import tuner
from tuner.trial.directories import TRIAL_DIR
from tuner.trial.script import REPORTS, Script

SAVED = Path("checkpoint")


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a Python script whose objective is `steps`."""
    started = []
    monkeypatch.chdir(tmp_path)
    path = str(Path(tuner.__file__).parents[1])

    def begin(source, **limits):
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-c", source]
        script = Script(
            command, environment, metric="steps", on_report=lambda: SAVED, **limits
        )
        started.append(script)
        return started[-1]

    yield begin
    for each in started:
        each.end()


def reports(running):
    values = []
    while report := running.next_report():
        values.append(report[0])
    return values


def test_json_lines_are_reports_until_report_is_called(start):
    line = "print('{\"steps\": 1}')"
    other = "print('{\"loss\": 1}')"
    source = f"import tuner\n{other}\n{line}\ntuner.report(steps=2)\n{line}\n{line}"
    running = start(source)
    assert reports(running) == [{"steps": 1}, {"steps": 2}]


def test_script_is_paused_after_a_printed_report(start):
    line = "print('{\"steps\": %d}' % n); time.sleep(0.5); open(str(n), 'w')"
    running = start(f"import time\nfor n in range(2): {line}")
    assert running.next_report() == ({"steps": 0}, SAVED)
    process = psutil.Process(running._process.pid)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
    assert running.next_report() == ({"steps": 1}, SAVED)
    assert Path("0").exists()


@pytest.mark.parametrize(
    "output",
    [
        b'{"steps": 1}',
        b'\r 99% \r  {"steps": 1}\r\n',
        b'{"steps": 1, "note": "\xff"}\n',
        b"[" * 100_000 + b"\n{" + b'"a":[' * 100_000 + b'\n{"steps": 1}\n',
    ],
    ids=["no newline", "behind a progress bar", "an invalid byte", "deep brackets"],
)
def test_json_line_is_a_report_however_it_is_printed(start, tmp_path, output):
    (tmp_path / "output").write_bytes(output)
    source = "import sys; sys.stdout.buffer.write(open('output', 'rb').read())"
    assert [report["steps"] for report in reports(start(source))] == [1]


def test_long_temporary_folder_does_not_keep_a_script_from_reporting(
    start, tmp_path, monkeypatch
):
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert reports(start("import tuner\ntuner.report(steps=1)")) == [{"steps": 1}]


def test_end_ends_children_without_the_environment(start):
    child = ["env", "-i", "sh", "-c", "echo $$ > new; mv new child; exec sleep 600"]
    source = f"""
import os, subprocess, time, tuner
subprocess.Popen({child!r}, start_new_session=True)
while not os.path.exists("child"):
    time.sleep(0.01)
tuner.report(steps=1)
"""
    running = start(source)
    running.next_report()
    running.end()
    wait_until(partial(is_gone, int(Path("child").read_text())))


def test_pipe_left_open_by_a_child_does_not_block(start):
    source = "import subprocess; print(subprocess.Popen(['sleep', '3']).pid)"
    running = start(f"{source}; print('{{\"steps\": 1}}')", rest_s=0.3)
    assert reports(running) == [{"steps": 1}]
    running.end()  # of a group whose leader has gone


def test_end_terminates_a_script_that_waits_in_report(start):
    running = start("import tuner\ntuner.report(steps=1)\nopen('after', 'w')")
    running.next_report()
    folder = Path(running.folder)
    running.end()
    assert running.exit_code == -signal.SIGTERM
    assert not Path("after").exists()
    assert not folder.exists()


def test_end_kills_a_script_that_ignores_sigterm(start, capfd):
    handler = "signal.signal(signal.SIGTERM, lambda *_: print('not yet'))"
    source = (
        f"import signal, time, tuner\n{handler}\ntuner.report(steps=1)\ntime.sleep(60)"
    )
    running = start(source, grace_s=0.5)
    running.next_report()
    running.end()
    assert running.exit_code == -signal.SIGKILL
    assert capfd.readouterr().out == "not yet\n"


def test_report_outside_of_a_search_does_nothing(monkeypatch):
    monkeypatch.delenv(REPORTS, raising=False)
    monkeypatch.delenv(TRIAL_DIR, raising=False)
    assert tuner.report({"val/loss": 0.3}, epoch=1) is None


def test_report_on_a_rank_other_than_0_does_nothing(monkeypatch):
    monkeypatch.setenv(REPORTS, "/nowhere")
    monkeypatch.setenv("RANK", "1")
    tuner.report(loss=1)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(FileNotFoundError):
        tuner.report(loss=1)


def test_report_in_a_plain_function_is_rays(monkeypatch, tmp_path):
    reported = []
    monkeypatch.delenv(REPORTS, raising=False)
    monkeypatch.setenv(TRIAL_DIR, str(tmp_path))
    monkeypatch.setattr(tune, "report", reported.append)
    tuner.report({"a": torch.tensor(0.5)}, b=np.float32(2), c="text", d=torch.ones(2))
    assert reported == [{"a": 0.5, "b": 2.0, "c": "text", "d": "tensor([1., 1.])"}]
