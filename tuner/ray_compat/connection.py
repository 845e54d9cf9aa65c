"""How a Ray is started here, lean and private, and how a cluster is joined."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from tuner.ray_compat.names import CLUSTERS, Names, replace_names

_PRESTARTED = "--num_prestart_python_workers="
_AGENT = "--dashboard_agent_command="
_NO_AGENT = f"{_AGENT}sleep 2147483647"  # Ray insists on an agent that lives
_AGENT_PORTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
)
_NO_PORT = -1  # of an agent that listens nowhere


# Without it: a Ray that asks for a token that was set after Ray's import is not joined
def reload_settings() -> None:
    """Let Ray read again the environment variables that it read when it was imported.

    Each Ray of ours has its own token and listens on loopback, while a process may have imported
    Ray long before. Until: `ray.init` takes both as arguments.
    """
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    default = "0" if ray_constants.IS_WINDOWS_OR_OSX else "1"
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(CLUSTERS, default).lower() in (
        "1",
        "true",
    )
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


# Without it: Ray's files are left over, the first trials are late, memory counts that is not ours
def build_local_options(
    folder: str, modules: Sequence[str], memory: int
) -> dict[str, Any]:
    """Return what to give `ray.init` so that it writes to `folder` and preloads `modules`.

    A worker that has imported torch before its first trial saves seconds. memory: bytes that actors
    can reserve; Ray itself looks at the outermost control group alone, and does not start if it
    takes too little there for free. Until: these are public arguments.
    """
    preload = {"preload_python_modules": list(modules)} if modules else None
    return {"_temp_dir": folder, "_system_config": preload, "_memory": memory}


# Without it: Ray starts services that no trial needs, and the first trial later
@replace_names
def skip_services(port: int, *, workers: int) -> Names:
    """Have `ray.init` start no dashboard, autoscaler, reader of logs nor agent for metrics.

    port: a free one for the agent of runtime environments, which nobody then has to wait for.
    workers: how many start ahead of the trials, at most; by itself Ray starts one a CPU.
    They take longer than the rest of Ray's start, two of them are waited for, and nothing here asks
    them for anything. What the dashboard would need is not imported either, which takes half a
    second before a worker can start. Until: `ray.init` can leave each of them out.
    """
    from ray import _raylet
    from ray._private import parameter, services, utils

    raylet: Any = _raylet
    start = services.start_ray_process

    def start_process(
        command: list[str], process_type: str, *args: Any, **options: Any
    ) -> Any:
        if process_type == "raylet":
            command = _trim_command(command, workers, raylet.persist_port)
        return start(command, process_type, *args, **options)

    params = functools.partial(
        parameter.RayParams,
        no_monitor=True,
        include_log_monitor=False,  # type: ignore[arg-type]
        runtime_env_agent_port=port,
    )
    return {
        parameter: {"RayParams": params},
        services: {
            "start_api_server": lambda *args, **options: ("", None),
            "start_ray_process": start_process,
        },
        utils: {"get_dashboard_dependency_error": lambda: None},
    }


def _trim_command(
    command: list[str], workers: int, persist_port: Callable[..., object]
) -> list[str]:
    """The command of a raylet that starts at most `workers` ahead, and an agent that sleeps."""
    flags = dict(part.split("=", 1) for part in command if "=" in part)
    for name in _AGENT_PORTS:  # the raylet waits for the agent to write them
        persist_port(flags["--session_dir"], flags["--node_id"], name, _NO_PORT)
    workers = min(workers, int(flags[_PRESTARTED[:-1]]))
    new = {_AGENT: _NO_AGENT, _PRESTARTED: f"{_PRESTARTED}{workers}"}
    return [
        next((to for flag, to in new.items() if p.startswith(flag)), p) for p in command
    ]


# Without it: Ray prints on stdout that a worker has died
@replace_names
def drop_prints() -> Names:
    """Keep Ray from printing on stdout, in colour, that a worker has died.

    Stdout is for data, and the journal and the summary say which trial failed, and how. Until: Ray
    logs it, or prints to stderr.
    """
    from ray._private import worker

    return {worker: {"print_to_stdstream": lambda data, ignore_prefix: None}}


# Without it: SIGTERM while Ray starts, or after a search, ends without a word or a resume
@replace_names
def keep_signal_handlers() -> Names:
    """Keep `ray.init` from taking over SIGTERM.

    An exit raised within Ray's C++ aborts with its stack, and what took the signal before does so
    no more. Until: `ray.init` leaves a handler that is there.
    """
    from ray._private import utils

    return {utils: {"set_sigterm_handler": lambda handler: None}}


# Without it: `--address auto` knows no cluster but that of RAY_ADDRESS
def find_cluster() -> str | None:
    """Return HOST:PORT of the head of the cluster that this machine belongs to.

    It is known before Ray starts here. Raises ConnectionError if there is none, or several. Until:
    `ray.init` itself says in seconds why it cannot join.
    """
    from ray._private.services import canonicalize_bootstrap_address_or_die

    return str(canonicalize_bootstrap_address_or_die("auto"))


# Without it: a driver on a machine outside of the cluster waits a minute to be refused
def has_node_here(head: str, timeout_s: float) -> bool:
    """Return whether a living node of the cluster at `head` is on this machine.

    A driver needs one to talk to the cluster through. Raises Ray's AuthenticationError and
    RpcError. Until: `ray.init` says in seconds why it cannot join.
    """
    from ray._private.services import find_node_ids
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]

    nodes = GcsClient(head).get_all_node_info(timeout=timeout_s)
    alive = GcsNodeInfo.GcsNodeState.ALIVE
    living = {key.hex() for key, node in nodes.items() if node.state == alive}
    return bool(find_node_ids() & living)


# Without it: a search that waits for CPUs does not say what is free
def list_free_resources() -> dict[str, dict[str, float]]:
    """Return what is free on each node, by id.

    `ray.available_resources()` is the sum over all nodes. Until: Ray tells it a node without the
    dashboard.
    """
    from ray._private.state import available_resources_per_node

    return dict(available_resources_per_node())
