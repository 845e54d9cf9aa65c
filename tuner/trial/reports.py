"""The check of a trainable's reports."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from numbers import Real
from typing import Any

from tuner.trial.failures import Failure, clip_message

DONE = "done"  # Ray Tune's key of a report that ends its trial
MOST_METRICS = 5_000  # in a report
LONGEST_NAME = 200  # characters of a metric's name
_LARGEST = 10**300  # the journal takes no whole number beyond a float's range

Checked = tuple[dict[str, float], list[str], Failure | None]


def check_report(
    report: object,
    metric: str,
    required: Collection[str] = (),
) -> Checked:
    """The metrics of `report` that can be recorded: (metrics, names left out, failure or None).

    The objective's `metric` must be a finite number, and so must the `required` ones. Other values
    that are not finite numbers are left out. Values of nested mappings are named "OUTER/INNER", as
    in Tune. Scalars of numpy and torch are numbers. The number of metrics and the length of their
    names are limited, so that each report fits into a line of the journal.
    """
    if not isinstance(report, Mapping):
        kind = type(report).__name__
        wrong = f"reported {kind}, not a mapping of metrics such as {{{metric!r}: 0.5}}"
        return _reject(wrong)
    flat = dict(islice(_flatten(report), MOST_METRICS + 1))
    if len(flat) > MOST_METRICS:
        return _reject(f"reported more than {MOST_METRICS:,} metrics")
    longest = max(flat, key=len, default="")
    if len(longest) > LONGEST_NAME:
        length = f"{len(longest):,} characters; it may have {LONGEST_NAME}"
        fault = f"reported a metric whose name has {length}: {longest[:60]}..."
        return _reject(fault)
    numbers = {name: _convert_number(value) for name, value in flat.items()}
    if metric not in numbers:
        names = ", ".join(sorted(numbers)) or "nothing"
        message = clip_message(f"did not report {metric!r}; it reported {names}")
        return _reject(message)
    value = numbers[metric]
    if value is None:
        message = f"{metric!r} is no number: {flat[metric]!r}"
        return _reject(message[:200])
    if not math.isfinite(value):
        return _reject(f"{metric!r} is {value}", "nan")
    metrics = {
        name: v for name, v in numbers.items() if v is not None and math.isfinite(v)
    }
    lacking = sorted(set(required) - metrics.keys())
    absent = [name for name in lacking if numbers.get(name) is None]
    if absent:
        first = absent[0]
        rule = f"did not report {first!r}, which the objective needs, as a number"
        names = ", ".join(metrics)
        reported = f"it reported {names}{_suggest_name(first, metrics)}"
        return _reject(clip_message(f"{rule}; {reported}"))
    if lacking:  # NaN: the config may be the reason
        first = lacking[0]
        return _reject(f"{first!r} is {numbers[first]}", "nan")
    return (
        metrics,
        [name for name in numbers if name not in metrics and name != DONE],
        None,
    )


def _reject(message: str, kind: str = "bad_report") -> Checked:
    return {}, [], Failure(kind, message)


def _suggest_name(part: str, metrics: Iterable[str]) -> str:
    """How a limit names a metric such as "val/acc", if only a `part` of its name was looked for."""
    path = part.replace(".", "/")
    names = (name for name in metrics if path in (name, *name.split("/")))
    name = next(names, None)
    if name is None:
        return ""
    return f"; in a limit write value({name!r})"


def is_last_report(report: object) -> bool:
    """Whether a report is its trial's last: its `done` is true. A number is a metric."""
    if not isinstance(report, Mapping):
        return False
    return _convert_scalar(report.get(DONE)) is True


def _flatten(report: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Ends for a mapping that contains itself, too: no name may be that long."""
    for name, value in report.items():
        if isinstance(value, Mapping) and len(prefix) <= LONGEST_NAME:
            yield from _flatten(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value


def _convert_scalar(value: Any) -> Any:
    """A scalar of numpy or torch as Python's."""
    if getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def _convert_number(value: Any) -> float | None:
    if not isinstance(value, Real):
        # numpy's are Real, and its integers are recorded as floats
        value = _convert_scalar(value)
    if isinstance(value, bool):
        return None
    if not isinstance(value, Real):
        return None
    if isinstance(value, int):
        if abs(value) <= _LARGEST:
            return int(value)
        if value > 0:
            return math.inf
        return -math.inf
    return float(value)
