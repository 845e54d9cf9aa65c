"""How much memory each trial took, and how fast it trained, as far as its reports tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from tuner.record.history import TrialRecord

IMAGES, PEAK = "images_per_s", "peak_memory_mib"  # what the trials report


@dataclass(frozen=True, slots=True)
class Throughput:
    """rates: trial_id -> the median over its epochs, in `unit`; at least one."""

    rates: Mapping[str, float]
    unit: str

    @property
    def median(self) -> float:
        """Of the trials' rates."""
        return median(self.rates.values())


def throughput_of(trials: Iterable[TrialRecord]) -> Throughput | None:
    """Images a second where trials report that, else epochs a minute; None without any epoch."""
    trials = list(trials)
    images = {t.trial_id: [v for _, v in t.values(IMAGES)] for t in trials}
    reported = {trial_id: median(values) for trial_id, values in images.items() if values}
    if reported:
        return Throughput(reported, "images a second")
    ran = (t for t in trials if t.last_epoch and t.duration_s)
    paces = {t.trial_id: t.last_epoch / t.duration_s * 60 for t in ran}
    return Throughput(paces, "epochs a minute") if paces else None


def memory_of(trials: Iterable[TrialRecord]) -> dict[str, float]:
    """trial_id -> the peak over its epochs, in MiB; only of the trials that reported one."""
    peaks = {t.trial_id: [v for _, v in t.values(PEAK)] for t in trials}
    return {trial_id: max(values) for trial_id, values in peaks.items() if values}
