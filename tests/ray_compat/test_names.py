"""Ray's names and settings; `test_NAME` fails when Ray changes one of NAME."""

import inspect
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from ray._private import ray_constants, services, worker
from ray.exceptions import RayActorError
from ray.runtime_env.runtime_env import _merge_runtime_env
from ray.tune.experiment import Trial
from ray_sources import RAY, is_in_binaries

from tuner import ray_compat


def test_process_titles():
    programs = (services.GCS_SERVER_EXECUTABLE, services.RAYLET_EXECUTABLE)
    assert tuple(Path(program).name for program in programs) == ray_compat.DAEMONS
    titles = (
        ray_constants.AGENT_PROCESS_TYPE_RUNTIME_ENV_AGENT,
        ray_constants.AGENT_PROCESS_TYPE_DASHBOARD_AGENT,
    )
    assert all(map(str.startswith, titles, ray_compat.AGENTS))
    assert ray_constants.WORKER_PROCESS_TYPE_IDLE_WORKER == ray_compat.IDLE
    assert is_in_binaries(ray_compat.WORKER)
    assert ray_compat.IDLE.startswith(ray_compat.WORKER)


def test_cluster_names():
    from ray._common.constants import HEAD_NODE_RESOURCE_NAME
    from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR

    assert HEAD_NODE_RESOURCE_NAME == ray_compat.HEAD
    assert f'"{ray_compat.MONITOR}"' in inspect.getsource(services.start_monitor)
    assert RAY_JOB_CONFIG_JSON_ENV_VAR == ray_compat.IN_A_JOB


def test_probe():
    code = f"{ray_compat.PROBE.rpartition(';')[0]}; GcsClient"
    subprocess.run([sys.executable, "-c", code], check=True)


def logs_as(name):
    """Whether Ray has a module of this name that logs under it."""
    path = RAY.joinpath(*name.split(".")[1:]).with_suffix(".py")
    return "logging.getLogger(__name__)" in path.read_text()


def test_loggers():
    assert all(map(logs_as, ray_compat.JOB_LOGGERS))
    assert logs_as(ray_compat.TUNE_LOGGER)
    assert logs_as(ray_compat.TRAINABLE_LOGGER)
    assert logs_as(ray_compat.WIDGETS_LOGGER)


def test_settings():
    assert is_in_binaries(ray_compat.GIVE_UP.removeprefix("RAY_"))
    assert ray_compat.CLUSTERS in inspect.getsource(ray_constants)
    rooms = ("tune", "train", "data", "_common", "_private")
    sources = [
        path.read_text() for room in rooms for path in (RAY / room).rglob("*.py")
    ]
    for name in ray_compat.SETTINGS:
        known = any(f'"{name}"' in source for source in sources)
        assert known or is_in_binaries(name.removeprefix("RAY_")), name


def test_settings_do_not_conflict_with_those_of_a_job(monkeypatch):
    for name in ray_compat.SETTINGS:
        monkeypatch.setenv(name, "0")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    submitted = dict.fromkeys(ray_compat.FOR_WORKERS, "the submitter's")
    for name, value in submitted.items():
        # Ray sets in a job what was submitted with it
        monkeypatch.setenv(name, value)
    ray_compat.prepare_environment()
    ours = {name: os.environ[name] for name in ray_compat.FOR_WORKERS}
    line = 'override=os.getenv("RAY_OVERRIDE_JOB_RUNTIME_ENV") == "1"'
    assert line in inspect.getsource(worker)
    override = os.getenv("RAY_OVERRIDE_JOB_RUNTIME_ENV") == "1"
    merged = _merge_runtime_env(
        {"env_vars": submitted}, {"env_vars": ours}, override=override
    )
    assert merged["env_vars"] == submitted


def test_preempted_trial_is_not_recovered_by_tune(monkeypatch):
    for name in ray_compat.SETTINGS:
        monkeypatch.setenv(name, "0")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    ray_compat.prepare_environment()
    trial = Trial("x", stub=True)
    trial._handle_ray_actor_error(RayActorError(preempted=True))
    assert not trial.should_recover()


# As a raylet starts a worker, and that a job
SUPERVISED = (
    "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1], shell=True))"
)
RAYLET = (
    "import subprocess, sys; sys.exit(subprocess.call([*sys.argv[1:4], sys.argv[4]]))"
)


def as_a_job(entrypoint, *arguments):
    command = [
        sys.executable,
        "-c",
        RAYLET,
        sys.executable,
        "-c",
        SUPERVISED,
        entrypoint,
    ]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)


def test_heads_python():
    argument = "--python_worker_command=/venv/bin/python /venv/setup_worker.py --more"
    done = as_a_job(ray_compat.HEADS_PYTHON, "--other=1", argument)
    assert (done.returncode, done.stdout) == (0, "/venv/bin/python\n")
    assert "--python_worker_command={" in inspect.getsource(services)


def test_replacing_restores_the_names_afterwards():
    first = types.ModuleType("one")
    second = types.ModuleType("two")
    first.a = 1
    first.b = 2
    second.a = 3
    with ray_compat.replace_names(
        lambda: {first: {"a": 10, "b": 20}, second: {"a": 30}}
    )():
        assert (first.a, first.b, second.a) == (10, 20, 30)
    assert (first.a, first.b, second.a) == (1, 2, 3)
    with (
        pytest.raises(ZeroDivisionError),
        ray_compat.replace_names(lambda: {first: {"a": 10}})(),
    ):
        1 / 0  # noqa: B018
    assert (first.a, first.b, second.a) == (1, 2, 3)


def test_replacing_a_missing_name_raises_and_replaces_nothing():
    module = types.ModuleType("m")
    module.a = 1
    with (
        pytest.raises(AttributeError),
        ray_compat.replace_names(lambda: {module: {"a": 2, "b": 3}})(),
    ):
        pass
    assert vars(module)["a"] == 1
