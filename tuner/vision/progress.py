"""Progress on stderr: a bar in a terminal, else lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tuner.streams import create_console

if TYPE_CHECKING:
    from rich.progress import Progress

_LINE_EVERY_S = 4.0  # where there is no terminal for a bar


def build_progress_bar() -> Progress:
    """A progress bar on stderr, hidden unless that is a terminal."""
    from rich.progress import Progress

    console = create_console(sys.stderr)
    columns = Progress.get_default_columns()
    return Progress(*columns, console=console, disable=not console.is_terminal)


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Shows on stderr how much is done: a bar in a terminal, else lines as "WHAT: 640 of 1,970".

    Calling the result advances it.
    """
    done = 0
    shown = time.monotonic()
    with build_progress_bar() as bar:
        task = bar.add_task(what, total=total)

        def advance(count: int) -> None:
            nonlocal done, shown
            done += count
            bar.advance(task, count)
            now = time.monotonic()
            if bar.disable and now - shown >= _LINE_EVERY_S:
                shown = now
                print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

        yield advance
