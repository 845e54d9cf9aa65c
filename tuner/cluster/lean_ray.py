"""Starts Ray on this machine with only those of its services that trials need.

Before there is a worker, `ray.init` starts a dashboard's server, an autoscaler's monitor, a reader
of log files and an agent for metrics, and waits for two of them: on 4 cores that takes longer than
the rest of Ray. Nothing here asks them for anything.

What is replaced for the time of a `ray.init` is not public: of a Ray that is not known all services
are started.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tuner import ray_compat as ray_internals

_PRESTARTED = "--num_prestart_python_workers="
_AGENT = "--dashboard_agent_command="
_NO_AGENT = f"{_AGENT}sleep 2147483647"  # Ray insists on one, and looks that it lives
_AGENTS_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_LOOK_EVERY_S = 0.005
_AT_ONCE_MS = 1000  # for a file that is being written
_NOT_THERE = -1  # the port of an agent that listens nowhere


@contextmanager
def free_port() -> Iterator[int]:
    """A port that nobody else is given while the context lasts, to be bound with SO_REUSEADDR."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def few_services(runtime_env_port: int, *, workers: int) -> Iterator[None]:
    """Let the `ray.init` within start only what trials need.

    runtime_env_port: a free port for the agent of runtime environments, for which then nobody has
    to wait. workers: how many Ray starts ahead of the trials, at most; by itself one a CPU.
    """
    if not ray_internals.is_known():
        yield
        return
    from ray._private import node, parameter, services

    params = partial(
        parameter.RayParams,
        no_monitor=True,
        include_log_monitor=False,  # type: ignore[arg-type]
        runtime_env_agent_port=runtime_env_port,
    )
    ours = {
        "start_api_server": lambda *args, **kwargs: ("", None),
        "start_ray_process": partial(_start_process, services.start_ray_process, workers),
    }
    wait = "wait_for_persisted_port"
    waiting = {wait: partial(_wait_for_port, getattr(node, wait))}
    with ray_internals.replaced({parameter: {"RayParams": params}, services: ours, node: waiting}):
        yield


def _start_process(
    start: Any, workers: int, command: list[str], process_type: str, **options: Any
) -> Any:
    """Ray's own `start`, of a raylet that starts `workers` ahead and no agent for metrics."""
    if process_type == "raylet":
        command = _leaner(command, workers)
    return start(command, process_type, **options)


def _leaner(command: list[str], workers: int) -> list[str]:
    from ray._raylet import persist_port  # type: ignore[attr-defined]

    flags = dict(part.split("=", 1) for part in command if "=" in part)
    for name in _AGENTS_PORTS:  # what the agent itself would tell, for it listens nowhere
        persist_port(flags["--session_dir"], flags["--node_id"], name, _NOT_THERE)
    workers = min(workers, int(flags[_PRESTARTED.rstrip("=")]))
    ours = {_AGENT: _NO_AGENT, _PRESTARTED: f"{_PRESTARTED}{workers}"}
    return [next((new for old, new in ours.items() if p.startswith(old)), p) for p in command]


def _wait_for_port(wait: Any, folder: str, node_id: str, name: str, *, timeout_ms: int) -> int:
    """Ray's own `wait`, which lets no other thread of this process run, once there is a port.

    Until then others do: one imports, one looks whether that which is waited for has died.
    """
    from ray._raylet import get_port_filename  # type: ignore[attr-defined]

    path = Path(folder, get_port_filename(node_id, name))
    deadline = time.monotonic() + timeout_ms / 1000
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return int(wait(folder, node_id, name, timeout_ms=_AT_ONCE_MS))
