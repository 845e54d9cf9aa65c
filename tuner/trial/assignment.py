"""What a trial is told: who it is, its config, and where it goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Assignment:
    """One trial, as it travels in Ray's config: its id, its config, and where to go on from.

    epoch: the last epoch that is done. checkpoint: {path, sha256} of that epoch's, None at the
    start. origin: why the config was chosen: grid, random, initial, model or warm (a
    model of an earlier experiment); None after a resume.
    seed: the trial's own; None where it is the experiment's.
    """

    trial_id: str
    config: dict[str, Any]
    epoch: int = 0
    checkpoint: dict[str, Any] | None = None
    origin: str | None = None
    seed: int | None = None
