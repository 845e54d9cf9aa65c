"""Means with their uncertainty, comparisons with the best, which allow for its choice; accuracies.

Accuracies stand beside their baseline, the share of the largest class: experiment.json has `images`
and `baseline` under "validation", a measured test split beside its metrics. The recall of each
class follows from a record's `confusion`: {"classes": names, "matrix": rows}, whose rows are true
classes, and columns predicted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb, exp, fsum, hypot, sqrt
from statistics import NormalDist
from typing import Any

from tuner.wording import clean_text, format_number, format_rows

LEVEL = 0.95  # of every interval
VALIDATION = "validation"  # in experiment.json
CONFUSION = "confusion"
MISTAKES = "mistakes"
DOUBTFUL_LABELS = "doubtful_labels"
DOUBTFUL_SHARE = "doubtful_share"
LEARNING_CURVE = "learning_curve"
# What a record may have beside metrics
DETAILS: dict[str, type] = {
    CONFUSION: dict,
    MISTAKES: list,
    DOUBTFUL_LABELS: list,
    DOUBTFUL_SHARE: float,
    LEARNING_CURVE: list,
}
MOST = 100  # classes of a matrix that is recorded
UNEVEN = 3.0  # times as many images in the largest class as in the smallest
_SHOWN = 20  # classes in a text
_LOSS_OF_A_MISTAKE = 0.25
_LEAST_DOUBTFUL = 0.25  # of the labels for which heads name another class


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `n` values, and how far it can be trusted.

    sd: of the values (n - 1). low, high: a 95 % interval (Student's) for the mean. None if n is 1.
    """

    n: int
    mean: float
    sd: float | None = None
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_settled(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def compute_mean(
    values: Sequence[float], *, level: float = (1 + LEVEL) / 2, least_sd: float = 0.0
) -> Mean:
    """The mean of `values`, at least one, all finite.

    level: of the interval's upper bound. least_sd: replaces the standard deviation of values that
    are all the same.
    """
    from scipy.special import stdtrit

    n = len(values)
    mean = fsum(values) / n
    if n == 1:
        return Mean(n, mean)
    sd = sqrt(fsum((value - mean) ** 2 for value in values) / (n - 1))
    sd = sd if sd > least_sd / 1e6 else least_sd
    error = sd / sqrt(n)
    reach = float(stdtrit(n - 1, level)) * error
    return Mean(n, mean, sd, error, mean - reach, mean + reach)


def compute_differences(
    others: Sequence[Mapping[int, float]], best: Mapping[int, float]
) -> list[Mean | None]:
    """The differences of each of `others` from `best`, paired by key; None without a shared key.

    best: the group with the best mean. The intervals are paired t-intervals at Bonferroni's level
    for all pairs of groups, so that all of them hold in 95 % of cases or more. Each uses the spread
    of its pair alone: a pooled one would separate too many groups whose variances differ.
    """
    groups = [values for values in (best, *others) if values]
    level = 1 - (1 - LEVEL) / 2 / max(comb(len(groups), 2), 1)
    # Values of few digits, as accuracies are, often differ by the same with every one of few keys
    ordered = [sorted(set(values.values())) for values in groups]
    resolution = min((b - a for values in ordered for a, b in pairwise(values)), default=0.0)
    least_sd = resolution / sqrt(6)  # of rounding to it
    pairs = [[values[key] - best[key] for key in values if key in best] for values in others]
    return [compute_mean(pair, level=level, least_sd=least_sd) if pair else None for pair in pairs]


def wilson(share: float, n: int, *, among: int = 1, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's score interval (JASA 1927), of 95 % by default, for a `share` of `n` cases.

    among: how many shares this is the best of, by Sidak's level (JASA 1967).

    >>> [round(bound, 4) for bound in wilson(0.4, 50)]
    [0.2761, 0.5382]
    """
    z = NormalDist().inv_cdf((1 + level ** (1 / among)) / 2)
    centre = share + z**2 / (2 * n)
    weight = 1 + z**2 / n
    reach = z * sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, (centre - reach) / weight), min(1.0, (centre + reach) / weight)


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
        return "" if self.baseline is None else f"baseline {format_number(self.baseline)}"

    @property
    def warning(self) -> str:
        """That it does not beat the baseline, as a sentence; else an empty text."""
        if self.beats_baseline is not False:
            return ""
        low, high = map(format_number, self.interval)
        best = f", counted as the best of {self.among} trials" if self.among > 1 else ""
        return (
            f"{self.metric} {format_number(self.value)} does not beat the baseline beyond chance: "
            "always "
            f"naming the largest class gives {format_number(self.baseline)}, and the 95 % interval "
            "over "
            f"{self.images:,} images is {low} to {high}{best}."
        )

    @property
    def gain(self) -> tuple[float, float] | None:
        """Newcombe's 95 % interval (Stat. Med. 1998) for the gain over the default config."""
        if self.default is None:
            return None
        (low, high), (least, most) = self.interval, self.default.interval
        gain = self.value - self.default.value  # on the same images: independent ones are assumed
        below = hypot(self.value - low, most - self.default.value)
        return gain - below, gain + hypot(high - self.value, self.default.value - least)

    @property
    def no_gain(self) -> str:
        """That it is no better than the default config, as a sentence; else an empty text."""
        if self.default is None or self.gain is None or self.gain[0] > 0:
            return ""
        low, high = map(format_number, self.gain)
        default = f"the default config (trial 00000, {format_number(self.default.value)})"
        return (
            f"{self.metric} {format_number(self.value)} is no better than {default} beyond chance: "
            "the "
            f"95 % interval of the difference over {self.images:,} images is {low} to {high}."
        )

    def as_dict(self) -> dict[str, Any]:
        shown = {
            "images": self.images,
            "baseline": self.baseline,
            f"{self.metric}_interval": list(self.interval),
            "beats_baseline": self.beats_baseline,
        }
        if self.default and self.gain and self.no_gain:  # else it may have trained for longer
            shown |= {"default": self.default.value, "gain_interval": list(self.gain)}
        return shown


def build_accuracy(
    metric: str, metrics: Mapping[str, Any], images: object, *, among: int = 1
) -> Accuracy | None:
    """The accuracy `metric`, or None if it or the images are unknown. images: untrusted."""
    counted: Mapping[str, Any] = images if isinstance(images, Mapping) else {}
    value = _parse_share(metrics.get(metric))
    count = counted.get("images")
    if value is None or type(count) is not int or count < 1:
        return None
    return Accuracy(metric, value, count, _parse_share(counted.get("baseline")), max(among, 1))


def estimate_interval(
    metric: str, estimate: float, images: object, *, level: float = LEVEL
) -> tuple[float, float] | None:
    """The interval in which the metric of further images lies, by its estimate on `images` images.

    Of a share that is called accuracy it is Wilson's. Of a cross entropy, `val_loss`, the losses of
    images are taken to spread as their mean and a quarter of an image's mistake: on a scale of
    logarithms, since losses are above 0 and a few images make most of them. None of other metrics,
    and where the number of images is unknown. `benchmarks.answers` measures how often it holds.
    """
    counted: Mapping[str, Any] = images if isinstance(images, Mapping) else {}
    count = counted.get("images")
    if type(count) is not int or count < 1:
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
    yield from filter(None, (text for each in known for text in (each.warning, each.no_gain)))


def _parse_share(value: object) -> float | None:
    """`value` if it is a number from 0 to 1; experiment.json may be someone else's."""
    return value if isinstance(value, int | float) and 0 <= value <= 1 else None


@dataclass(frozen=True, slots=True)
class ClassRecall:
    """How many of a class's `images` are `right`; `mistaken` of them are taken for `other`."""

    name: str
    images: int
    right: int
    other: str
    mistaken: int

    @property
    def recall(self) -> float:
        return self.right / self.images

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % confidence (Wilson), for the recall on further images of the class."""
        return wilson(self.recall, self.images)


def read_confusion(measured: Mapping[str, Any] | None) -> tuple[list[str], list[list[int]]] | None:
    """(names, matrix) of a record, which may be someone else's; None if it has no valid one."""
    match (measured or {}).get(CONFUSION):
        case {"classes": list(names), "matrix": list(matrix)} if len(names) == len(matrix):
            are_rows = all(isinstance(row, list) and len(row) == len(names) for row in matrix)
            if are_rows and all(type(n) is int and n >= 0 for row in matrix for n in row):
                return [*map(str, names)], matrix
    return None


def compute_class_recalls(measured: Mapping[str, Any] | None) -> list[ClassRecall]:
    """Of each class with images in the record, the least recall first."""
    if (confusion := read_confusion(measured)) is None:
        return []
    names, matrix = confusion
    rows = []
    for true, (name, row) in enumerate(zip(names, matrix, strict=True)):
        others = [(count, -other) for other, count in enumerate(row) if other != true]
        mistaken, other = max(others, default=(0, 0))
        if sum(row):
            rows.append(ClassRecall(name, sum(row), row[true], names[-other], mistaken))
    return sorted(rows, key=lambda row: row.recall)


def compute_macro_recall(measured: Mapping[str, Any] | None) -> float | None:
    """The mean of the recalls of a record's classes, or None where these are even or unknown.

    The accuracy of uneven classes is nearly that of the largest ones.
    """
    rows = compute_class_recalls(measured)
    sizes = [row.images for row in rows]
    if len(rows) < 2 or max(sizes) <= UNEVEN * min(sizes):
        return None
    return fsum(row.recall for row in rows) / len(rows)


CLASS_HEAD = ["class", "recall", "95 % interval", "images", "most frequent mistake"]


def build_class_table(measured: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """The recall of each class with its interval as rows of text, the least recall first."""
    return [
        (
            clean_text(row.name),
            f"{row.recall:.2f}",
            "{:.2f} to {:.2f}".format(*row.interval),
            f"{row.images:,}",
            f"{row.mistaken:,} taken for {clean_text(row.other)}" if row.mistaken else "",
        )
        for row in compute_class_recalls(measured)
    ]


def format_class_recalls(measured: Mapping[str, Any] | None) -> Iterator[str]:
    """The recall of each class as aligned text, the least recall first."""
    rows = build_class_table(measured)
    yield from format_rows(
        [
            (name, recall, f"({interval})", f"of {images}", mistaken)
            for name, recall, interval, images, mistaken in rows[:_SHOWN]
        ]
    )
    if len(rows) > _SHOWN:
        yield f"and {len(rows) - _SHOWN} classes with a greater recall"


def count_doubtful_pairs(measured: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """("label / likelier class", how many labels of a record are doubtful so), the most first.

    Empty where the heads that judge are seldom sure of another class than the label: they rather
    show which classes look alike. A record may be someone else's.
    """
    record = measured or {}
    entries = record.get(DOUBTFUL_LABELS)
    if not isinstance(entries, list) or record.get(DOUBTFUL_SHARE, 1.0) < _LEAST_DOUBTFUL:
        return []
    listed = [entry for entry in entries if isinstance(entry, dict)]
    return Counter(f"{e.get('label')} / {e.get('suggested')}" for e in listed).most_common()
