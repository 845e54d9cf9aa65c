"""Starts Ray on this machine and ends it again, with nothing of it left afterwards."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tuner.cluster import access, daemons, guard, lean_ray
from tuner.errors import ExperimentError
from tuner.planning.plan import fit
from tuner.planning.validation import Machine
from tuner.spec.experiment import ExperimentSpec
from tuner.trial import machine_memory
from tuner.trial.worker_death import NOTES

OBJECT_STORE_BYTES = 256 << 20  # nothing large travels through it: data sets are memory-mapped

# Without its GCS a raylet waits for another, for a minute. While a driver joins it, nothing else of
# the driver runs, so that it is the raylet's end that tells it.
_GIVE_UP, _GIVE_UP_AFTER_S = "RAY_gcs_rpc_server_reconnect_timeout_s", "10"

_FOR_THE_DRIVER = ("pandas", "pyarrow.fs", "rich.console")  # Ray Tune imports them all


@contextmanager
def started(spec: ExperimentSpec | None) -> Iterator[str]:
    """A Ray of this process's own; yields its temporary folder, which goes with it.

    For a `spec` it gets its workers ready. Raises ExperimentError where Ray does not start.
    """
    import ray

    mark, folder = guard.new_mark(), access.new_folder()
    notes = Path(folder) / "notes"
    notes.mkdir()
    ours = access.for_our_own(Path(folder))
    ours |= {guard.MARK: mark, NOTES: str(notes)}
    ours |= {_GIVE_UP: os.environ.get(_GIVE_UP, _GIVE_UP_AFTER_S)}
    marked = partial(guard.marked, mark, folder)
    with (
        guard.start(mark, folder),
        access.environment(ours),
        lean_ray.free_port() as port,
    ):
        try:
            with daemons.watched(), machine_memory.watched(notes, marked):
                _start_ray(folder, port, spec)
                yield folder
        finally:
            ray.shutdown()
            guard.end(mark, folder)


def _start_ray(temporary: str, runtime_env_port: int, spec: ExperimentSpec | None) -> None:
    import ray

    cpus = len(os.sched_getaffinity(0))
    workers, modules = _ahead(spec) if spec else (cpus, [])
    try:
        with _imports_meanwhile(), lean_ray.few_services(runtime_env_port, workers=workers):
            ray.init(
                address="local",
                num_cpus=cpus,
                object_store_memory=OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=f"{temporary}/ray",  # which Ray opens to all, but not what it lies in
                _system_config={"preload_python_modules": modules} if modules else None,
            )
    except Exception as error:
        raise ExperimentError(f"Ray did not start on this machine: {error}") from error


def _ahead(spec: ExperimentSpec) -> tuple[int, list[str]]:
    """How many workers `spec` needs at once, and what they can import before there is a trial.

    A user's own module is imported within the trial, whose log then has what that says.
    """
    trials = fit(spec.resources, Machine.here())
    trials = min(trials, spec.max_concurrent or trials, spec.trials or trials)
    ranks = spec.resources.ranks
    training = [spec.trainable.partition(":")[0]] if spec.ships and ranks == 1 else []
    return trials * (ranks + (ranks > 1)), ["ray.tune", *training]


@contextmanager
def _imports_meanwhile() -> Iterator[None]:
    """Import what the driver will need and Ray's start does not."""

    def import_all() -> None:
        for module in _FOR_THE_DRIVER:
            importlib.import_module(module)

    thread = threading.Thread(target=import_all)
    thread.start()
    try:
        yield
    finally:
        thread.join()
