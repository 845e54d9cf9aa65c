"""What is left out of Ray's start; real ones are started in integration/."""

import socket
import threading

import pytest
import ray
from ray._private import node, parameter, services
from ray._raylet import persist_port, wait_for_persisted_port

from tuner.cluster import lean_ray

RAYLET = [
    "raylet",
    "--session_dir={folder}",
    "--node_id=1c3a6d09",
    "--dashboard_agent_command=python agent.py --head",
    "--num_prestart_python_workers=4",
    "--runtime_env_agent_command=python main.py",
]


def start(*command, workers=4):
    return lean_ray._start_process(lambda *args, **kw: (args, kw), workers, *command, a=1)


def test_the_raylet_gets_an_agent_that_does_nothing_and_need_not_wait_for_it(tmp_path):
    command = [part.format(folder=tmp_path) for part in RAYLET]
    (changed, process_type), options = start(command, "raylet")
    assert (process_type, options) == ("raylet", {"a": 1})
    assert changed[:3] + changed[4:] == command[:3] + command[4:]
    assert changed[3].startswith("--dashboard_agent_command=sleep ")
    for name in lean_ray._AGENTS_PORTS:
        assert wait_for_persisted_port(str(tmp_path), "1c3a6d09", name, 1000, 100) == -1


def test_other_processes_are_started_as_they_are():
    assert start(["x"], "gcs_server") == ((["x"], "gcs_server"), {"a": 1})


@pytest.mark.parametrize(("workers", "started"), [(1, 1), (4, 4), (9, 4)])
def test_no_more_workers_start_ahead_than_are_asked_for_or_than_ray_would(
    tmp_path, workers, started
):
    command = [part.format(folder=tmp_path) for part in RAYLET]
    (changed, _), _ = start(command, "raylet", workers=workers)
    assert changed[4] == f"--num_prestart_python_workers={started}"


def test_what_is_left_out_is_left_out_within_only():
    before = parameter.RayParams, services.start_api_server, services.start_ray_process
    with lean_ray.few_services(1234, workers=4):
        params = parameter.RayParams(num_cpus=1)
        assert (params.no_monitor, params.include_log_monitor) == (True, False)
        assert params.runtime_env_agent_port == 1234
        assert services.start_api_server("any") == ("", None)
    after = parameter.RayParams, services.start_api_server, services.start_ray_process
    assert after == before


def test_another_ray_starts_as_it_is(monkeypatch):
    monkeypatch.setattr(ray, "__version__", "3.0.0")
    before = parameter.RayParams
    with lean_ray.few_services(1234, workers=4):
        assert parameter.RayParams is before


def test_a_free_port_is_for_those_who_know_of_it():
    with lean_ray.free_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.socket() as agent:
            agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            agent.bind(("127.0.0.1", port))
            agent.listen()


def test_other_threads_run_while_a_port_is_waited_for(tmp_path):
    node_id, another = "1c" * 28, "2d" * 28

    def write():
        persist_port(str(tmp_path), node_id, "gcs_server_port", 4321)

    timer = threading.Timer(0.1, write)
    timer.start()
    before = node.wait_for_persisted_port
    with lean_ray.few_services(1234, workers=4):
        wait = node.wait_for_persisted_port
        assert wait(str(tmp_path), node_id, "gcs_server_port", timeout_ms=60_000) == 4321
        with pytest.raises(RuntimeError, match="gcs_server_port"):
            wait(str(tmp_path), another, "gcs_server_port", timeout_ms=1)
    assert node.wait_for_persisted_port is before
