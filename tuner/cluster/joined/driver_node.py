"""Lets a driver outside of a cluster take part: a node of its own, which offers nothing to trials.

A driver talks to a cluster through Ray's daemon on its own machine. Where there is none of that
cluster, one is started here, and ended with the driver.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tuner import ray_compat
from tuner.cluster import access, guard
from tuner.errors import UsageError
from tuner.wording import program

_START_S = 60.0
_STORE_BYTES = 100 << 20  # of the node's object store: the smallest round number that Ray takes
_POLL_S = 0.2
_SHOWN = 300  # characters of what Ray has said, in a message


@contextmanager
def driver_node(
    head: str,
    address: str,
    *,
    is_up: Callable[[str, float], bool] = ray_compat.has_node_here,
    ray: Sequence[str] = ray_compat.COMMAND,
    poll_s: float = _POLL_S,
) -> Iterator[None]:
    """A node of the cluster at `head` on this machine; where none `is_up`, one for this driver.

    address: this machine's, as the head sees it. ray: the command of that name. Raises UsageError
    where the node cannot take part: the cluster's nodes must reach it, too.
    """
    if is_up(head, _START_S):
        yield
        return
    mark, folder = guard.new_mark(), access.new_folder()
    log = Path(folder) / "node.log"
    with guard.start(mark, folder), access.environment({guard.MARK: mark}):
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    *(*ray, "start", "--block", "--address", head, "--node-ip-address", address),
                    *("--num-cpus", "0", "--num-gpus", "0", "--disable-usage-stats"),
                    *("--object-store-memory", str(_STORE_BYTES)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the terminal is for the driver alone
            )
        try:
            deadline = time.monotonic() + _START_S
            while not is_up(head, _START_S):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise UsageError(_refusal(head, address, log))
                time.sleep(poll_s)
            yield
        finally:
            guard.end(mark, folder)
            process.wait()


def _refusal(head: str, address: str, log: Path) -> str:
    output = " ".join(log.read_text(errors="replace").split())[-_SHOWN:]
    return (
        f"this machine, {address}, cannot take part in the cluster at {head}: its nodes must reach "
        f"it, too. Send the search there as a job ({program()} submit), or start it on one of the "
        f"nodes. Ray said: {output}"
    )
