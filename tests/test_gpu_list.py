"""`make gpu` without a GPU: the program itself, so that no minute of a card goes to its faults."""

import os
import re
import subprocess
import sys
from contextlib import nullcontext

import pytest

from benchmarks.gpu_list import __main__ as gpu_list
from benchmarks.gpu_list import sharing
from benchmarks.gpu_list.steps import ROW, STEPS

LEASE_S = 45 * 60  # that a GPU can be had for


def test_gpu_steps_fit_time_limit():
    assert sum(step.limit_s for step in STEPS.values()) <= LEASE_S
    assert list(STEPS) == list(range(1, len(STEPS) + 1))


def test_failed_or_hung_step_keeps_partial_results(monkeypatch, capfd):
    code = {
        1: f"print({ROW!r} + '[\"a\", \"1\"]'); print('no such kernel'); raise SystemExit(3)",
        2: f'print({ROW!r} + \'["b", "2"]\', flush=True); import time; time.sleep(60)',
    }
    popen = subprocess.Popen

    def start(command, **more):
        number = int(command[command.index("benchmarks.gpu_list.steps") + 1])
        return popen([sys.executable, "-c", code[number]], **more)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setitem(STEPS, 2, STEPS[2]._replace(limit_s=2))
    failed, hangs = (gpu_list.run_step(number, "cpu", True) for number in (1, 2))
    assert (failed.rows, failed.fault) == ([("a", "1")], "exit code 3: no such kernel")
    assert (hangs.rows, hangs.fault) == ([("b", "2")], "not done in 2 s")
    assert "| **failed** | exit code 3: no such kernel |" in gpu_list.table([failed])


@pytest.mark.parametrize("fails", [False, True])
def test_mps_runs_within_context_and_ends(tmp_path, monkeypatch, fails):
    """The service itself is on machines with a GPU alone; here a script writes down its calls."""
    script, log = tmp_path / sharing.MPS, tmp_path / "log"
    script.write_text(
        f'#!/bin/sh\necho "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {log}\n[ -n "$1" ] || cat >> {log}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(KeyError) if fails else nullcontext(), sharing.mps():
        pipes = os.environ["CUDA_MPS_PIPE_DIRECTORY"]
        assert os.path.isdir(pipes)
        if fails:
            raise KeyError
    assert log.read_text().split() == ["-d", pipes, pipes, "quit"]
    assert not os.path.exists(pipes)
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


@pytest.mark.slow
def test_the_whole_list_runs_dry():
    before = gpu_list.PAGE.read_text()
    command = [sys.executable, "-m", "benchmarks.gpu_list", "--device", "cpu", "--dry"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for number, step in STEPS.items():
        assert re.search(rf"^\| {number} {re.escape(step.title)} \| (?!time)", done.stdout, re.M)
    assert gpu_list.PAGE.read_text() == before
