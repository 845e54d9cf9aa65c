"""Lets a driver outside of a cluster take part: a node of its own, which offers nothing to trials.

A driver talks to a cluster through Ray's daemon on its own machine. Where there is none of that
cluster, one is started here, and ended with the driver.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.cluster import guard
from tuner.errors import UsageError
from tuner.wording import program

_STORE_BYTES = 100 << 20  # of the node's object store: the smallest round number that Ray takes
_START_S = 60.0
_LOOK_EVERY_S = 0.2
_SAID = 300  # characters of what Ray said that are told


def is_here(head: str) -> bool:
    """Whether a living node of the cluster at `head` is on this machine."""
    from ray._private.services import find_node_ids

    return bool(find_node_ids() & alive(head))


def alive(head: str) -> set[str]:
    """The ids of the cluster's living nodes."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]

    told = GcsClient(head).get_all_node_info(timeout=_START_S)
    living = GcsNodeInfo.GcsNodeState.ALIVE
    return {key.hex() for key, node in told.items() if node.state == living}


@contextmanager
def of(head: str, address: str, mark: str, temporary: str) -> Iterator[None]:
    """A node of the cluster at `head` on this machine, at `address`, for as long as it lasts.

    Its processes carry `mark` for the guard. Raises UsageError where it cannot take part: the
    cluster's nodes must reach it, too.
    """
    log = Path(temporary) / "outpost.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
                *("--address", head, "--node-ip-address", address),
                *("--num-cpus", "0", "--num-gpus", "0", "--disable-usage-stats"),
                *("--object-store-memory", str(_STORE_BYTES)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C in the terminal is for the driver alone
        )
    try:
        _await(process, head, address, log)
        yield
    finally:
        guard.end(mark, temporary)
        process.wait()


def _await(process: subprocess.Popen[bytes], head: str, address: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not is_here(head):
        if process.poll() is not None or time.monotonic() > deadline:
            said = " ".join(log.read_text(errors="replace").split())[-_SAID:]
            raise UsageError(
                f"this machine, {address}, cannot take part in the cluster at {head}: its nodes "
                f"must reach it, too. Send the search there as a job ({program()} submit), or "
                f"start it on one of the nodes. Ray said: {said}"
            )
        time.sleep(_LOOK_EVERY_S)
