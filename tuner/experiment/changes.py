"""What resumes change of an experiment's spec: what keeps the meaning of earlier reports.

A change is written into experiment.json before anything acts on it. The earlier values are kept
beside it: a trial that was completed at an earlier length is trained further.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from tuner.errors import Fault, SpecError, UsageError
from tuner.experiment.events import COMPLETED, Time
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.plain_values import find_value
from tuner.spec.settings import FaultsError
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import format_space
from tuner.wording import find_program

CHANGES = "changes"  # in experiment.json, oldest first
# What one resume changed, each from what it `was` to what it `is`, by dotted path. epochs: of a
# complete trial before, None without a bound
Change = TypedDict(
    "Change",
    {"time": Time, "was": dict[str, Any], "is": dict[str, Any], "epochs": int | None},
)

_LENGTHS = ("scheduler.max_t", "training.epochs")
_SPACE = "search.space"
_SECTIONS = ("stop", "timeouts", "log")
_CHANGEABLE = (
    *_LENGTHS,
    *("num_samples", "max_concurrent", "time_budget_s", *_SECTIONS),
    *("resources.cpus", "resources.gpus", "training.data_dir", f"{_SPACE}.NAME"),
)


def read_changes(document: Mapping[str, Any], name: str) -> list[Change]:
    """The changes in the experiment.json `document`, oldest first; UsageError if damaged."""
    changes: list[Change] = document.get(CHANGES, [])
    recorded = TypeAdapter(list[Change], config=ConfigDict(strict=True))
    is_valid = recorded.validator.isinstance_python(changes)
    if not is_valid or any(
        change["was"].keys() != change["is"].keys() for change in changes
    ):
        raise UsageError(f"experiment.json of {name} is damaged: `{CHANGES}`")
    return changes


def describe_changes(
    document: Mapping[str, Any], trials: Collection[TrialRecord], name: str
) -> list[dict[str, Any]]:
    """The changes as `show --json` has them: {time, after_epochs, was, is}.

    after_epochs: how many epochs all trials together had reported by then. Raises UsageError if the
    changes are damaged.
    """
    times = [report.time for trial in trials for report in trial.results]
    return [
        {
            "time": change["time"],
            "after_epochs": sum(time < change["time"] for time in times),
            "was": change["was"],
            "is": change["is"],
        }
        for change in read_changes(document, name)
    ]


@dataclass(frozen=True, slots=True)
class Lengths:
    """The epochs of a complete trial `now` and `before` each resume; None: it has no bound."""

    now: int | None = None
    before: frozenset[int] = frozenset()

    def should_reopen(self, trial: TrialRecord) -> bool:
        """Whether a trial that was completed at an earlier length is trained further.

        Not if it came to its natural end or has no checkpoint.
        """
        was_complete = trial.status == COMPLETED and trial.last_epoch in self.before
        return was_complete and not trial.done and bool(trial.checkpoints)


def find_lengths(document: Mapping[str, Any], spec: ExperimentSpec) -> Lengths:
    """The lengths of trials under `spec`, and earlier ones by the experiment.json `document`.

    Raises UsageError if that is damaged.
    """
    now = spec.epochs
    before = [change["epochs"] for change in read_changes(document, spec.name)]
    return Lengths(
        now, frozenset(n for n in before if n is not None and now and n < now)
    )


def has_grown(document: Mapping[str, Any], name: str) -> bool:
    """Whether a resume has widened the search space. Raises UsageError for damaged changes."""
    return any(
        map(
            _is_of_space,
            (path for c in read_changes(document, name) for path in c["is"]),
        )
    )


def apply_changes(
    document: Mapping[str, Any], changes: Mapping[str, Any], *, name: str
) -> dict[str, Any]:
    """The experiment.json `document` with `changes` made, by dotted path.

    Equal values are no changes. Raises SpecError with every change that a resume cannot make.
    """
    raw = document["spec"]
    source = f"the resume of {name}"
    new = {path: _encode_value(path, value) for path, value in changes.items()}
    new = {path: value for path, value in new.items() if find_value(raw, path) != value}
    if not new:
        return dict(document)
    from tuner.spec.space.encoding import check_superset  # numpy
    from tuner.spec.text import replace_values  # yaml

    before = build_spec(raw, name, recorded=True)
    if faults := list(_find_faults(before, new, name)):
        raise SpecError(faults, source)
    spec = replace_values(raw, new.items())
    if before.scheduler and "scheduler.max_t" in new:
        scheduler = before.scheduler.extend(new["scheduler.max_t"])
        spec["scheduler"] = scheduler.model_dump(mode="json")
    after = build_spec(spec, source)
    if lost := list(check_superset(before.search.space, after.search.space)):
        hint = _suggest_new_search(
            name, {path: value for path, value in new.items() if _is_of_space(path)}
        )
        raise SpecError(
            (replace(f.add_prefix(_SPACE), rule=f"{f.rule}; {hint}") for f in lost),
            source,
        )
    longer = [path for path in _LENGTHS if path in new]
    if longer and after.epochs == before.epochs:
        rule = f"makes no trial longer: {' and '.join(_LENGTHS)} both bound it"
        raise SpecError([Fault(longer[0], rule, new[longer[0]])], source)
    was = {path: find_value(raw, path) for path in new}
    change: Change = {
        "time": time.time(),
        "was": was,
        "is": new,
        "epochs": before.epochs,
    }
    return {**document, "spec": spec, CHANGES: [*read_changes(document, name), change]}


def _find_faults(
    spec: ExperimentSpec, changes: Mapping[str, Any], name: str
) -> Iterator[Fault]:
    for path, value in changes.items():
        if path in _LENGTHS:
            now = find_value(spec.dump_values(), path)
            if not isinstance(now, int):
                yield Fault(path, "cannot be set on a resume: trials had no such bound")
            elif type(value) is not int or value < now:
                yield Fault(path, f"can only grow on a resume, from {now}", value)
        elif _is_of_space(path) and getattr(spec.search, "seeds", None):
            yield Fault(
                path, "cannot grow on a resume where `search.seeds` repeats each config"
            )
        elif not (
            path in _CHANGEABLE or path.split(".")[0] in _SECTIONS or _is_of_space(path)
        ):
            rule = (
                f"cannot change on a resume; {_suggest_new_search(name, {path: value})}"
            )
            yield Fault(path, rule, None, _CHANGEABLE)


def _encode_value(path: str, value: Any) -> Any:
    """A domain's text as experiment.json has it; other values, and invalid ones, as they are."""
    if _is_of_space(path):
        with suppress(FaultsError):  # the spec refuses it with its path
            return format_space(parse_space({"value": value}))["value"]
    return value


def _is_of_space(path: str) -> bool:
    return path.startswith(f"{_SPACE}.")


def _suggest_new_search(name: str, changes: Mapping[str, Any]) -> str:
    assignments = (shlex.quote(f"{path}={value}") for path, value in changes.items())
    like = f"{find_program()} run --like {shlex.quote(name)} {' '.join(assignments)}"
    return f"a new search that learns from this one: {like}"
