"""A thread that watches something for as long as a context lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def running(watch: Callable[[threading.Event], object]) -> Iterator[None]:
    """Within it `watch` runs in a thread of its own; it is to return once its event is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
