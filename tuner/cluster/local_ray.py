"""Starts Ray on this machine and ends it again, without a trace.

Its daemons are watched: when one is killed, Ray ends the process that uses it, after up to a minute
and without a word to the user.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import psutil

from tuner import ray_compat
from tuner.cluster import access
from tuner.errors import ExperimentError, describe_error, translate_error
from tuner.signals import defer_signals
from tuner.spec import quotas
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import count_fitting_trials
from tuner.spec.validation import Machine
from tuner.threads import run_in_thread
from tuner.trial import guard
from tuner.trial.memory_monitor import measure_memory, watch_memory
from tuner.trial.worker_death import NOTES

# Nothing large travels through it: data sets are memory-mapped
OBJECT_STORE_BYTES = 256 << 20

_NOT_STARTED = "Ray did not start on this machine"
_GIVE_UP_S = "10"  # for a raylet whose GCS has died while the driver joins
_POLL_S = 0.5
_GRACE_S = 1.0  # for an error that says more, of a Ray that does not start

_advice: list[Callable[[], str]] = []


@contextmanager
def start_local_ray(spec: ExperimentSpec | None, trials: int | None) -> Iterator[str]:
    """A Ray of this process alone; yields its temporary folder, which goes with it.

    For a `spec` it gets its workers ready. Raises ExperimentError where Ray does not start.
    """
    import ray

    with translate_error(
        ExperimentError, f"Ray needs a folder in {access.TEMPORARY}", of=OSError
    ):
        folder = tempfile.mkdtemp(prefix=access.PREFIX, dir=access.TEMPORARY)
    mark = guard.generate_mark()
    notes = Path(folder) / "notes"
    with translate_error(ExperimentError, _NOT_STARTED, of=OSError):
        notes.mkdir()
        token = access.create_local_environment(Path(folder))
    environment = {
        **token,
        guard.MARK: mark,
        NOTES: str(notes),
        ray_compat.GIVE_UP: os.environ.get(ray_compat.GIVE_UP, _GIVE_UP_S),
    }
    marked = partial(guard.find_marked, mark, folder)
    with (
        guard.start(mark, folder),
        access.set_environment(environment),
        reserve_port() as port,
    ):
        try:
            with watch_daemons(), watch_memory(notes, marked):
                _start(folder, port, spec, trials)
                yield folder
        finally:
            ray.shutdown()
            guard.end(mark, folder)


def _start(
    folder: str, runtime_env_port: int, spec: ExperimentSpec | None, trials: int | None
) -> None:
    import ray

    cpus = quotas.count_usable_cpus()
    (free, _) = measure_memory()
    workers, modules = (
        plan_workers(spec, Machine.detect(), trials) if spec else (cpus, [])
    )
    with (
        translate_error(ExperimentError, _NOT_STARTED),
        # The driver will need it
        run_in_thread(lambda over: importlib.import_module("ray.tune")),
        defer_signals(),
        ray_compat.keep_signal_handlers(),
        ray_compat.skip_services(runtime_env_port, workers=workers),
    ):
        ray.init(
            address="local",
            num_cpus=cpus,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            # Ray opens its folder to all users, but not the one that it lies in
            **ray_compat.build_local_options(
                f"{folder}/ray", modules, memory=max(0, free - OBJECT_STORE_BYTES)
            ),
        )


def plan_workers(
    spec: ExperimentSpec, machine: Machine, trials: int | None = None
) -> tuple[int, list[str]]:
    """How many workers `spec` needs at once, and what they can import before there is a trial.

    trials: how many there will be, default those of `spec`. A user's own module is imported within
    the trial, whose log then has what it prints.
    """
    fits = count_fitting_trials(spec.resources, machine)
    live = min(fits, spec.max_concurrent or fits, trials or spec.trials or fits)
    ranks = spec.resources.ranks
    training = [spec.trainable.partition(":")[0]] if spec.ships and ranks == 1 else []
    return live * (ranks + (ranks > 1)), ["ray.tune", *training]


@contextmanager
def reserve_port() -> Iterator[int]:
    """A port that is reserved while the context lasts, to be bound with SO_REUSEADDR."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield int(holder.getsockname()[1])


def watch_daemons() -> AbstractContextManager[None]:
    """Within it, the death of one of Ray's daemons is reported on stderr and ends this process.

    It ends as by a kill, with the exit code of an ExperimentError: nothing that asks Ray would
    return. To be left before Ray is shut down.
    """
    return run_in_thread(_poll_daemons)


@contextmanager
def add_exit_advice(advice: Callable[[], str]) -> Iterator[None]:
    """Within it, the message with which `exit_process` ends has what `advice` returns, too."""
    _advice.append(advice)
    try:
        yield
    finally:
        _advice.remove(advice)


def _poll_daemons(over: threading.Event) -> None:
    names: dict[psutil.Process, str] = {}
    while not over.wait(_POLL_S):
        if len(names) < len(ray_compat.DAEMONS):
            # Listing reads every process of the machine
            names |= _find_daemons()
        dead = [name for daemon, name in names.items() if not _is_alive(daemon)]
        if dead and not over.wait(_GRACE_S):
            exit_process(f"Ray's {dead[0]} has died")


def _find_daemons() -> dict[psutil.Process, str]:
    """This process's children that Ray cannot do without, dead ones included, and their names."""
    daemons = {}
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended
            if (name := child.name()) in ray_compat.DAEMONS:
                daemons[child] = name
    return daemons


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def exit_process(reason: str) -> NoReturn:
    """End this process as by a kill; stderr gets the reason and all advice."""
    message = f"error: {reason}, and the search with it"
    try:
        for advice in _advice:
            try:
                message += f"; {advice()}"
            except Exception as error:
                message += f"; what to do cannot be told: {describe_error(error)}"
        print(message, file=sys.stderr, flush=True)
    finally:
        os._exit(ExperimentError.exit_code)
