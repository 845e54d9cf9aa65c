"""Warm start: a searcher is given the finished trials of an earlier experiment.

They are told by their values at each epoch, as the search's own are, so one that was stopped early
counts at the epochs that it came to. What was given is kept in the new experiment's folder: a
resume reads it there, wherever the earlier experiment has gone.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.errors import Fault, SpecError, UsageError
from tuner.record.events import COMPLETED, FAILED, STOPPED
from tuner.record.folder import find_experiment, read_json, write_document
from tuner.record.history import TrialRecord
from tuner.record.remote import mirror
from tuner.results.results import Results
from tuner.settings_base import FaultsError
from tuner.space.domains import Domain, Value
from tuner.space.encoding import Encoding
from tuner.spec.experiment import ExperimentSpec, build_spec

GIVEN = mirror.WARM_START  # in the experiment's folder

_MOST_EPOCHS = 1_000_000  # of a trial: later reports are not given


@dataclass(frozen=True, slots=True)
class GivenTrial:
    """A finished trial: its config in the new space, and (epoch, value) of what it reported.

    failed: its config is one to avoid, whatever it reported.
    """

    trial_id: str
    config: dict[str, Value]
    values: tuple[tuple[int, float], ...]
    failed: bool


@dataclass(frozen=True, slots=True)
class Given:
    """The trials of the experiment `name` that are given, and in words what did not match."""

    name: str
    trials: tuple[GivenTrial, ...]
    notes: tuple[str, ...]


def given_to(spec: ExperimentSpec) -> Given | None:
    """What the earlier experiment has for the search of `spec`; None where it names none.

    A hyperparameter that is not searched any more is left out of the configs; one that is new has
    the value of the earlier experiment's constant of that name; a trial with a value outside of
    the present domains is left out. Each is told in the notes. Raises UsageError where there is no
    such experiment, SpecError where none of its finished trials matches.
    """
    if spec.warm_start is None:
        return None
    earlier = Results(find_experiment(spec.warm_start, spec.storage))
    before = build_spec(earlier.spec, str(earlier.folder))
    match = _Match(spec, before)
    trials = [match.taken(trial) for trial in earlier.trials.values() if _is_finished(trial)]
    given = tuple(trial for trial in trials if trial is not None)
    notes = tuple(match.notes())
    if not given:
        reasons = "".join(f"; {note}" for note in notes)
        rule = f"none of the {len(trials)} finished trials of {earlier.name} can be given{reasons}"
        raise SpecError([Fault("warm_start", rule)], "the spec")
    head = f"given {len(given)} of the {len(trials)} finished trials of {earlier.name}"
    return Given(earlier.name, given, (head, *notes))


def keep(spec: ExperimentSpec, given: Given) -> None:
    """Let the folder of `spec` have what its search is given."""
    write_document(spec.folder / GIVEN, asdict(given))


def kept(spec: ExperimentSpec) -> Given | None:
    """What the search of `spec` is given: as its folder has it, else from now on will.

    Raises UsageError for a file that is damaged, and what `given_to` does.
    """
    if spec.warm_start is None:
        return None
    path = spec.folder / GIVEN
    if not os.path.lexists(path) and (given := given_to(spec)):
        keep(spec, given)
    return _read(path, spec)


def _read(path: Path, spec: ExperimentSpec) -> Given | None:
    encoding = Encoding(spec.search.space)
    try:
        raw = read_json(path)
        trials = tuple(
            GivenTrial(
                str(trial["trial_id"]),
                dict(trial["config"]),
                tuple((int(epoch), float(value)) for epoch, value in trial["values"]),
                bool(trial["failed"]),
            )
            for trial in raw["trials"]
        )
        for trial in trials:
            encoding.encode(trial.config)
            if not all(map(_is_told, trial.values)):
                raise ValueError(f"an epoch or value of trial {trial.trial_id}")
        return Given(str(raw["name"]), trials, tuple(map(str, raw["notes"])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _is_told(report: tuple[int, float]) -> bool:
    """Whether a report can be given: a searcher has a list as long as the trial."""
    epoch, value = report
    return 0 < epoch <= _MOST_EPOCHS and math.isfinite(value)


def tell(strategy: Any, given: Given | None) -> None:
    """Give the trials, if there are any, to a strategy that learns, before its first suggestion."""
    for trial in given.trials if given else ():
        values = dict(trial.values)
        epochs = range(1, max(values, default=0) + 1)
        strategy.add_evaluated_point(
            trial.config,
            math.nan,
            error=trial.failed,
            pruned=True,  # so that it counts at its epochs, however long trials are here
            intermediate_values=[values.get(epoch, math.nan) for epoch in epochs],
        )


def _is_finished(trial: TrialRecord) -> bool:
    lost = trial.error is not None and trial.error.kind == "node_lost"
    return trial.status in (COMPLETED, STOPPED, FAILED) and not lost


class _Match:
    """Turns an earlier experiment's configs into those of a spec's space, noting what differs."""

    def __init__(self, spec: ExperimentSpec, before: ExperimentSpec) -> None:
        self._spec, self._before = spec, before
        self._space = spec.search.space
        self._encoding = Encoding(self._space)
        self._outside: Counter[str] = Counter()  # hyperparameter -> trials that it ruled out
        self._silent = 0

    def taken(self, trial: TrialRecord) -> GivenTrial | None:
        """The trial as it is given; None where it does not match."""
        values = tuple(filter(_is_told, trial.values(self._spec.objective.metric)))
        failed = trial.status == FAILED
        if not values and not failed:
            self._silent += 1
            return None
        known = {**self._before.training, **trial.config}
        config = {
            name: known[name] if _is_searched(domain) else domain
            for name, domain in self._space.items()
            if name in known or not _is_searched(domain)
        }
        try:
            self._encoding.encode(config)
        except FaultsError as error:
            self._outside.update({fault.key for fault in error.faults})
            return None
        return GivenTrial(trial.trial_id, config, values, failed)

    def notes(self) -> list[str]:
        """What did not match, a line for each hyperparameter and constant."""
        return [*self._of_names(), *self._of_trials(), *self._of_constants()]

    def _of_names(self) -> list[str]:
        before = self._before.search.space
        old = {name for name, value in before.items() if _is_searched(value)}
        new = {name: value for name, value in self._space.items() if _is_searched(value)}
        gone = [
            f"{name}: is not searched here, its values are left out"
            for name in sorted(old - new.keys())
        ]
        known = {**self._before.training, **before}
        fresh = [name for name in new if name not in old]
        return gone + [
            f"{name}: was not searched there, its value was {known[name]!r}"
            if name in known
            else f"{name}: was not searched there, so its value is not known"
            for name in fresh
        ]

    def _of_trials(self) -> list[str]:
        notes = []
        for path, count in self._outside.items():
            name = path.split(".")[0]
            if name in {**self._before.training, **self._before.search.space}:
                trials = "1 trial lies" if count == 1 else f"{count} trials lie"
                notes.append(f"{path}: {trials} outside of {self._space[name]}, left out")
        if self._silent:
            metric = self._spec.objective.metric
            notes.append(f"{self._silent} without a value of {metric!r}, left out")
        return notes

    def _of_constants(self) -> list[str]:
        old, new = self._before.training, self._spec.training
        searched = {*self._before.search.space, *self._space}
        names = sorted((old.keys() | new.keys()) - searched)
        differing: dict[str, tuple[object, object]] = {
            f"training.{name}": (old.get(name, "the default"), new.get(name, "the default"))
            for name in names
        }
        differing |= {
            "trainable": (self._before.trainable, self._spec.trainable),
            "epochs of a trial": (self._before.epochs, self._spec.epochs),
        }
        return [
            f"{name}: was {was!r}, is {now!r}"
            for name, (was, now) in differing.items()
            if was != now
        ]


def _is_searched(value: Value) -> bool:
    """Whether a value of a space varies, itself or within."""
    if isinstance(value, Mapping):
        return any(map(_is_searched, value.values()))
    return isinstance(value, Domain)
