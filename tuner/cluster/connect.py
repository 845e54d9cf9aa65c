"""Connects to a Ray cluster, or starts Ray on this machine and ends it again."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuner.cluster import access, guard
from tuner.cluster import local_ray as own_ray
from tuner.cluster.joined import autoscaling as growth
from tuner.cluster.joined import driver_node as outpost
from tuner.cluster.joined import head, heartbeat
from tuner.cluster.joined import preflight as survey
from tuner.cluster.joined import runtime_env as shipping
from tuner.cluster.joined.nodes import Node, nodes, places, too_large
from tuner.cluster.joined.nodes import plan_there as of_nodes
from tuner.errors import UsageError
from tuner.places import local
from tuner.spec.experiment import ExperimentSpec, Resources

LOCAL = "local"

_scratch: str | None = None  # the temporary folder of the Ray that this process has started

_OWN_NODE_S = 20.0

# Ray reads these when it is imported, and hands them to its workers. A user's own setting wins.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # its banner goes to stdout, which is for data
    "RAY_TQDM": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # its future default; without it Ray warns
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a trial's relative paths mean what they mean to the user
    "RAY_memory_monitor_refresh_ms": "0",  # machine_memory ends whom it should
    "RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE": "1",  # else Tune itself starts a trial from its start
    "PL_DISABLE_FORK": "1",  # what Tune sets for its workers
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the journal and our TensorBoard writer do it
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a bad report fails its trial, not the search
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver has its own
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # they are in the trial's log and the summary
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # the journal makes Ray's snapshots needless
    "TUNE_FORCE_TRIAL_CLEANUP_S": "10",
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000000",  # Ray spells it so
}


def prepare_environment() -> None:
    """Set what Ray reads at import; to be called before the first import of ray."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@contextmanager
def connect(address: str = LOCAL, *, spec: ExperimentSpec | None = None) -> Iterator[None]:
    """Ray at `address` for as long as the context lasts: `local`, `auto` or HOST:PORT.

    Where this process is connected already, that connection is used and left as it is. A local
    Ray gets the CPUs that this process may use, and none of it is left afterwards; for a `spec`
    it gets its workers ready while the driver still prepares. To a running cluster the code of a
    `spec` is sent, and this machine need not be one of its nodes. Raises UsageError where a
    cluster cannot be joined, with what to do.
    """
    prepare_environment()
    import ray

    if ray.is_initialized():
        yield
        return
    _silence_daemons()
    with _local(spec) if address == LOCAL else _joined(address, spec):
        yield


def is_connected() -> bool:
    """Whether this process is connected to Ray; false without an import where it cannot be."""
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized())


def is_elsewhere() -> bool:
    """Whether this process is connected to a Ray that it has not started itself."""
    return is_connected() and _scratch is None


def slots(resources: Resources) -> int:
    """How many trials of these resources the connected Ray can run at once.

    Raises UsageError where it cannot hold a single one: that would wait for ever.
    """
    there = _there()
    fits = places(resources, there).trials
    if fits < 1:
        raise UsageError(too_large(resources, there))
    return fits


def _there() -> list[Node]:
    """The nodes; a Ray of our own that has just begun may not know of its node yet."""
    deadline = time.monotonic() + _OWN_NODE_S
    while True:
        there = nodes()
        if is_elsewhere() or any(n.cpus for n in there) or time.monotonic() > deadline:
            return there
        time.sleep(0.02)


def admit(spec: ExperimentSpec) -> None:
    """Make sure that the connected Ray can run the trials of `spec`, before there is a folder.

    Of a cluster, each node must share the storage and find the trainable, and gets the data set
    where it lacks it. Raises UsageError, and DataError where the data set cannot be had.
    """
    slots(spec.resources)
    there = nodes()
    _refuse_unfit(spec, there)
    if is_elsewhere() and _is_spread(there):
        from tuner.cluster.joined import datasets as supply

        for need in supply.needs_of(spec):
            supply.bring(there, need, here=_node_id(), say=_tell)


def await_room(resources: Resources, patience_s: float | None) -> None:
    """Wait for the nodes of a joined cluster, as `growth.await_room` does; the wait is told."""
    if is_elsewhere():
        growth.await_room(resources, patience_s, _tell)


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def room(spec: ExperimentSpec) -> growth.Room:
    """How many trials of `spec` may be live on the joined cluster, whose nodes come and go."""
    from tuner.cluster.joined import datasets as supply

    needs, grows = supply.needs_of(spec), growth.autoscales(nodes())

    def greet(new: list[Node], others: list[Node]) -> None:
        for need in needs:
            supply.greet(new, others, need)

    return growth.Room(spec.resources, most=spec.max_concurrent, grows=grows, greet=greet)


def plan_there(spec: ExperimentSpec) -> dict[str, Any]:
    """What `nodes.plan_there` says of the joined cluster, on which `spec` is known to work.

    Raises UsageError as `admit` does; where the cluster autoscales, none need fit on it yet.
    """
    there = nodes()
    if not places(spec.resources, there).trials and not growth.autoscales(there):
        raise UsageError(too_large(spec.resources, there))
    _refuse_unfit(spec, there)
    return of_nodes(spec, there)


def _refuse_unfit(spec: ExperimentSpec, there: list[Node]) -> None:
    there = [node for node in there if node.cpus]
    if is_elsewhere() and _is_spread(there):
        survey.refuse_unfit(there, spec.storage, spec.trainable)


def _is_spread(there: list[Node]) -> bool:
    """Whether any trial may run on another machine than this one."""
    here = _node_id()
    return any(node.node_id != here for node in there if node.cpus)


def _node_id() -> str:
    """Of the node on this machine."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _silence_daemons() -> None:
    """Keep stdout for data: Ray prints there, in colour, that a worker has died.

    Which trial failed, and how, is in the journal and the summary.
    """
    from ray._private import worker

    worker.print_to_stdstream = lambda data, ignore_prefix: None
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)


@contextmanager
def _local(spec: ExperimentSpec | None) -> Iterator[None]:
    global _scratch
    with own_ray.started(spec) as folder:
        _scratch = folder
        try:
            yield
        finally:
            _scratch = None


def scratch_folder() -> str:
    """Where to put what only this run needs: it is removed even if this process is killed."""
    return _scratch or tempfile.gettempdir()


@contextmanager
def _joined(address: str, spec: ExperimentSpec | None) -> Iterator[None]:
    import ray

    there = head.head_of(address)
    with access.environment(access.for_others()):
        ours = head.ask(there)
        code = {}
        if spec:
            code = shipping.runtime_env(Path.cwd(), local(spec.storage), code=not spec.ships)
        with _node_here(there, ours):
            try:
                ray.init(
                    address=there,
                    runtime_env=code,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as error:
                raise UsageError(f"Ray cannot join the cluster at {there}: {error}") from error
            try:
                with heartbeat.watched(there):
                    yield
            finally:
                ray.shutdown()


@contextmanager
def _node_here(there: str, ours: str) -> Iterator[None]:
    """A node of the cluster on this machine; where there is none, one for this driver alone."""
    if outpost.is_here(there):
        yield
        return
    mark, temporary = guard.new_mark(), access.new_folder()
    with (
        guard.start(mark, temporary),
        access.environment({guard.MARK: mark}),
        outpost.of(there, ours, mark, temporary),
    ):
        yield
