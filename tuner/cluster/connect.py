"""The Ray that a search runs on: started on this machine, or a cluster that is joined.

`connect` makes the connection. The other functions ask, and prepare, the Ray that is connected.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tuner import ray_compat
from tuner.cluster import LOCAL, access, head, preflight
from tuner.cluster.autoscaler import PATIENCE_S, has_autoscaler, request_resources
from tuner.cluster.capacity import (
    POLL_S,
    Room,
    compute_capacity,
    describe_fit,
    describe_misfit,
)
from tuner.cluster.local_ray import exit_process, start_local_ray
from tuner.cluster.nodes import Node, list_nodes
from tuner.cluster.tasks import build_node_task, run_on_each
from tuner.errors import UsageError, translate_error
from tuner.places import find_local_folder
from tuner.signals import defer_signals, raise_interrupts
from tuner.spec.declaration import load_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources
from tuner.threads import run_in_thread
from tuner.wording import format_duration

_LOCAL_NODE_S = 20.0


class Cluster:
    """The Ray that this process is connected to.

    Tests override what asks Ray: `is_joined`, `nodes`, `driver`, `run`, `start` and `requested`.
    """

    # The temporary folder of the Ray that this process has started
    scratch: str | None = None
    nodes = staticmethod(list_nodes)
    run = staticmethod(run_on_each)
    start = staticmethod(build_node_task)
    requested = staticmethod(request_resources)

    def is_joined(self) -> bool:
        """Whether this process is connected to a Ray that it has not started itself."""
        return is_connected() and self.scratch is None

    def find_driver(self) -> str:
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def count_slots(self, resources: Resources) -> int:
        """How many trials of these resources it can run at once.

        Raises UsageError if not a single one fits: it would wait for ever.
        """
        deadline = time.monotonic() + _LOCAL_NODE_S
        while True:
            nodes = self.nodes()
            if (
                self.is_joined()
                or any(n.cpus for n in nodes)
                or time.monotonic() > deadline
            ):
                break
            # A Ray of our own that has just begun may not know of its node yet
            time.sleep(0.02)
        fits = compute_capacity(resources, nodes).trials
        if fits < 1:
            raise UsageError(describe_misfit(resources, nodes))
        return fits

    def admit(self, spec: ExperimentSpec) -> None:
        """Check that it can run the trials of `spec`, before a folder is created.

        Each node of a joined cluster must share the storage and find the trainable, and gets the
        data set. Raises UsageError, and DataError if the data set is unavailable.
        """
        self.count_slots(spec.resources)
        nodes = self.nodes()
        self._refuse_unfit(spec, nodes)
        if self._is_spread(nodes):
            for data in load_declaration(spec.trainable).node_data(spec):
                preflight.distribute_data(
                    nodes,
                    data,
                    driver=self.find_driver(),
                    run=self.run,
                    start=self.start,
                )

    def wait_for_room(
        self, resources: Resources, patience_s: float | None, *, poll_s: float = POLL_S
    ) -> None:
        """Wait until a trial of `resources` fits on the cluster; a local Ray returns at once.

        If none fits, this requests nodes and waits for `patience_s`. None: PATIENCE_S if the
        cluster autoscales, otherwise no wait. Raises UsageError if no trial fits by then.
        """
        if (
            not self.is_joined()
            or compute_capacity(resources, now := self.nodes()).trials
        ):
            return
        autoscales = self.can_autoscale(now)
        lacks = describe_misfit(resources, now)
        if patience_s is None:
            patience_s = PATIENCE_S if autoscales else 0
        do = "ask for less (--cpus, --gpus, --workers), add nodes, or give --wait-for-resources 10m"
        if not patience_s:
            raise UsageError(f"{lacks}; it does not autoscale: {do}")
        how = "the cluster autoscales" if autoscales else "until nodes are added"
        preflight.notify(f"{lacks}; waiting up to {format_duration(patience_s)}: {how}")
        deadline = time.monotonic() + patience_s
        with self.requested(resources):
            while not compute_capacity(resources, now := self.nodes()).trials:
                if time.monotonic() > deadline:
                    lacks = describe_misfit(resources, now)
                    raise UsageError(
                        f"after {format_duration(patience_s)} still {lacks}: {do}"
                    )
                time.sleep(poll_s)

    def can_autoscale(self, nodes: list[Node]) -> bool:
        replies = self.run([node for node in nodes if node.is_head], has_autoscaler)
        return any(reply.value for reply in replies)

    def track_room(self, spec: ExperimentSpec) -> Room:
        """How many trials of `spec` may be live as nodes come and go; new ones get the data set."""
        needed = load_declaration(spec.trainable).node_data(spec)

        def send_data(new: list[Node], others: list[Node]) -> None:
            for data in needed:
                preflight.send_to_new(new, others, data, start=self.start)

        return Room(
            spec.resources,
            nodes=self.nodes,
            grows=self.can_autoscale(self.nodes()),
            on_join=send_data,
        )

    def describe_plan(self, spec: ExperimentSpec) -> dict[str, Any]:
        """The result of `nodes.describe_fit` for the joined cluster, after a check of its nodes.

        Raises UsageError as `admit` does. If the cluster autoscales, no trial needs to fit yet.
        """
        nodes = self.nodes()
        if not compute_capacity(
            spec.resources, nodes
        ).trials and not self.can_autoscale(nodes):
            raise UsageError(describe_misfit(spec.resources, nodes))
        self._refuse_unfit(spec, nodes)
        return describe_fit(spec, nodes)

    def _refuse_unfit(self, spec: ExperimentSpec, nodes: list[Node]) -> None:
        if self._is_spread(nodes):
            offering = [node for node in nodes if node.cpus]
            preflight.refuse_unfit(offering, spec.storage, spec.trainable, run=self.run)

    def _is_spread(self, nodes: list[Node]) -> bool:
        if not self.is_joined():
            return False
        driver = self.find_driver()
        return any(node.cpus and node.node_id != driver for node in nodes)


_connected = Cluster()

is_joined = _connected.is_joined
count_slots = _connected.count_slots
admit = _connected.admit
wait_for_room = _connected.wait_for_room
track_room = _connected.track_room
describe_plan = _connected.describe_plan


def is_connected() -> bool:
    """Whether this process is connected to Ray; does not import it."""
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized())


def find_scratch_folder() -> str:
    """The folder for temporary files, which is removed even if this process is killed."""
    return _connected.scratch or tempfile.gettempdir()


@contextmanager
def connect(
    address: str = LOCAL,
    *,
    spec: ExperimentSpec | None = None,
    trials: int | None = None,
) -> Iterator[None]:
    """A connection to Ray at `address` (`local`, `auto` or HOST:PORT) within the context.

    An existing connection of this process is used and left open. A local Ray gets the CPUs that
    this process may use, and leaves nothing behind; it starts the workers of a `spec` early.
    trials: how many there will be, default those of `spec`. The code of a `spec` is sent to a
    running cluster. Raises UsageError, with what to do, if a cluster cannot be joined, and
    InterruptedSearchError after a signal that no search has handled.
    """
    ray_compat.prepare_environment()
    import ray

    if ray.is_initialized():
        yield
        return
    with (
        raise_interrupts() as no_more_interrupts,
        ray_compat.drop_prints(),
        ray_compat.silence_logger(ray_compat.TUNE_LOGGER, logging.CRITICAL),
        start_local_ray(spec, trials)
        if address == LOCAL
        else _join_cluster(address, spec) as scratch,
    ):
        _connected.scratch = scratch
        try:
            yield
        finally:
            _connected.scratch = None
            no_more_interrupts()


@contextmanager
def _join_cluster(address: str, spec: ExperimentSpec | None) -> Iterator[str | None]:
    import ray

    address = head.resolve_head(address)
    with access.set_environment(access.create_join_environment()):
        head.check_head(address)
        code = {}
        if spec:
            code = build_runtime_env(
                Path.cwd(), find_local_folder(spec.storage), code=spec.needs_code
            )
        with (
            translate_error(UsageError, f"Ray cannot join the cluster at {address}"),
            defer_signals(),
            ray_compat.keep_signal_handlers(),
        ):
            ray.init(
                address=address,
                runtime_env=code,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        lost = partial(exit_process, f"the cluster's head at {address} is gone")
        try:
            with run_in_thread(partial(head.watch_head, address, lost)):
                yield None
        finally:
            ray.shutdown()


def build_runtime_env(directory: Path, storage: Path, *, code: bool) -> dict[str, Any]:
    """The runtime environment of a search's processes on a cluster.

    With `code` the files of `directory` are in it: without what .gitignore and .rayignore there
    name, and without the results in `storage`. Modules are found in the same folders below it as
    here. Ray itself refuses files of more than 512 MiB.
    """
    settings = {
        name: os.environ[name] for name in ray_compat.FOR_WORKERS if name in os.environ
    }
    if not code or ray_compat.IN_A_JOB in os.environ:
        return {"env_vars": settings}
    directory = directory.resolve()
    storage = storage.expanduser().resolve()
    excludes = []
    if storage != directory and storage.is_relative_to(directory):
        excludes = [f"/{storage.relative_to(directory).as_posix()}/"]
    if folders := _list_module_folders(directory):
        settings["PYTHONPATH"] = os.pathsep.join(folders)
    return {"working_dir": str(directory), "excludes": excludes, "env_vars": settings}


def _list_module_folders(directory: Path) -> list[str]:
    """The folders below `directory` in which Python looks for modules here, as relative paths.

    A worker starts in its copy of `directory`, from which Python reads them.
    """
    installed = Path(sys.prefix).resolve()
    paths = (Path(entry).resolve() for entry in sys.path if entry)
    return [
        path.relative_to(directory).as_posix()
        for path in paths
        if path != directory and path.is_relative_to(directory) and path.is_dir()
        if not path.is_relative_to(installed)
    ]
