"""Starting and joining a Ray; `test_NAME` fails when Ray moves what NAME relies on."""

import inspect
import re
import signal
from types import SimpleNamespace

import pytest
import ray
from ray import _raylet
from ray._private import node, parameter, ray_constants, services, utils, worker
from ray._raylet import (
    AuthenticationTokenLoader,
    Config,
    InnerGcsClient,
    wait_for_persisted_port,
)
from ray_sources import is_in_binaries, parameters

from tuner import ray_compat
from tuner.ray_compat.connection import _AGENT, _AGENT_PORTS, _PRESTARTED


def test_reload_settings(monkeypatch):
    before = ray_constants.ENABLE_RAY_CLUSTER
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", before)
    monkeypatch.setenv(ray_compat.CLUSTERS, "0")
    monkeypatch.setenv("RAY_object_timeout_milliseconds", "17")
    ray_compat.reload_settings()
    assert ray_constants.ENABLE_RAY_CLUSTER is False
    assert Config.object_timeout_milliseconds() == 17
    monkeypatch.undo()
    ray_compat.reload_settings()
    assert ray_constants.ENABLE_RAY_CLUSTER is before
    assert Config.object_timeout_milliseconds() != 17
    assert callable(AuthenticationTokenLoader.instance().reset_cache)


def test_local_options():
    options = ray_compat.build_local_options("/x", ["json"], memory=5)
    preload = {"preload_python_modules": ["json"]}
    assert options == {"_temp_dir": "/x", "_system_config": preload, "_memory": 5}
    source = inspect.getsource(ray.init)
    assert all(f'kwargs.pop("{name}", None)' in source for name in options)
    assert is_in_binaries("preload_python_modules")
    assert ray_compat.build_local_options("/x", [], memory=5)["_system_config"] is None


RAYLET = [
    "raylet",
    "--session_dir={folder}",
    "--node_id=1c3a6d09",
    "--dashboard_agent_command=python agent.py --head",
    "--num_prestart_python_workers=4",
    "--runtime_env_agent_command=python main.py",
]


def started(monkeypatch, command, process_type, workers):
    """The command with which a process is started."""
    calls = []
    monkeypatch.setattr(
        services, "start_ray_process", lambda *args, **kw: calls.append((args, kw))
    )
    with ray_compat.skip_services(1234, workers=workers):
        services.start_ray_process(command, process_type, fate_share=True)
    [((changed, same), options)] = calls
    assert (same, options) == (process_type, {"fate_share": True})
    return changed


def test_fewer_services():
    before = parameter.RayParams, services.start_api_server, services.start_ray_process
    with ray_compat.skip_services(1234, workers=4):
        params = parameter.RayParams(num_cpus=1)
        assert (params.no_monitor, params.include_log_monitor) == (True, False)
        assert params.runtime_env_agent_port == 1234
        assert services.start_api_server("any") == ("", None)
        assert utils.get_dashboard_dependency_error() is None
    after = parameter.RayParams, services.start_api_server, services.start_ray_process
    assert after == before
    assert parameters(services.start_ray_process)[:2] == ["command", "process_type"]
    source = inspect.getsource(services.start_raylet)
    assert "utils.get_dashboard_dependency_error()" in source
    flags = ("--session_dir=", "--node_id=", _AGENT, _PRESTARTED)
    assert all(flag in source for flag in flags)
    assert all(
        f'"{name}"' in inspect.getsource(ray_constants)
        or name in inspect.getsource(node)
        for name in _AGENT_PORTS
    )


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (4, 4), (9, 4)])
def test_fewer_services_limits_the_raylet(monkeypatch, tmp_path, workers, count):
    command = [part.format(folder=tmp_path) for part in RAYLET]
    changed = started(monkeypatch, command, "raylet", workers)
    assert changed[:3] + changed[5:] == command[:3] + command[5:]
    assert changed[3].startswith("--dashboard_agent_command=sleep ")
    assert changed[4] == f"--num_prestart_python_workers={count}"
    for name in _AGENT_PORTS:  # it does not wait for the agent
        assert wait_for_persisted_port(str(tmp_path), "1c3a6d09", name, 1000, 100) == -1


def test_no_prints(capsys):
    with ray_compat.drop_prints():
        worker.print_to_stdstream({}, ignore_prefix=False)
    assert parameters(worker.print_to_stdstream) == ["data", "ignore_prefix"]
    # Its definition, two calls
    assert inspect.getsource(worker).count("print_to_stdstream") == 3


def test_no_signal_handlers():
    for module in (worker, node):
        called = re.findall(r"(\S*)set_sigterm_handler\(", inspect.getsource(module))
        assert set(called) == {"ray._private.utils."}
    with ray_compat.keep_signal_handlers():
        utils.set_sigterm_handler(pytest.fail)
    assert signal.getsignal(signal.SIGTERM) is not pytest.fail


def test_this_machines_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert ray_compat.find_cluster() == "10.0.0.1:6379"
    source = inspect.getsource(services.canonicalize_bootstrap_address_or_die)
    assert "raise ConnectionError" in source
    assert "multiple" in source


def test_has_node_here(monkeypatch):
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    assert all(isinstance(node_id, str) for node_id in services.find_node_ids())
    assert "timeout" in parameters(InnerGcsClient.get_all_node_info)
    states = GcsNodeInfo.GcsNodeState
    states_by_id = {b"\xaa": states.ALIVE, b"\xbb": states.ALIVE, b"\xdd": states.DEAD}
    nodes = {
        node_id: GcsNodeInfo(state=state) for node_id, state in states_by_id.items()
    }
    head = SimpleNamespace(get_all_node_info=lambda timeout: nodes)
    monkeypatch.setattr(_raylet, "GcsClient", lambda address: head)
    for here, is_up in (
        ({"aa"}, True),
        ({"cc"}, False),
        ({"dd"}, False),
        (set(), False),
    ):
        monkeypatch.setattr(services, "find_node_ids", lambda here=here: here)
        assert ray_compat.has_node_here("head:1", 1) is is_up
