"""A thread that works beside a block of code, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def run_in_thread(watch: Callable[[threading.Event], object]) -> Iterator[None]:
    """Within it `watch` runs in a thread of its own; it is to return once its event is set."""
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
