"""What is done when a daemon of Ray dies; real ones die in integration/test_interruption."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

LIMIT_S = 60


def run(code, tmp_path, daemon="raylet"):
    """Run `code`, in which `daemon` is a process of that name that sleeps."""
    shutil.copy(shutil.which("sleep"), tmp_path / daemon)
    start = f"""
        import subprocess, sys, time
        from tuner.cluster.daemons import exit_advice, watched
        daemon = subprocess.Popen([{str(tmp_path / daemon)!r}, "600"])
        stop = lambda: (daemon.kill(), daemon.wait())
    """
    whole = textwrap.dedent(start) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, timeout=LIMIT_S
    )


@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_its_death_ends_a_process_that_waits(tmp_path, daemon):
    done = run(
        """
        with watched(), exit_advice(lambda: "go on with: x"):
            time.sleep(2)
            stop()
            time.sleep(600)
        """,
        tmp_path,
        daemon,
    )
    told = f"error: Ray's {daemon} has died, and the search with it; go on with: x\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_advice_that_fails_keeps_nobody_alive(tmp_path):
    done = run(
        """
        with watched(), exit_advice(lambda: 1 / 0), exit_advice(lambda: "go on with: x"):
            time.sleep(1)
            stop()
            time.sleep(600)
        """,
        tmp_path,
    )
    told = "Ray's raylet has died, and the search with it; what to do cannot be told: division by"
    assert (done.returncode, done.stderr) == (1, f"error: {told} zero; go on with: x\n")


def test_a_stderr_that_is_closed_keeps_nobody_alive(tmp_path):
    done = run(
        """
        with watched():
            time.sleep(1)
            stop()
            sys.stderr.close()
            time.sleep(600)
        """,
        tmp_path,
    )
    assert done.returncode == 1


def test_one_that_dies_at_once_is_noticed(tmp_path):
    done = run("daemon.kill()\nwith watched():\n    time.sleep(600)", tmp_path)
    assert (done.returncode, "raylet has died" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("daemon", "watched_still"),
    [("raylet", False), ("log_monitor", True), (os.path.basename(sys.executable), True)],
    ids=["an orderly end", "a child that is no daemon", "a child of our own"],
)
def test_what_is_no_loss_of_ray(tmp_path, daemon, watched_still):
    end = "    stop()\n    time.sleep(2)" if watched_still else "stop()\ntime.sleep(2)"
    done = run(f"with watched():\n    time.sleep(1)\n{end}", tmp_path, daemon)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_that_says_more_is_told_instead(tmp_path):
    done = run(
        """
        with watched():
            time.sleep(1)
            stop()
            sys.exit("Ray says why")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (1, "Ray says why\n")
