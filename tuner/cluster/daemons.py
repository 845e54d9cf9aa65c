"""Watches the daemons of the Ray that this process starts: without them it would wait for ever.

When one is killed, Ray ends the process that uses it, after up to a minute and without a word to
the user.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NoReturn

import psutil

from tuner import process, ray_compat
from tuner.errors import ExperimentError, reason_of

_POLL_S = 0.5
_GRACE_S = 1.0  # for an error that says more, of a Ray that does not start

_advice: list[Callable[[], str]] = []


def watched() -> AbstractContextManager[None]:
    """Within it, the death of one of Ray's daemons is reported on stderr and ends this process.

    It ends as by a kill, with the exit code of an ExperimentError: nothing that asks Ray would
    return. To be left before Ray is shut down.
    """
    return process.running(_watch)


@contextmanager
def exit_advice(advice: Callable[[], str]) -> Iterator[None]:
    """Within it, the message with which `exit_process` ends has what `advice` returns, too."""
    _advice.append(advice)
    try:
        yield
    finally:
        _advice.remove(advice)


def _watch(over: threading.Event) -> None:
    names: dict[psutil.Process, str] = {}
    while not over.wait(_POLL_S):
        if len(names) < len(ray_compat.DAEMONS):  # listing reads every process of the machine
            names |= _daemons()
        dead = [name for daemon, name in names.items() if not _is_alive(daemon)]
        if dead and not over.wait(_GRACE_S):
            exit_process(f"Ray's {dead[0]} has died")


def _daemons() -> dict[psutil.Process, str]:
    """This process's children that Ray cannot do without, dead ones included, and their names."""
    daemons = {}
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended
            if (name := child.name()) in ray_compat.DAEMONS:
                daemons[child] = name
    return daemons


def _is_alive(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
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
                message += f"; what to do cannot be told: {reason_of(error)}"
        print(message, file=sys.stderr, flush=True)
    finally:
        os._exit(ExperimentError.exit_code)
