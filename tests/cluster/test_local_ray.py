"""What our own Ray gets ready for a search; how it starts and ends: test_connect.py."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap

import pytest

from tuner.cluster.local_ray import plan_workers, reserve_port
from tuner.spec.experiment import build_spec
from tuner.spec.validation import Machine

LIMIT_S = 60


@pytest.mark.parametrize(
    ("fields", "workers", "trains"),
    [
        ({}, 4, True),
        ({"max_concurrent": 2}, 2, True),
        ({"num_samples": 1}, 1, True),
        ({"resources": {"cpus": 2}}, 2, True),
        ({"resources": {"workers": 2}, "training": {"norm": "group"}}, 6, False),
        ({"trainable": "mine:Learner"}, 4, False),
    ],
)
def test_ready_workers_are_those_that_the_spec_needs(fields, workers, trains):
    space = {"lr": "uniform(0, 1)"}
    values = {"name": "x", "search": {"space": space}, "num_samples": 9, **fields}
    spec = build_spec(values)
    training = ["tuner.vision.image_classifier"] if trains else []
    assert plan_workers(spec, Machine(cpus=4, gpus=0)) == (
        workers,
        ["ray.tune", *training],
    )


def test_no_worker_is_made_ready_for_trials_that_a_warm_start_skips():
    spec = build_spec(
        {"name": "x", "search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 9}
    )
    assert plan_workers(spec, Machine(cpus=4, gpus=0), 2)[0] == 2


def test_free_port_is_reserved():
    with reserve_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as agent:
            agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            agent.bind(("127.0.0.1", port))
            agent.listen()


def waits(*last, watches_s=1, advice=""):
    """Code that is watched while its daemon ends, and then does what the lines `last` say."""
    lines = [f"time.sleep({watches_s})", "stop()", *last]
    return f"with watch_daemons(){advice}:\n" + "".join(
        f"    {line}\n" for line in lines
    )


FOR_EVER = "time.sleep(600)"
ADVICE = ', add_exit_advice(lambda: "go on with: x")'
HARMLESS = waits("time.sleep(2)")

# What each process does, and the name of the child that its `stop` ends
SCENES = {
    "raylet": (waits(FOR_EVER, watches_s=2, advice=ADVICE), "raylet"),
    "gcs_server": (waits(FOR_EVER, watches_s=2, advice=ADVICE), "gcs_server"),
    "advice fails": (
        waits(FOR_EVER, advice=", add_exit_advice(lambda: 1 / 0)" + ADVICE),
        "raylet",
    ),
    "no stderr": (waits("sys.stderr.close()", FOR_EVER), "raylet"),
    "at once": (f"daemon.kill()\nwith watch_daemons():\n    {FOR_EVER}", "raylet"),
    "says more": (waits('sys.exit("Ray says why")'), "raylet"),
    "an orderly end": (
        "with watch_daemons():\n    time.sleep(1)\nstop()\ntime.sleep(2)",
        "raylet",
    ),
    "a child that is no daemon": (HARMLESS, "log_monitor"),
    "a child of our own": (HARMLESS, os.path.basename(sys.executable)),
}


def start(code, daemon, folder):
    """A process that runs `code`, in which `daemon` is a process of that name that sleeps."""
    shutil.copy(shutil.which("sleep"), folder / daemon)
    before = f"""
        import subprocess, sys, time
        from tuner.cluster.local_ray import add_exit_advice, watch_daemons
        daemon = subprocess.Popen([{str(folder / daemon)!r}, "600"])
        stop = lambda: (daemon.kill(), daemon.wait())
    """
    whole = textwrap.dedent(before) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", whole], stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """The exit code and the stderr of each scene; all play at the same time, since they wait."""
    started = {
        name: start(code, daemon, tmp_path_factory.mktemp("scene"))
        for name, (code, daemon) in SCENES.items()
    }
    stderr = {
        name: process.communicate(timeout=LIMIT_S)[1]
        for name, process in started.items()
    }
    return {
        name: (process.returncode, stderr[name]) for name, process in started.items()
    }


@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_death_of_a_daemon_ends_the_process(ends, daemon):
    stderr = f"error: Ray's {daemon} has died, and the search with it; go on with: x\n"
    assert ends[daemon] == (1, stderr)


def test_faults_do_not_prevent_the_exit(ends):
    stderr = "Ray's raylet has died, and the search with it; what to do cannot be told: division by"
    assert ends["advice fails"] == (1, f"error: {stderr} zero; go on with: x\n")
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
