"""What tuner uses of Ray that Ray does not document. No other module touches any of it.

Each piece says what it does, for which Ray it was tried, why it is needed and until when; `lost`
says what happens without it. A piece that another Ray lacks is left out with one warning, and the
search goes on. What changes Ray's behaviour is left out of every Ray that was not tried. What runs
within a trial is no registered piece: another Ray that lacks it fails the trial, with Ray's error.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Names = Mapping[ModuleType, Mapping[str, Any]]

TRIED = "2.60"  # the version of Ray, without its patch release
PIECES: dict[str, str] = {}  # the name of each piece -> what is lost without it
TRIED_ONLY: set[str] = set()  # the pieces that are off for a Ray that was not tried

# What comes of a name or an argument that this Ray lacks
_CHANGED = (ImportError, AttributeError, TypeError, KeyError)

_log = logging.getLogger(__name__)
_warned: set[str] = set()


def is_tried(version: str) -> bool:
    """Return whether the pieces were tried with this version of Ray."""
    return version.startswith(f"{TRIED}.")


def warn_if_untried() -> None:
    """Say at the start of a search that Ray is of another version, if it is."""
    import ray

    if not is_tried(ray.__version__):
        versions = f"Ray {ray.__version__} is installed, and tuner was tried with {TRIED}"
        _warn_once("version", f"{versions}: `tuner doctor` lists what may be lost")


def piece(*, lost: str, otherwise: Any = None, tried_only: bool = False) -> Callable[[F], F]:
    """Register a function of undocumented Ray: where Ray has changed, it returns `otherwise`.

    tried_only: it changes Ray's behaviour, so that it does nothing to a Ray that was not tried.
    """

    def register(function: F) -> F:
        name = function.__name__
        PIECES[name] = lost
        if tried_only:
            TRIED_ONLY.add(name)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                if tried_only:
                    import ray

                    if not is_tried(ray.__version__):
                        raise AttributeError(f"it is not {TRIED}")
                return function(*args, **kwargs)
            except _CHANGED as error:
                _warn_once(name, f"this Ray is not as {name} needs it ({error}): {lost}")
                return otherwise

        return guarded  # type: ignore[return-value]

    return register


def replacing(*, lost: str) -> Callable[[Callable[..., Names]], Callable[..., Any]]:
    """Register a function that returns which of Ray's names to replace by what, in which module.

    It becomes a context manager, within which they are replaced.
    """

    def register(function: Callable[..., Names]) -> Callable[..., Any]:
        @piece(lost=lost, otherwise={}, tried_only=True)
        @functools.wraps(function)
        def known(*args: Any, **kwargs: Any) -> Names:
            names = function(*args, **kwargs)
            for module, own in names.items():
                for name in own:
                    getattr(module, name)
            return names

        @functools.wraps(function)
        @contextmanager
        def within(*args: Any, **kwargs: Any) -> Iterator[None]:
            with replaced(known(*args, **kwargs)):
                yield

        return within

    return register


def _warn_once(name: str, text: str) -> None:
    if name not in _warned:
        _warned.add(name)
        _log.warning("%s", text)


# --- names that Ray gives to things; tried with Ray 2.60, until Ray documents them

PIECES["process_titles"] = "a Ray that dies ends a search unexplained, as does too little memory"
DAEMONS = ("gcs_server", "raylet")  # without one of them nothing goes on
AGENTS = ("ray::RuntimeEnv", "ray::Dashboard")  # what the titles of a raylet's helpers begin with
IDLE = "ray::IDLE"  # a worker without work
WORKER = "ray::"  # what the titles of all workers begin with, and of the agents

PIECES["cluster_names"] = "some cluster is not joined, or not asked to grow, or its fault not named"
HEAD = "node:__internal_head__"  # a resource that only the head of a cluster has
MONITOR = "--autoscaling-config="  # an argument of the autoscaler that `ray up` starts
METADATA = (b"CLUSTER_METADATA", b"cluster")  # key and namespace of a cluster's versions
IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set where a Ray job runs: its files are there already
COMMAND = (sys.executable, "-m", "ray.scripts.scripts")  # `ray` of this Python, whatever PATH has
# A program that ends with 0 where the head that it is given answers it
PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1])"

PIECES["loggers"] = "Ray tells of each step of sending a job, of failed trials, and of ipywidgets"
JOB_LOGGERS = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
TUNE_LOGGER = "ray.tune.tune"  # of failed trials the summary tells, too
WIDGETS_LOGGER = "ray.widgets.util"  # nothing here uses ipywidgets

PIECES["settings"] = "Ray may write to stdout, take snapshots, listen on all addresses, end workers"
# Until then a raylet whose GCS has died lets no thread of a driver run that joins it
GIVE_UP = "RAY_gcs_rpc_server_reconnect_timeout_s"
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # where off, Ray listens on loopback alone
SETTINGS = {  # what Ray reads when it is imported, and hands to its workers
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # its banner goes to stdout, which is for data
    "RAY_TQDM": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # its future default; without it Ray warns
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a trial's relative paths mean what the user means
    "RAY_memory_monitor_refresh_ms": "0",  # trial/machine_memory ends whom it should
    "RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE": "1",  # else Tune starts a trial from its start
    "PL_DISABLE_FORK": "1",  # what Tune sets for its workers
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the journal and our TensorBoard writer do it
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a bad report fails its trial alone
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver has its own
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # they are in the trial's log and the summary
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # the journal makes Ray's snapshots needless
    "TUNE_FORCE_TRIAL_CLEANUP_S": "10",
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000000",  # Ray spells it so
}
FOR_WORKERS = ("PL_DISABLE_FORK", "RAY_CHDIR_TO_TRIAL_DIR", "TUNE_FUNCTION_THREAD_TIMEOUT_S")


def prepare_environment() -> None:
    """Set SETTINGS, unless the user has; to be called before the first import of ray."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


@contextmanager
def quiet(name: str, level: int) -> Iterator[None]:
    """Within it, the logger of this name says nothing below `level`."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@piece(lost="a Ray that asks for a token that was set after Ray's import is not joined")
def reload_settings() -> None:
    """Let Ray read again the environment variables that it read when it was imported.

    Tried with Ray 2.60. Why: each Ray of ours has its own token and listens on loopback, while a
    process may have imported Ray long before. Until: `ray.init` takes both as arguments.
    """
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    default = "0" if ray_constants.IS_WINDOWS_OR_OSX else "1"
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(CLUSTERS, default).lower() in ("1", "true")
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


# --- a Ray of our own


@piece(lost="Ray's files are left over, and the first trials later", otherwise={}, tried_only=True)
def local_options(folder: str, modules: Sequence[str]) -> dict[str, Any]:
    """Return what to give `ray.init` so that it writes to `folder` and preloads `modules`.

    Tried with Ray 2.60. Why: nothing of a Ray of ours may be left over, and a worker that has
    imported torch before its first trial saves seconds. Until: both are public arguments.
    """
    preload = {"preload_python_modules": list(modules)} if modules else None
    return {"_temp_dir": folder, "_system_config": preload}


@piece(lost="Ray counts memory that is not ours", otherwise={}, tried_only=True)
def reservable_memory(count: int) -> dict[str, Any]:
    """Return what to give `ray.init` so that actors can reserve `count` bytes of memory.

    Tried with Ray 2.60. Why: Ray itself looks at the outermost control group alone, and does not
    start where it takes too little there for free. Until: the argument is public.
    """
    return {"_memory": count}


_PRESTARTED = "--num_prestart_python_workers="
_AGENT = "--dashboard_agent_command="
_NO_AGENT = f"{_AGENT}sleep 2147483647"  # Ray insists on an agent that lives
_AGENT_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
_NO_PORT = -1  # of an agent that listens nowhere
_POLL_S = 0.005
_WRITTEN_MS = 1000  # for a file that is being written


@replacing(lost="Ray starts services that no trial needs, and the first trial later")
def fewer_services(port: int, *, workers: int) -> Names:
    """Have `ray.init` start no dashboard, autoscaler, reader of logs nor agent for metrics.

    port: a free one for the agent of runtime environments, which nobody then has to wait for.
    workers: how many start ahead of the trials, at most; by itself Ray starts one a CPU.
    Tried with Ray 2.60. Why: they take longer than the rest of Ray's start, two of them are waited
    for, and nothing here asks them for anything. Until: `ray.init` can leave each of them out.
    """
    from ray import _raylet
    from ray._private import node, parameter, services

    raylet: Any = _raylet
    start = services.start_ray_process

    def start_process(command: list[str], process_type: str, *args: Any, **options: Any) -> Any:
        if process_type == "raylet":
            command = _lean(command, workers, raylet.persist_port)
        return start(command, process_type, *args, **options)

    def wait_for_port(folder: str, node_id: str, name: str, *, timeout_ms: int) -> int:
        """Let other threads import and look for dead daemons: Ray's own wait holds the GIL."""
        path = Path(folder, raylet.get_port_filename(node_id, name))
        deadline = time.monotonic() + timeout_ms / 1000
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return int(raylet.wait_for_persisted_port(folder, node_id, name, timeout_ms=_WRITTEN_MS))

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
        node: {"wait_for_persisted_port": wait_for_port},
    }


def _lean(command: list[str], workers: int, persist_port: Callable[..., object]) -> list[str]:
    """The command of a raylet that starts at most `workers` ahead, and an agent that only sleeps.

    A command of another form is left as it is.
    """
    flags = dict(part.split("=", 1) for part in command if "=" in part)
    if missing := {"--session_dir", "--node_id", _PRESTARTED[:-1], _AGENT[:-1]} - flags.keys():
        _warn_once("raylet", f"a raylet without {missing}: {PIECES['fewer_services']}")
        return command
    for name in _AGENT_PORTS:  # the raylet waits for the agent to write them
        persist_port(flags["--session_dir"], flags["--node_id"], name, _NO_PORT)
    workers = min(workers, int(flags[_PRESTARTED[:-1]]))
    new = {_AGENT: _NO_AGENT, _PRESTARTED: f"{_PRESTARTED}{workers}"}
    return [next((to for flag, to in new.items() if p.startswith(flag)), p) for p in command]


@replacing(lost="Ray prints on stdout that a worker has died")
def no_prints() -> Names:
    """Keep Ray from printing on stdout, in colour, that a worker has died.

    Tried with Ray 2.60. Why: stdout is for data, and the journal and the summary say which trial
    failed, and how. Until: Ray logs it, or prints to stderr.
    """
    from ray._private import worker

    return {worker: {"print_to_stdstream": lambda data, ignore_prefix: None}}


@replacing(lost="SIGTERM while Ray starts, or after a search, ends without a word or a resume")
def no_signal_handlers() -> Names:
    """Keep `ray.init` from taking over SIGTERM.

    Tried with Ray 2.60. Why: an exit raised within Ray's C++ aborts with its stack, and what took
    the signal before does so no more. Until: `ray.init` leaves a handler that is there.
    """
    from ray._private import utils

    return {utils: {"set_sigterm_handler": lambda handler: None}}


# --- Ray Tune


_OVERDUE_S = 10.0  # after which a free worker goes to a trial whose own worker is late


@replacing(lost="Ray Tune ends a worker that has no trial at the moment")
def keep_workers(*, here: bool) -> Names:
    """Have `tune.run` keep its worker processes for later trials; `here`: all are on this machine.

    Tried with Ray 2.60. Why: a worker takes seconds of a CPU before its first epoch, and many a
    trial takes less in all. Until: Tune keeps workers while more trials may come.
    """
    import ray
    from ray.tune.execution import tune_controller
    from ray.tune.execution.class_cache import _ActorClassCache
    from ray.tune.utils.object_cache import _ObjectCache

    class Workers(_ObjectCache):
        """The workers without a trial: all of them, for as long as there may be more trials."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._changed = time.monotonic()

        @property
        def num_cached_objects(self) -> int:
            """How many Tune may give to a trial whose own worker has been asked for already.

            At first none: Tune would end the worker that is just starting, and start another for
            the next trial. All of them once they are overdue: what the trial's own worker needs may
            never come free, as on a cluster that others use, too.
            """
            overdue = time.monotonic() > self._changed + _OVERDUE_S
            return self._num_cached_objects if overdue else 0

        def cache_object(self, key: Any, obj: Any) -> bool:
            """Keep a worker; Tune's own cache keeps no more than there are pending trials."""
            self._cached_objects[key].append(obj)
            self._num_cached_objects += 1
            self._changed = time.monotonic()
            return True

        def flush_cached_objects(self, force_all: bool = False) -> Generator[Any, None, None]:
            """Yield the workers that are to end: none before the search does."""
            if force_all:
                yield from super().flush_cached_objects(force_all=True)

    class PlainActors(_ActorClassCache):
        """Trainables as actors that may run in the workers that Ray has started ahead.

        Tune's own actors ask for environment variables, which only a new process could have. A
        worker of this machine inherits them from the driver.
        """

        def get(self, trainable_cls: Any) -> Any:
            if trainable_cls not in self._cache:
                self._cache[trainable_cls] = ray.remote(trainable_cls)
            return self._cache[trainable_cls]

    names: dict[str, Any] = {"_ObjectCache": Workers}
    if here:
        names["_ActorClassCache"] = PlainActors
    return {tune_controller: names}


@piece(lost="after Ctrl-C in a long epoch, workers are waited for twice as long")
def limit_cleanup(controller: Any, seconds: float) -> None:
    """Have Tune wait at most `seconds` for its workers when the search ends.

    Tried with Ray 2.60. Why: by then what a worker has reported is safe, and what it has not is
    run again. `TUNE_FORCE_TRIAL_CLEANUP_S` does not shorten it. Until: a setting does.
    """
    controller = getattr(controller, "_tune_controller", controller)  # schedulers get a wrapper
    _ = controller._actor_force_cleanup_timeout
    controller._actor_force_cleanup_timeout = seconds


@piece(lost="the driver's memory grows with each metric of each trial")
def forget_metrics(trial: Any) -> None:
    """Drop the statistics that Tune keeps of each metric of a trial that has ended.

    Tried with Ray 2.60. Why: they are most of the driver's memory, and the journal has the
    metrics. Until: Tune drops them itself.
    """
    metadata = trial.run_metadata
    metadata.metric_analysis.clear()
    metadata.metric_n_steps.clear()
    metadata.invalidate_cache()


@piece(lost="MLflow shows a resumed trial as two runs, an interrupted one as ended", otherwise={})
def mlflow_runs(callback: Any) -> dict[Any, str]:
    """Return the run ids of Ray's MLflow callback by trial, to read and to extend.

    Tried with Ray 2.60. Why: the callback can neither go on with a run nor tell how one ended but
    by success and failure. Until: its methods return the id, and take one.
    """
    runs: dict[Any, str] = callback._trial_runs
    return runs


@piece(lost="in a notebook Ray clears what is shown", otherwise=False)
def in_notebook() -> bool:
    """Return whether Ray takes this for a notebook, where it shows progress itself.

    Tried with Ray 2.60. Why: `tune.run` takes a reporter that reports nothing in a notebook alone.
    Until: `verbose=0` is enough there.
    """
    from ray.widgets.util import in_notebook

    return bool(in_notebook())


# --- a cluster that is joined


@piece(lost="`--address auto` knows no cluster but that of RAY_ADDRESS")
def this_machines_cluster() -> str | None:
    """Return HOST:PORT of the head of the cluster that this machine belongs to.

    Tried with Ray 2.60. Why: the head is asked before Ray starts here. Raises ConnectionError
    where there is none, or several. Until: `ray.init` itself says in seconds why it cannot join.
    """
    from ray._private.services import canonicalize_bootstrap_address_or_die

    return str(canonicalize_bootstrap_address_or_die("auto"))


@piece(lost="Ray finds out slowly whether a cluster's token and versions match", otherwise=b"")
def cluster_metadata(head: str, timeout_s: float) -> bytes:
    """Return what a cluster's head has recorded of its versions, as JSON; may be empty.

    Tried with Ray 2.60. Why: `ray.init` waits for a minute and names one of many causes. Raises
    Ray's AuthenticationError and RpcError. Until: `ray.init` says in seconds why it cannot join.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    return GcsClient(head).internal_kv_get(*METADATA, timeout=timeout_s) or b""


@piece(lost="a driver outside of a cluster gets no node of its own there", otherwise=True)
def has_node_here(head: str, timeout_s: float) -> bool:
    """Return whether a living node of the cluster at `head` is on this machine.

    Tried with Ray 2.60. Why: a driver needs one to talk to the cluster through. Until: Ray tells
    of the nodes of a cluster before it is joined.
    """
    from ray._private.services import find_node_ids

    return bool(find_node_ids() & living_nodes(head, timeout_s))


def living_nodes(head: str, timeout_s: float) -> set[str]:
    """Return the ids of the living nodes of the cluster at `head`, without joining it."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]

    nodes = GcsClient(head).get_all_node_info(timeout=timeout_s)
    living = GcsNodeInfo.GcsNodeState.ALIVE
    return {key.hex() for key, node in nodes.items() if node.state == living}


@piece(lost="a node that is about to leave is used until it is gone", otherwise={})
def draining_nodes() -> dict[str, int]:
    """Return by id when the nodes that are about to leave will be gone, in ms (0: not told).

    Tried with Ray 2.60. Why: `ray.nodes()` does not tell it. Until: it does.
    """
    from ray._private.state import state

    return dict(state.get_draining_nodes())


@piece(lost="of a node that is about to leave all counts as in use", otherwise={})
def free_resources() -> dict[str, dict[str, float]]:
    """Return what is free on each node, by id.

    Tried with Ray 2.60. Why: `ray.available_resources()` is the sum over all nodes. Until: Ray
    tells it a node without the dashboard.
    """
    from ray._private.state import available_resources_per_node

    return dict(available_resources_per_node())


@piece(lost="a search that waits for CPUs does not say who holds them")
def holding_actors() -> list[tuple[str, int, str, dict[str, float]]]:
    """Return of each living actor its name, or its class's, its pid, its job, and what it holds.

    Tried with Ray 2.60. Why: only the dashboard tells it, which a Ray of ours does not start.
    Until: Ray tells it without one.
    """
    from ray._private.state import state
    from ray.core.generated.gcs_pb2 import ActorTableData  # type: ignore[attr-defined]

    table = state._connect_and_get_accessor().get_actor_table(None, "ALIVE")
    actors = map(ActorTableData.FromString, table)
    return [
        (
            actor.name or actor.class_name,
            actor.pid,
            actor.job_id.hex(),
            {**actor.required_resources},
        )
        for actor in actors
    ]


def job_of(placement_group_id: str) -> str:
    """The id of the job that has made a placement group: the id of the group ends with it.

    Without it a trial that is about to start would count as one that waits.
    """
    return placement_group_id[-8:]


@piece(lost="a data set that is copied between nodes may fill a node's object store", otherwise={})
def limit_ahead(count: int) -> dict[str, Any]:
    """Return the options of a streaming task that keeps at most `count` results waiting.

    Tried with Ray 2.60. Why: the chunks of a file lie in the object store of who gives it until
    they are taken. Until: the option loses its underscore.
    """
    from ray._common.ray_option_utils import task_options

    name = "_generator_backpressure_num_objects"
    _ = task_options[name]
    return {name: count}


@piece(lost="a folder of code that is too large is refused by Ray, without the largest files")
def visit_sent_files(
    directory: Path, excludes: list[str], visit: Callable[[Path], object], *, gitignore: bool
) -> None:
    """Call `visit` with each file and folder of `directory` that Ray would send to the nodes.

    Tried with Ray 2.60. Why: what is too large is refused before it is packed, with the largest
    entries, and the rules of what is left out are Ray's. Until: Ray says what it would send.
    """
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

    logger = logging.getLogger(f"{__name__}.walk")  # Ray tells of each file that it leaves out
    logger.disabled = True
    left_out = _get_excludes(directory, [*get_runtime_env_default_excludes(), *excludes])
    _dir_travel(directory, [left_out], visit, include_gitignore=gitignore, logger=logger)


def admit_storage(storage: Any) -> None:
    """Let Ray keep a function's checkpoint in the folder of its `storage` on this machine.

    It looks there for a mark that the driver has set, in what it takes for a shared folder.
    """
    from ray.train._internal.storage import _VALIDATE_STORAGE_MARKER_FILENAME

    folder = Path(storage.experiment_fs_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _VALIDATE_STORAGE_MARKER_FILENAME).touch()


@contextmanager
def replaced(names: Mapping[ModuleType, Mapping[str, Any]]) -> Iterator[None]:
    """Within it the given names of each module are those given, after it what they were."""
    before = {
        module: {name: getattr(module, name) for name in own} for module, own in names.items()
    }
    for module, own in names.items():
        vars(module).update(own)
    try:
        yield
    finally:
        for module, own in before.items():
            vars(module).update(own)


# --- within a trial ---
# Tried with Ray 2.60. What is lost without each piece stands in its docstring.

NODE_DIED = "its node has died"  # in the message of a RayActorError; else a lost node is a crash
PROCESS_DIED = "its worker process has died"  # likewise; else its long text is what a user reads


def pid_in(message: str) -> int | None:
    """The process of whose death an error's message tells.

    Without it the driver cannot tell which note a process has left of why it ends, and a worker
    that was ended for want of memory is a crash.
    """
    pid = re.search(r"\bpid: (\d+)", message)
    return int(pid[1]) if pid else None


def actor_of(error: Any) -> tuple[str | None, bool]:
    """The node of the actor that a RayActorError is about, and whether its process has died.

    The node is None where the actor was never placed. A process that Ray has ended because nobody
    needed it any more has not died. Without it a trial that was cut off with its node counts as
    crashed, and may not be tried again.
    """
    from ray._private import state
    from ray.core.generated.common_pb2 import ActorDiedErrorContext  # type: ignore[attr-defined]

    actor = state.actors(error.actor_id) if error.actor_id else {}
    node_id = actor.get("Address", {}).get("NodeID") or None
    if "DeathCause" not in actor:
        return node_id, False
    reason = actor["DeathCause"].actor_died_error_context.reason
    return node_id, bool(reason == ActorDiedErrorContext.WORKER_DIED)


def draining_node_ids() -> set[str]:
    """The ids of nodes that are about to leave; raises RayError where the head does not answer.

    Without it a trial begins on a node that leaves, and is tried again on another.
    """
    from ray._private.worker import global_worker

    return set(global_worker.gcs_client.get_draining_nodes())  # type: ignore[attr-defined]


def when_ended(actor: Any) -> Any:
    """What `ray.get` waits on until a killed actor is gone, when it raises RayActorError.

    Without it the next trial may find its GPU still full.
    """
    return actor.__ray_ready__.remote()


def say_nothing_of_slow_starts() -> None:
    """Leave out Tune's advice, in the log of a trial that starts slowly, to reuse actors.

    They are reused. Without it each first trial of a process gets that advice.
    """
    logging.getLogger("ray.tune.trainable.trainable").setLevel(logging.WARNING)


def function_session() -> Any:
    """The session that a plain Tune function reports to, in this process; None before the first.

    Without it a process cannot run a second function, nor one continue from its checkpoint.
    """
    from ray.train._internal.session import get_session

    return get_session()


def continue_from(session: Any, checkpoint: Path) -> None:
    """Let `tune.get_checkpoint()` return the files of the folder `checkpoint`.

    Without it a function that is resumed starts anew: Tune knows nothing of our checkpoints.
    """
    from ray.tune import Checkpoint

    session.loaded_checkpoint = Checkpoint.from_directory(checkpoint)


def call_function(function: Any, trial: Any, config: dict[str, Any]) -> Any:
    """Call a plain Tune function as Tune does, within the Trainable `trial`.

    Tune would wrap the function at the driver, and send it by pickling. Here a worker imports it by
    its dotted path.
    """
    from ray.tune.trainable import wrap_function

    return wrap_function(function)._trainable_func(trial, config)


def is_stopped(session: Any) -> bool:
    """Whether Ray is ending the function's thread, which it does by a SystemExit within it."""
    return session is None or bool(session.stop_event.is_set())


def reported_by_function(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a plain function reported, without what Ray adds; None once it has returned.

    Without it Ray's additions would be journaled as metrics.
    """
    from ray.air.constants import TIMESTAMP
    from ray.tune.result import RESULT_DUPLICATE, SHOULD_CHECKPOINT

    if RESULT_DUPLICATE in result:
        return None
    rays = (TIMESTAMP, SHOULD_CHECKPOINT, "checkpoint_dir_name")
    return {name: value for name, value in result.items() if name not in rays}


def saved_by_function(trial: Any) -> Path | None:
    """The folder of the checkpoint that the function reported last; None where it had none.

    `trial` is a FunctionTrainable. Without it what a function saves cannot be journaled.
    """
    last = trial._last_training_result
    return Path(last.checkpoint.path) if last and last.checkpoint else None


def error_of_function(error: BaseException) -> BaseException:
    """What the function raised, without what Ray wraps around it.

    Without it every failure of a function is called StartTraceback.
    """
    from ray.air._internal.util import skip_exceptions

    return skip_exceptions(error) if isinstance(error, Exception) else error
