"""What is done when a daemon of Ray dies; real ones die in integration/test_interruption."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

LIMIT_S = 60


def waits(*last, watches_s=1, advice=""):
    """Code that is watched while its daemon ends, and then does what the lines `last` say."""
    lines = [f"time.sleep({watches_s})", "stop()", *last]
    return f"with watched(){advice}:\n" + "".join(f"    {line}\n" for line in lines)


FOR_EVER = "time.sleep(600)"
ADVICE = ', exit_advice(lambda: "go on with: x")'
HARMLESS = waits("time.sleep(2)")

# What each process does, and the name of the child that its `stop` ends
SCENES = {
    "raylet": (waits(FOR_EVER, watches_s=2, advice=ADVICE), "raylet"),
    "gcs_server": (waits(FOR_EVER, watches_s=2, advice=ADVICE), "gcs_server"),
    "advice fails": (waits(FOR_EVER, advice=", exit_advice(lambda: 1 / 0)" + ADVICE), "raylet"),
    "no stderr": (waits("sys.stderr.close()", FOR_EVER), "raylet"),
    "at once": (f"daemon.kill()\nwith watched():\n    {FOR_EVER}", "raylet"),
    "says more": (waits('sys.exit("Ray says why")'), "raylet"),
    "an orderly end": ("with watched():\n    time.sleep(1)\nstop()\ntime.sleep(2)", "raylet"),
    "a child that is no daemon": (HARMLESS, "log_monitor"),
    "a child of our own": (HARMLESS, os.path.basename(sys.executable)),
}


def start(code, daemon, folder):
    """A process that runs `code`, in which `daemon` is a process of that name that sleeps."""
    shutil.copy(shutil.which("sleep"), folder / daemon)
    before = f"""
        import subprocess, sys, time
        from tuner.cluster.daemons import exit_advice, watched
        daemon = subprocess.Popen([{str(folder / daemon)!r}, "600"])
        stop = lambda: (daemon.kill(), daemon.wait())
    """
    whole = textwrap.dedent(before) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", whole], stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """The exit code and the stderr of each scene; all play at the same time, since they wait."""
    started = {
        name: start(code, daemon, tmp_path_factory.mktemp("scene"))
        for name, (code, daemon) in SCENES.items()
    }
    stderr = {name: process.communicate(timeout=LIMIT_S)[1] for name, process in started.items()}
    return {name: (process.returncode, stderr[name]) for name, process in started.items()}


@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_death_of_a_daemon_ends_the_process(ends, daemon):
    stderr = f"error: Ray's {daemon} has died, and the search with it; go on with: x\n"
    assert ends[daemon] == (1, stderr)


def test_failing_advice_does_not_prevent_the_exit(ends):
    stderr = "Ray's raylet has died, and the search with it; what to do cannot be told: division by"
    assert ends["advice fails"] == (1, f"error: {stderr} zero; go on with: x\n")


def test_early_death_and_closed_stderr_end_the_process(ends):
    assert ends["no stderr"][0] == 1
    code, stderr = ends["at once"]
    assert (code, "raylet has died" in stderr) == (1, True)


@pytest.mark.parametrize(
    "scene", ["an orderly end", "a child that is no daemon", "a child of our own"]
)
def test_other_exits_do_not_end_the_process(ends, scene):
    assert ends[scene] == (0, "")


def test_error_with_a_reason_is_shown_instead(ends):
    assert ends["says more"] == (1, "Ray says why\n")
