"""A script's process: how its reports come, and how it ends."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from tuner.trial import script
from tuner.trial.script import Script
from tuner.trial.script_report import REPORTS


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a Python script whose objective is `steps`."""
    started = []
    monkeypatch.chdir(tmp_path)
    path = str(Path(script.__file__).parents[2])

    def begin(source):
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-c", source]
        started.append(Script(command, environment, metric="steps", on_report=lambda: None))
        return started[-1]

    yield begin
    for each in started:
        each.end()


def reports(running):
    found = []
    while report := running.next_report():
        found.append(report[0])
    return found


def test_reports_come_in_order_and_then_the_end(start):
    running = start("import tuner\nfor n in range(3): tuner.report(steps=n, text='a', x=[1])")
    assert reports(running) == [{"steps": n, "text": "a", "x": [1]} for n in range(3)]
    assert running.exit_code == 0


def test_json_lines_count_until_the_first_call_of_report(start):
    line = "print('{\"steps\": 1}')"
    running = start(f"import tuner\n{line}\ntuner.report(steps=2)\n{line}\n{line}")
    assert reports(running) == [{"steps": 1}, {"steps": 2}]


def test_last_lines_are_those_of_stderr_without_marks(start, capfd):
    running = start("import sys; sys.stderr.write('10%\\r20%\\n\\n  ^^^~\\nlast')")
    assert reports(running) == []
    assert running.last_lines == ["10%", "20%", "last"]
    assert capfd.readouterr().err.endswith("last")


def test_a_script_that_has_printed_a_report_is_paused_until_the_next_is_wanted(start):
    running = start("for n in range(2): print('{\"steps\": %d}' % n); open(str(n), 'w')")
    assert running.next_report() == ({"steps": 0}, None)
    process = psutil.Process(running._process.pid)
    while process.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert running.next_report() == ({"steps": 1}, None)
    assert Path("0").exists()


def test_what_a_process_of_its_own_leaves_open_does_not_keep_it(start, monkeypatch):
    monkeypatch.setattr(script, "_LEFT_S", 0.3)
    source = "import subprocess; print(subprocess.Popen(['sleep', '3']).pid)"
    running = start(f"{source}; print('{{\"steps\": 1}}')")
    assert reports(running) == [{"steps": 1}]
    running.end()  # of a group whose leader has gone


def test_a_script_that_waits_in_a_report_is_ended_by_sigterm(start):
    running = start("import tuner\ntuner.report(steps=1)\nopen('after', 'w')")
    running.next_report()
    folder = Path(running._folder)
    running.end()
    assert running.exit_code == -signal.SIGTERM
    assert not Path("after").exists()
    assert not folder.exists()


def test_a_script_that_ignores_sigterm_is_killed(start, monkeypatch, capfd):
    monkeypatch.setattr(script, "_GRACE_S", 0.5)
    handler = "signal.signal(signal.SIGTERM, lambda *_: print('not yet'))"
    running = start(f"import signal, time, tuner\n{handler}\ntuner.report(steps=1)\ntime.sleep(60)")
    running.next_report()
    running.end()
    assert running.exit_code == -signal.SIGKILL
    assert capfd.readouterr().out == "not yet\n"


def test_what_is_no_report_is_passed_over(start):
    send = "import os, socket; s = socket.socket(socket.AF_UNIX); "
    send += f"s.connect(os.environ['{REPORTS}']); s.sendall(b'no json\\n'); s.recv(1)"
    assert reports(start(send)) == []
