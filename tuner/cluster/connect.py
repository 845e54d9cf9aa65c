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

from tuner import process, ray_compat
from tuner.cluster import access, head, preflight
from tuner.cluster.local_ray import exit_process, local_ray
from tuner.cluster.nodes import (
    PATIENCE_S,
    POLL_S,
    Node,
    Room,
    capacity,
    has_autoscaler,
    list_nodes,
    plan_on,
    remote_on,
    resources_requested,
    run_on_each,
    too_large,
)
from tuner.errors import UsageError, translate_error
from tuner.places import LOCAL, local
from tuner.spec.declaration import declaration_of
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources
from tuner.wording import duration

_LOCAL_NODE_S = 20.0


class Cluster:
    """The Ray that this process is connected to.

    Tests override what asks Ray: `is_joined`, `nodes`, `driver`, `run`, `start` and `requested`.
    """

    scratch: str | None = None  # the temporary folder of the Ray that this process has started
    nodes = staticmethod(list_nodes)
    run = staticmethod(run_on_each)
    start = staticmethod(remote_on)
    requested = staticmethod(resources_requested)

    def is_joined(self) -> bool:
        """Whether this process is connected to a Ray that it has not started itself."""
        return is_connected() and self.scratch is None

    def driver(self) -> str:
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def slots(self, resources: Resources) -> int:
        """How many trials of these resources it can run at once.

        Raises UsageError if not a single one fits: it would wait for ever.
        """
        deadline = time.monotonic() + _LOCAL_NODE_S
        while True:
            nodes = self.nodes()
            if self.is_joined() or any(n.cpus for n in nodes) or time.monotonic() > deadline:
                break
            time.sleep(0.02)  # a Ray of our own that has just begun may not know of its node yet
        fits = capacity(resources, nodes).trials
        if fits < 1:
            raise UsageError(too_large(resources, nodes))
        return fits

    def admit(self, spec: ExperimentSpec) -> None:
        """Check that it can run the trials of `spec`, before a folder is created.

        Each node of a joined cluster must share the storage and find the trainable, and gets the
        data set. Raises UsageError, and DataError if the data set is unavailable.
        """
        self.slots(spec.resources)
        nodes = self.nodes()
        self._refuse_unfit(spec, nodes)
        if self._is_spread(nodes):
            for data in declaration_of(spec.trainable).node_data(spec):
                preflight.distribute(
                    nodes, data, driver=self.driver(), run=self.run, start=self.start
                )

    def await_room(
        self, resources: Resources, patience_s: float | None, *, poll_s: float = POLL_S
    ) -> None:
        """Wait until a trial of `resources` fits on the cluster; a local Ray returns at once.

        If none fits, this requests nodes and waits for `patience_s`. None: PATIENCE_S if the
        cluster autoscales, otherwise no wait. Raises UsageError if no trial fits by then.
        """
        if not self.is_joined() or capacity(resources, now := self.nodes()).trials:
            return
        autoscales = self.autoscales(now)
        lacks = too_large(resources, now)
        if patience_s is None:
            patience_s = PATIENCE_S if autoscales else 0
        do = "ask for less (--cpus, --gpus, --workers), add nodes, or give --wait-for-resources 10m"
        if not patience_s:
            raise UsageError(f"{lacks}; it does not autoscale: {do}")
        how = "the cluster autoscales" if autoscales else "until nodes are added"
        preflight.notify(f"{lacks}; waiting up to {duration(patience_s)}: {how}")
        deadline = time.monotonic() + patience_s
        with self.requested(resources):
            while not capacity(resources, now := self.nodes()).trials:
                if time.monotonic() > deadline:
                    lacks = too_large(resources, now)
                    raise UsageError(f"after {duration(patience_s)} still {lacks}: {do}")
                time.sleep(poll_s)

    def autoscales(self, nodes: list[Node]) -> bool:
        replies = self.run([node for node in nodes if node.is_head], has_autoscaler)
        return any(reply.value for reply in replies)

    def room(self, spec: ExperimentSpec) -> Room:
        """How many trials of `spec` may be live as nodes come and go; new ones get the data set."""
        needed = declaration_of(spec.trainable).node_data(spec)

        def on_join(new: list[Node], others: list[Node]) -> None:
            for data in needed:
                preflight.send_to_new(new, others, data, start=self.start)

        return Room(
            spec.resources, nodes=self.nodes, grows=self.autoscales(self.nodes()), on_join=on_join
        )

    def plan(self, spec: ExperimentSpec) -> dict[str, Any]:
        """The result of `nodes.plan_on` for the joined cluster, after a check of its nodes.

        Raises UsageError as `admit` does. If the cluster autoscales, no trial needs to fit yet.
        """
        nodes = self.nodes()
        if not capacity(spec.resources, nodes).trials and not self.autoscales(nodes):
            raise UsageError(too_large(spec.resources, nodes))
        self._refuse_unfit(spec, nodes)
        return plan_on(spec, nodes)

    def _refuse_unfit(self, spec: ExperimentSpec, nodes: list[Node]) -> None:
        if self._is_spread(nodes):
            offering = [node for node in nodes if node.cpus]
            preflight.refuse_unfit(offering, spec.storage, spec.trainable, run=self.run)

    def _is_spread(self, nodes: list[Node]) -> bool:
        if not self.is_joined():
            return False
        driver = self.driver()
        return any(node.cpus and node.node_id != driver for node in nodes)


_connected = Cluster()

is_joined = _connected.is_joined
slots = _connected.slots
admit = _connected.admit
await_room = _connected.await_room
room = _connected.room
plan = _connected.plan
driver = _connected.driver


def is_connected() -> bool:
    """Whether this process is connected to Ray; does not import it."""
    if "ray" not in sys.modules:
        return False
    import ray

    return bool(ray.is_initialized())


def scratch_folder() -> str:
    """The folder for temporary files, which is removed even if this process is killed."""
    return _connected.scratch or tempfile.gettempdir()


@contextmanager
def connect(address: str = LOCAL, *, spec: ExperimentSpec | None = None) -> Iterator[None]:
    """A connection to Ray at `address` (`local`, `auto` or HOST:PORT) within the context.

    An existing connection of this process is used and left open. A local Ray gets the CPUs that
    this process may use, and leaves nothing behind; it starts the workers of a `spec` early. The
    code of a `spec` is sent to a running cluster. Raises UsageError, with what to do, if a cluster
    cannot be joined, and InterruptedSearchError after a signal that no search has handled.
    """
    ray_compat.prepare_environment()
    import ray

    if ray.is_initialized():
        yield
        return
    with (
        process.interrupting() as no_more_interrupts,
        ray_compat.no_prints(),
        ray_compat.quiet(ray_compat.TUNE_LOGGER, logging.CRITICAL),
        local_ray(spec) if address == LOCAL else _joined(address, spec) as scratch,
    ):
        _connected.scratch = scratch
        try:
            yield
        finally:
            _connected.scratch = None
            no_more_interrupts()


@contextmanager
def _joined(address: str, spec: ExperimentSpec | None) -> Iterator[str | None]:
    import ray

    address = head.head_at(address)
    with access.environment(access.for_joining()):
        head.check_head(address)
        code = {}
        if spec:
            code = runtime_env(Path.cwd(), local(spec.storage), code=spec.needs_code)
        with (
            translate_error(UsageError, f"Ray cannot join the cluster at {address}"),
            process.held_back(),
            ray_compat.no_signal_handlers(),
        ):
            ray.init(
                address=address, runtime_env=code, log_to_driver=False, logging_level=logging.ERROR
            )
        lost = partial(exit_process, f"the cluster's head at {address} is gone")
        try:
            with process.running(partial(head.watch, address, lost)):
                yield None
        finally:
            ray.shutdown()


def runtime_env(directory: Path, storage: Path, *, code: bool) -> dict[str, Any]:
    """The runtime environment of a search's processes on a cluster.

    With `code` the files of `directory` are in it: without what .gitignore and .rayignore there
    name, and without the results in `storage`. Modules are found in the same folders below it as
    here. Ray itself refuses files of more than 512 MiB.
    """
    settings = {name: os.environ[name] for name in ray_compat.FOR_WORKERS if name in os.environ}
    if not code or ray_compat.IN_A_JOB in os.environ:
        return {"env_vars": settings}
    directory = directory.resolve()
    storage = storage.expanduser().resolve()
    excludes = []
    if storage != directory and storage.is_relative_to(directory):
        excludes = [f"/{storage.relative_to(directory).as_posix()}/"]
    if folders := _module_folders(directory):
        settings["PYTHONPATH"] = os.pathsep.join(folders)
    return {"working_dir": str(directory), "excludes": excludes, "env_vars": settings}


def _module_folders(directory: Path) -> list[str]:
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
