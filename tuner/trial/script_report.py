"""`tuner.report`: how a script that a trial runs reports its metrics.

It imports neither Ray nor torch. The worker that runs the script listens at a Unix socket; a report
is one line of JSON, and its answer, one byte, comes when the script may go on.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from tuner.places import TRIAL_DIR

REPORTS = "TUNER_REPORTS"  # in the environment of a script: the socket


def report(metrics: Mapping[str, Any] | None = None, /, **named: Any) -> None:
    """Report the metrics of an epoch: tuner.report(val_loss=0.3), or a mapping of them.

    It returns when the search has recorded them, and what the script wrote to
    $TUNER_CHECKPOINT_DIR is the checkpoint of the epoch. If the search stops the trial, the script
    gets SIGTERM here. epoch: the number of the epoch, in the script's own counting; unless it is
    reported, epochs are counted by reports. done=True ends the trial.

    Outside of a search it does nothing, and neither on ranks other than 0 ($RANK). In a plain
    function that a search trains it is Ray's `tune.report`.
    """
    values = {**(metrics or {}), **named}
    path = os.environ.get(REPORTS)
    if path is None and TRIAL_DIR in os.environ:
        from ray import tune

        tune.report(json.loads(json.dumps(values, default=_plain)))
    if path is None or os.environ.get("RANK", "0") != "0":
        return
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(values, default=_plain).encode() + b"\n")
        connection.recv(1)


def _plain(value: Any) -> Any:
    """A number for a scalar of NumPy or torch."""
    return value.item() if getattr(value, "ndim", None) == 0 else str(value)
