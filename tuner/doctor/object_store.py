"""Whether experiments can be written to an object store, and how fast."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from uuid import uuid4

from tuner.doctor.finding import Finding
from tuner.errors import UsageError
from tuner.record.remote.objects import Objects

_SLOW_MS = 1000


def check(url: str, times: int = 3) -> Iterator[Finding]:
    """Whether objects can be written, read and removed below `url`, and how fast."""
    name = f".tuner-doctor-{uuid4().hex}"
    took = []
    try:
        objects = Objects(url)
        for _ in range(times):
            data = os.urandom(4096)
            begin = time.perf_counter()
            objects.write(name, data)
            read = objects.read(name)
            took.append(1000 * (time.perf_counter() - begin))
            if read != data:
                raise OSError(0, "what is read is not what was just written")
        objects.remove(name)
    except UsageError as error:
        yield Finding("storage", "writable", str(error), "broken", "install what it names")
        return
    except OSError as error:
        advice = "give another storage, or what is needed to use it: a bucket, a key, an endpoint"
        yield Finding("storage", "writable", f"{url}: {error.strerror}", "broken", advice)
        return
    yield Finding("storage", "writable", url)
    latency = statistics.median(took)
    advice = "a bucket in the region of the machines: every epoch ends with a checkpoint there"
    slow = ("warning", advice) if latency > _SLOW_MS else ()
    yield Finding("storage", "latency", f"{latency:.0f} ms to write and read 4 KiB", *slow)
