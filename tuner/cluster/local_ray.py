"""Starts Ray on this machine and ends it again, with nothing of it left afterwards."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tuner import process, ray_compat
from tuner.cluster import access, daemons
from tuner.errors import ExperimentError, translate_error
from tuner.spec import quotas
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import fit
from tuner.spec.validation import Machine
from tuner.trial import guard, memory
from tuner.trial.worker_death import NOTES

OBJECT_STORE_BYTES = 256 << 20  # nothing large travels through it: data sets are memory-mapped

_NOT_STARTED = "Ray did not start on this machine"
_GIVE_UP_S = "10"  # for a raylet whose GCS has died while the driver joins
_FOR_THE_DRIVER = ("pandas", "pyarrow.fs", "rich.console")  # Ray Tune imports them all


@contextmanager
def local_ray(spec: ExperimentSpec | None) -> Iterator[str]:
    """A Ray of this process alone; yields its temporary folder, which goes with it.

    For a `spec` it gets its workers ready. Raises ExperimentError where Ray does not start.
    """
    import ray

    with translate_error(ExperimentError, f"Ray needs a folder in {access.TEMPORARY}", of=OSError):
        folder = tempfile.mkdtemp(prefix=access.PREFIX, dir=access.TEMPORARY)
    mark, notes = guard.new_mark(), Path(folder) / "notes"
    with translate_error(ExperimentError, _NOT_STARTED, of=OSError):
        notes.mkdir()
        token = access.for_local_ray(Path(folder))
    environment = {
        **token,
        guard.MARK: mark,
        NOTES: str(notes),
        ray_compat.GIVE_UP: os.environ.get(ray_compat.GIVE_UP, _GIVE_UP_S),
    }
    marked = partial(guard.marked, mark, folder)
    with guard.start(mark, folder), access.environment(environment), free_port() as port:
        try:
            with daemons.watched(), memory.watched(notes, marked):
                _start(folder, port, spec)
                yield folder
        finally:
            ray.shutdown()
            guard.end(mark, folder)


def _start(folder: str, runtime_env_port: int, spec: ExperimentSpec | None) -> None:
    import ray

    cpus, (free, _) = quotas.usable_cpus(), memory.free_and_all()
    workers, modules = ready_workers(spec, Machine.here()) if spec else (cpus, [])
    with (
        translate_error(ExperimentError, _NOT_STARTED),
        _imports_meanwhile(),
        process.held_back(),
        ray_compat.no_signal_handlers(),
        ray_compat.fewer_services(runtime_env_port, workers=workers),
    ):
        ray.init(
            address="local",
            num_cpus=cpus,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            # Ray opens its folder to all users, but not the one that it lies in
            **ray_compat.local_options(
                f"{folder}/ray", modules, memory=max(0, free - OBJECT_STORE_BYTES)
            ),
        )


def ready_workers(spec: ExperimentSpec, machine: Machine) -> tuple[int, list[str]]:
    """How many workers `spec` needs at once, and what they can import before there is a trial.

    A user's own module is imported within the trial, whose log then has what it prints.
    """
    trials = fit(spec.resources, machine)
    trials = min(trials, spec.max_concurrent or trials, spec.trials or trials)
    ranks = spec.resources.ranks
    training = [spec.trainable.partition(":")[0]] if spec.ships and ranks == 1 else []
    return trials * (ranks + (ranks > 1)), ["ray.tune", *training]


@contextmanager
def free_port() -> Iterator[int]:
    """A port that is reserved while the context lasts, to be bound with SO_REUSEADDR."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield int(holder.getsockname()[1])


@contextmanager
def _imports_meanwhile() -> Iterator[None]:
    """Import what the driver will need and Ray's start does not."""
    thread = threading.Thread(target=lambda: [*map(importlib.import_module, _FOR_THE_DRIVER)])
    thread.start()
    try:
        yield
    finally:
        thread.join()
