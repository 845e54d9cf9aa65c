"""Accuracies with their intervals, beside their baseline: the share of the largest class.

experiment.json has `images` and `baseline` under "validation", a measured test split beside its
metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp, hypot, sqrt
from statistics import NormalDist
from typing import Any

from tuner.experiment.results.split_details import compute_macro_recall
from tuner.experiment.results.statistics import LEVEL, wilson
from tuner.wording import format_number

VALIDATION = "validation"  # in experiment.json
_LOSS_OF_A_MISTAKE = 0.25


@dataclass(frozen=True, slots=True)
class Accuracy:
    """An accuracy on `images` images. baseline: or None. among: how many it is the best of.

    default: that of trial 00000 on these images, if that has the default config and this one not.
    """

    metric: str
    value: float
    images: int
    baseline: float | None
    among: int = 1
    default: Accuracy | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % confidence, for the accuracy on further images of the same kind."""
        return wilson(self.value, self.images, among=self.among)

    @property
    def beats_baseline(self) -> bool | None:
        """Whether it is above the baseline beyond chance; None if unknown, or of one class."""
        return None if self.baseline in (None, 1) else self.interval[0] > self.baseline

    @property
    def note(self) -> str:
        """The baseline in words, or an empty text."""
        return (
            "" if self.baseline is None else f"baseline {format_number(self.baseline)}"
        )

    @property
    def warning(self) -> str:
        """That it does not beat the baseline, as a sentence; else an empty text."""
        if self.beats_baseline is not False:
            return ""
        low, high = map(format_number, self.interval)
        best = f", counted as the best of {self.among} trials" if self.among > 1 else ""
        return (
            f"{self.metric} {format_number(self.value)} does not beat the baseline beyond chance: "
            f"always naming the largest class gives {format_number(self.baseline)}, and the 95 % "
            f"interval over {self.images:,} images is {low} to {high}{best}."
        )

    @property
    def gain(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval (Stat. Med. 1998) for the gain over the default config."""
        if self.default is None:
            return None
        (low, high), (least, most) = self.interval, self.default.interval
        # On the same images: independent ones are assumed
        gain = self.value - self.default.value
        below = hypot(self.value - low, most - self.default.value)
        return gain - below, gain + hypot(high - self.value, self.default.value - least)

    @property
    def no_gain(self) -> str:
        """That it is no better than the default config, as a sentence; else an empty text."""
        if self.default is None or self.gain is None or self.gain[0] > 0:
            return ""
        low, high = map(format_number, self.gain)
        default = (
            f"the default config (trial 00000, {format_number(self.default.value)})"
        )
        return (
            f"{self.metric} {format_number(self.value)} is no better than {default} beyond "
            f"chance: the 95 % interval of the difference over {self.images:,} images is {low} to "
            f"{high}."
        )

    def as_dict(self) -> dict[str, Any]:
        shown = {
            "images": self.images,
            "baseline": self.baseline,
            f"{self.metric}_interval": list(self.interval),
            "beats_baseline": self.beats_baseline,
        }
        if self.default and self.gain and self.no_gain:
            # Else it may have trained for longer
            shown |= {"default": self.default.value, "gain_interval": list(self.gain)}
        return shown


def build_accuracy(
    metric: str, metrics: Mapping[str, Any], images: object, *, among: int = 1
) -> Accuracy | None:
    """The accuracy `metric`, or None if it or the images are unknown. images: untrusted."""
    value = _parse_share(metrics.get(metric))
    count, baseline = _read_images(images)
    if value is None or count is None:
        return None
    return Accuracy(metric, value, count, baseline, max(among, 1))


def estimate_interval(
    metric: str, estimate: float, images: object, *, level: float = LEVEL
) -> tuple[float, float] | None:
    """The interval in which the metric of further images lies, by its estimate on `images` images.

    Of a share that is called accuracy it is Wilson's. Of a cross entropy, `val_loss`, the losses of
    images are taken to spread as their mean and a quarter of an image's mistake: on a scale of
    logarithms, since losses are above 0 and a few images make most of them. None of other metrics,
    and where the number of images is unknown. `benchmarks.answers` measures how often it holds.
    """
    count, _ = _read_images(images)
    if count is None:
        return None
    if metric.endswith("accuracy") and 0 <= estimate <= 1:
        return wilson(estimate, count, level=level)
    if metric != "val_loss" or estimate <= 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    spread = (1 + _LOSS_OF_A_MISTAKE / estimate) / count + 1 / (count * estimate) ** 2
    reach = exp(z * sqrt(spread))
    return estimate / reach, estimate * reach


def count_candidates(counts: Mapping[str, int]) -> int:
    """How many trials the best one is the best of, by `Results.counts`."""
    return sum(counts.values()) - counts.get("failed", 0)


def build_test_accuracy(measured: Mapping[str, Any] | None) -> Accuracy | None:
    return build_accuracy("test_accuracy", measured or {}, measured)


def describe_test(measured: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What `evaluate` has measured, with what follows from it for --json."""
    accuracy = build_test_accuracy(measured)
    macro = compute_macro_recall(measured)
    if not measured or not accuracy:
        return measured
    uneven = {} if macro is None else {"macro_recall": macro}
    return {**measured, **accuracy.as_dict(), **uneven}


def collect_warnings(*accuracies: Accuracy | None) -> Iterator[str]:
    """The sentences on those that do not beat their baseline, or the default config."""
    known = [accuracy for accuracy in accuracies if accuracy]
    yield from filter(
        None, (text for each in known for text in (each.warning, each.no_gain))
    )


def _read_images(images: object) -> tuple[int | None, float | None]:
    """(number of images, baseline), each None if unknown."""
    counted: Mapping[str, Any] = images if isinstance(images, Mapping) else {}
    count = counted.get("images")
    is_count = type(count) is int and count > 0
    return count if is_count else None, _parse_share(counted.get("baseline"))


def _parse_share(value: object) -> float | None:
    """`value` if it is a number from 0 to 1; experiment.json may be someone else's."""
    return value if isinstance(value, int | float) and 0 <= value <= 1 else None
