"""Watches the daemons of the Ray that this process starts: without them it would wait for ever.

When one is killed, Ray ends the process that uses it, after up to a minute and without a word to
the user. It needs Linux's /proc; elsewhere nothing is watched.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from tuner import background
from tuner import ray_compat as ray_internals
from tuner.errors import ExperimentError

_LOOK_EVERY_S = 0.5
_GRACE_S = 1.0  # for an error that says more, of a Ray that does not start

_last_words: list[Callable[[], str]] = []


@contextmanager
def watched() -> Iterator[None]:
    """Within it, the death of Ray's daemons is told on stderr and is the end of this process.

    It ends as by a kill, with the exit code of an ExperimentError: nothing that asks Ray would
    return. To be left before Ray is shut down.
    """
    with background.running(partial(_watch, lambda daemon: give_up(f"Ray's {daemon} has died"))):
        yield


@contextmanager
def last_words(say: Callable[[], str]) -> Iterator[None]:
    """Within it, what `say` returns is added to the message."""
    _last_words.append(say)
    try:
        yield
    finally:
        _last_words.remove(say)


def _watch(on_death: Callable[[str], object], over: threading.Event) -> None:
    seen: dict[int, str] = {}
    while not over.wait(_LOOK_EVERY_S):
        alive, dead = _daemons()
        dead += [name for pid, name in seen.items() if pid not in alive]
        seen = alive
        if dead and not over.wait(_GRACE_S):
            on_death(dead[0])
            return


def _daemons() -> tuple[dict[int, str], list[str]]:
    """This process's children that Ray cannot do without: alive ones by pid, and dead ones."""
    alive, dead = {}, []
    for children in Path("/proc/self/task").glob("*/children"):
        try:
            pids = children.read_text().split()
        except OSError:
            continue  # a thread that has ended
        for pid in pids:
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            name, _, rest = stat.partition("(")[2].rpartition(")")
            if name not in ray_internals.DAEMONS:
                continue
            if rest.startswith(" Z"):  # nobody has asked how it ended
                dead.append(name)
            else:
                alive[int(pid)] = name
    return alive, dead


def give_up(what: str) -> NoReturn:
    """End this process as by a kill; `what` has happened is told, with what `last_words` adds."""
    words = "".join(f"; {say()}" for say in _last_words)
    told = f"error: {what}, and the search with it{words}"
    print(told, file=sys.stderr, flush=True)
    os._exit(ExperimentError.exit_code)
