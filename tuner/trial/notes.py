"""Notes on why a process ends, left for the driver: who is killed cannot say it any more.

A note is a file of our own Ray's folder for them, named by the process and the kind of its failure.
Where there is no such folder, as on a cluster that was joined, no note is left and none is found.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner.trial.failures import Failure

FOLDER = "TUNER_NOTES"  # in the environment of drivers and workers

_PID = re.compile(r"\bpid: (\d+)")


def write(folder: Path, pid: int, failure: Failure, *, not_before: float = 0.0) -> None:
    """Note that the process `pid` ends by `failure`, if it does so after `not_before`.

    not_before: as `time.monotonic` tells it, which all processes of a machine have in common.
    """
    told = {"kind": failure.kind, "message": failure.message, "not_before": not_before}
    (folder / f"{pid}-{failure.kind}").write_text(json.dumps(told))


@contextmanager
def unless_done(failure: Failure, in_s: float) -> Iterator[None]:
    """Within it, the end of this process is that `failure` once `in_s` seconds have passed."""
    if not (folder := os.environ.get(FOLDER)):
        yield
        return
    with suppress(OSError):  # a note is not worth a trial
        write(Path(folder), os.getpid(), failure, not_before=time.monotonic() + in_s)
    yield
    Path(folder, f"{os.getpid()}-{failure.kind}").unlink(missing_ok=True)


def of(death: str) -> Failure | None:
    """The failure that was noted of the process of whose death Ray says `death`; else None."""
    folder, pid = os.environ.get(FOLDER), _PID.search(death)
    if not folder or not pid:
        return None
    for path in sorted(Path(folder).glob(f"{pid[1]}-*")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(path.read_text())
            if time.monotonic() >= told["not_before"]:
                return Failure(told["kind"], told["message"])
    return None
