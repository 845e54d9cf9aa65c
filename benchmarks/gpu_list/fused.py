"""The step of the list that fuses trials: see `benchmarks.fused_trials`."""

from __future__ import annotations

from benchmarks import fused_trials

ROUNDS = 5


def fused(device, dry):
    """Milliseconds of a step of several networks, one after the other and fused."""
    for what, result in fused_trials.rows(device, quick=dry, rounds=ROUNDS):
        yield f"{what}: ms one after the other; fused; times as fast", result
