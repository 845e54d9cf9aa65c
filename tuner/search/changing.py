"""What a resume may change of an experiment's spec: what keeps the meaning of earlier reports.

A change is written into experiment.json before anything acts on it, and every later resume goes on
with it. The earlier values are kept beside it: a trial that was completed at an earlier length is
trained further.
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
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.text import with_values
from tuner.wording import program

_LENGTHS = ("scheduler.max_t", "training.epochs")
_SECTIONS = ("stop", "timeouts", "log")
_CHANGEABLE = (
    *_LENGTHS,
    *("num_samples", "max_concurrent", "time_budget_s", *_SECTIONS),
    *("resources.cpus", "resources.gpus", "training.data_dir"),
)


@dataclass(frozen=True, slots=True)
class Lengths:
    """The epochs of a whole trial `now`, and at each earlier length `before` a resume.

    None: trials have no such bound.
    """

    now: int | None = None
    before: frozenset[int] = frozenset()

    def reopens(self, trial: TrialRecord) -> bool:
        """Whether a trial that was completed at an earlier length is trained further.

        Not one that came to its own end, nor one without a checkpoint.
        """
        was_whole = trial.status == COMPLETED and trial.last_epoch in self.before
        return was_whole and not trial.done and bool(trial.checkpoints)


def lengths_of(document: Mapping[str, Any], spec: ExperimentSpec) -> Lengths:
    """The lengths of trials under `spec`, and before by the experiment.json `document`.

    Raises UsageError if that is damaged.
    """
    now = spec.epochs
    before = [change.epochs for change in changes_of(document, spec.name)]
    return Lengths(now, frozenset(n for n in before if n is not None and now and n < now))


def changed(
    document: Mapping[str, Any], changes: Mapping[str, Any], *, name: str
) -> dict[str, Any]:
    """The experiment.json `document` with `changes` made, by dotted path.

    A value that does not differ is no change. Raises SpecError with every change that a resume
    cannot make.
    """
    raw, source = document["spec"], f"the resume of {name}"
    new = {path: value for path, value in changes.items() if value_at(raw, path) != value}
    if not new:
        return dict(document)
    before = build_spec(raw, name)
    if faults := list(_faults(before, new, name)):
        raise SpecError(faults, source)
    spec = with_values(raw, new.items())
    if before.scheduler and "scheduler.max_t" in new:
        scheduler = before.scheduler.lengthened(new["scheduler.max_t"])
        spec["scheduler"] = scheduler.model_dump(mode="json")
    after = build_spec(spec, source)
    longer = [path for path in _LENGTHS if path in new]
    if longer and after.epochs == before.epochs:
        rule = f"makes no trial longer: {' and '.join(_LENGTHS)} both bound it"
        raise SpecError([Fault(longer[0], rule, new[longer[0]])], source)
    was = {path: value_at(raw, path) for path in new}
    made = [*changes_of(document, name), Change(was, new, before.epochs, time.time())]
    return {**document, "spec": spec, CHANGES: [change.as_dict() for change in made]}


def _faults(spec: ExperimentSpec, changes: Mapping[str, Any], name: str) -> Iterator[Fault]:
    for path, value in changes.items():
        if path in _LENGTHS:
            now = value_at(spec.plain(), path)
            if not isinstance(now, int):
                yield Fault(path, "cannot be set on a resume: trials had no such bound")
            elif type(value) is not int or value < now:
                yield Fault(path, f"can only grow on a resume, from {now}", value)
        elif path not in _CHANGEABLE and path.split(".")[0] not in _SECTIONS:
            like = f"{program()} run --like {shlex.quote(name)} {shlex.quote(f'{path}={value}')}"
            rule = f"cannot change on a resume; a new search that learns from this one: {like}"
            yield Fault(path, rule, None, _CHANGEABLE)
