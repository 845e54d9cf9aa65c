"""What a resume may change of an experiment's spec: what keeps the meaning of what was recorded.

A change is written into experiment.json, whole or not at all, before anything acts on it; every
later resume goes on with it. Beside the spec stands what it was: a trial that had been completed at
the length of before is trained further.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.errors import Fault, SpecError
from tuner.experiment.changes import CHANGES, Change, changes_of
from tuner.experiment.events import COMPLETED
from tuner.experiment.results.rows import value_at
from tuner.experiment.trials import TrialRecord
from tuner.settings import parse
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.schema import with_hints
from tuner.spec.text import with_values
from tuner.wording import program

_LONGER = ("scheduler.max_t", "training.epochs")
_FREE = (
    "num_samples",
    "max_concurrent",
    "time_budget_s",
    "stop",
    "timeouts",
    "log",
    "resources.cpus",
    "resources.gpus",
    "training.data_dir",
)
_WHY_NOT = {
    "search": "the trials' configs follow from it",
    "seed": "configs and weights follow from it",
    "warm_start": "configs follow from it",
    "objective": "trials were compared by it",
    "scheduler": "it decided which trials were stopped",
    "resources": "it decides how each batch is divided, and what a checkpoint holds",
    "trainable": "trials were trained with it",
    "training": "trials were trained with it",
}
_FLAGS = {
    "search.strategy": "--search",
    "scheduler.name": "--scheduler",
}  # with which settings of others go
_OF_THE_FOLDER = ("name", "storage")


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many epochs a whole trial has `now`, and had `before`, each time until a resume.

    None: trials have no such bound.
    """

    now: int | None = None
    before: frozenset[int] = frozenset()

    def reopens(self, trial: TrialRecord) -> bool:
        """Whether a trial that was completed at a length of before is to be trained further.

        Not one that came to its own end, nor one that has kept nothing to go on from.
        """
        was_whole = trial.status == COMPLETED and trial.last_epoch in self.before
        return was_whole and not trial.done and bool(trial.checkpoints)


def lengths_of(document: Mapping[str, Any], spec: ExperimentSpec) -> Lengths:
    """How long trials are under `spec`, and were before by the experiment.json `document`.

    Raises UsageError if that is damaged.
    """
    now = spec.epochs
    before = [change.epochs for change in changes_of(document, spec.name)]
    return Lengths(now, frozenset(n for n in before if n is not None and now and n < now))


def changed(
    document: Mapping[str, Any], changes: Mapping[str, Any], *, name: str
) -> dict[str, Any]:
    """The experiment.json `document` with `changes` made, by dotted path.

    What is as it is to be already counts as no change. Raises SpecError with every change that a
    resume cannot make, and which command can.
    """
    before = build_spec(document["spec"], name)
    after = with_values(document["spec"], changes.items())
    new = {
        path: value for path, value in changes.items() if value_at(document["spec"], path) != value
    }
    strangers = [fault for fault in parse(ExperimentSpec, after)[1] if fault.stranger]
    faults = with_hints(strangers) or [
        fault for path, value in new.items() for fault in _faults(before, path, value, name)
    ]
    longest = {path: value for path, value in new.items() if path in _LONGER}
    if not faults and longest:
        faults += _bounded(before, after, longest)
    if faults:
        raise SpecError(faults, f"the resume of {name}")
    if not new:
        return dict(document)
    if before.scheduler and "scheduler.max_t" in new:
        scheduler = before.scheduler.lengthened(new["scheduler.max_t"])
        after["scheduler"] = scheduler.model_dump(mode="json")
    was = {path: value_at(document["spec"], path) for path in new}
    made = [*changes_of(document, name), Change(was, new, before.epochs, time.time())]
    return {**document, "spec": after, CHANGES: [change.as_dict() for change in made]}


def _faults(spec: ExperimentSpec, path: str, value: object, name: str) -> Iterator[Fault]:
    """Why a resume cannot set `path` to `value`; nothing where it can."""
    section, choices = path.split(".")[0], (*_LONGER, *_FREE)
    if path in _LONGER:
        yield from _not_longer(spec, path, value)
    elif section == "notify":
        yield Fault(path, "is given anew by --notify")
    elif section in _OF_THE_FOLDER:
        rename = f"{program()} rename {shlex.quote(name)} NEW"
        yield Fault(path, f"is that of the folder: move it, or {rename}")
    elif path not in _FREE and section not in _FREE:
        reason = _WHY_NOT.get(section, "a resume goes on with what was recorded")
        other = f"{_FLAGS[path]} {value}" if path in _FLAGS else shlex.quote(f"{path}={value}")
        like = f"{program()} run --like {shlex.quote(name)} {other}"
        rule = f"cannot change on a resume: {reason}; a new search that learns from it: {like}"
        yield Fault(path, rule, None, choices)


def _not_longer(spec: ExperimentSpec, path: str, value: object) -> Iterator[Fault]:
    now = value_at(spec.plain(), path)
    if not isinstance(now, int):
        yield Fault(path, "cannot be set on a resume: trials had no such bound")
    elif not isinstance(value, int) or isinstance(value, bool) or value < now:
        yield Fault(path, f"can only grow on a resume, from {now}", value)


def _bounded(
    before: ExperimentSpec, after: Mapping[str, Any], longest: Mapping[str, Any]
) -> Iterator[Fault]:
    """That trials do not become longer, as the other bound stays."""
    bounds = {path: value_at(after, path) for path in _LONGER}
    known = {path: value for path, value in bounds.items() if isinstance(value, int)}
    if min(known.values()) == before.epochs:
        path, wanted = next(iter(longest.items()))
        other = next(path for path, value in known.items() if value == before.epochs)
        rule = f"makes no trial longer, as {other} is {before.epochs}: give {other}={wanted}, too"
        yield Fault(path, rule, wanted)
