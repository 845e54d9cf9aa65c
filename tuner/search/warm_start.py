"""Warm start: learn from an earlier experiment's finished trials, or skip tried configs.

The trials are saved in the new experiment's folder.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, TypeAdapter

from tuner.errors import Fault, SpecError, UsageError, translate_error
from tuner.experiment.events import COMPLETED, FAILED, STOPPED
from tuner.experiment.files import WARM_START, read_json
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.experiment.storage import find_experiment
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plain_values import flat
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Domain, Value
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.spaces import config_key, walk
from tuner.spec.strategies import GridSettings, SearchSettings
from tuner.wording import amount_of

_MAX_EPOCHS = 1_000_000  # of a trial: later reports are left out
_Epoch = Annotated[int, Field(gt=0, le=_MAX_EPOCHS)]
MOST_VALUES = 3_000_000  # of a saved warm start: a million reports have about as many


@dataclass(frozen=True, slots=True)
class WarmTrial:
    """A finished trial in the new space. values: (epoch, value). failed: avoid its config.

    tried: it would be trained the same here, so a search that does not learn skips it.
    """

    trial_id: str
    config: dict[str, Value]
    values: tuple[tuple[_Epoch, FiniteFloat], ...]
    failed: bool
    tried: bool = False


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The trials of the experiment `name` to learn from, and notes on what did not match."""

    name: str
    trials: tuple[WarmTrial, ...]
    notes: tuple[str, ...]

    def save(self, folder: Path) -> None:
        """Write it into an experiment's folder."""
        ExperimentFolder(folder).write(WARM_START, asdict(self))

    def left_out(self, search: SearchSettings) -> int:
        """How many configs a `search` that does not learn skips."""
        if not search.skips:
            return 0
        tried = {config_key(t.config): t.config for t in self.trials if t.tried}
        return sum(map(search.gives, tried.values()))

    def add_to(self, strategy: Any) -> None:
        """Add the trials to a strategy, before its first suggestion."""
        if skip := getattr(strategy, "skip", None):
            skip(trial.config for trial in self.trials if trial.tried)
            return
        for trial in self.trials:
            values = dict(trial.values)
            epochs = range(1, max(values, default=0) + 1)
            strategy.add_evaluated_point(
                trial.config,
                math.nan,
                error=trial.failed,
                pruned=True,  # so that it counts at its epochs, not as a complete trial
                intermediate_values=[values.get(epoch, math.nan) for epoch in epochs],
            )


def warm_start_of(spec: ExperimentSpec) -> WarmStart | None:
    """The warm start that `spec` names, or None.

    Values are translated by name, constants fill new hyperparameters, and trials outside of the
    domains are left out, as the notes say. Raises UsageError without such an experiment, SpecError
    if no trial matches or every config was tried.
    """
    if spec.warm_start is None:
        return None
    earlier = Results(find_experiment(spec.warm_start, spec.storage))
    match = _Match(spec, earlier.spec)
    finished = [
        trial
        for trial in earlier.trials.values()
        if trial.status in (COMPLETED, STOPPED, FAILED)
        and not (trial.error and trial.error.kind == "node_lost")
    ]
    trials = tuple(trial for trial in map(match.translated, finished) if trial is not None)
    notes, count = list(match.notes()), spec.search.trials(None)
    used, verb = (
        (sum(trial.tried for trial in trials), "are not tried again")
        if spec.search.skips
        else (len(trials), "are given")
    )
    notes.insert(0, f"{used} of the {len(finished)} finished trials of {earlier.name} {verb}")
    warm_start = WarmStart(earlier.name, trials, tuple(notes))
    if not spec.search.skips and not trials:
        rule = f"{'; '.join(notes)}; warm_start=null begins without them"
        raise SpecError([Fault("warm_start", rule)], "the spec")
    if spec.search.skips and count is not None and count <= warm_start.left_out(spec.search):
        rule = f"all {count} configs were tried in {earlier.name}; warm_start=null tries again"
        raise SpecError([Fault("warm_start", rule)], "the spec")
    return warm_start


def load_warm_start(spec: ExperimentSpec) -> WarmStart | None:
    """The warm start in the folder of `spec`, created if missing. Raises UsageError for a damaged
    file, and as `warm_start_of`.
    """
    if spec.warm_start is None:
        return None
    path = spec.folder / WARM_START
    if not os.path.lexists(path) and (made := warm_start_of(spec)):
        made.save(spec.folder)
    encoding = Encoding(spec.search.space)
    with translate_error(UsageError, f"{path} is damaged"):
        saved = TypeAdapter(WarmStart).validate_python(read_json(path, most=MOST_VALUES))
        for trial in saved.trials:
            encoding.encode(trial.config)
    return saved


class _Match:
    """Translates an earlier experiment's configs into a spec's space, noting what differs."""

    def __init__(self, spec: ExperimentSpec, before: ExperimentSpec) -> None:
        self._spec, self._before = spec, before
        self._space = spec.search.space
        self._encoding = Encoding(self._space)
        self._outside: Counter[str] = Counter()  # hyperparameter -> trials left out for it
        self._without_value = 0

    def translated(self, trial: TrialRecord) -> WarmTrial | None:
        """The trial in the new space; None if it does not match."""
        objective = self._spec.objective
        known = all(r.metrics.keys() >= set(objective.limited) for r in trial.results)
        reports = trial.values_within(objective) if known else trial.values(objective.metric)
        values = tuple(r for r in reports if 0 < r[0] <= _MAX_EPOCHS and math.isfinite(r[1]))
        failed = trial.status == FAILED or (known and trial.is_beyond(objective))
        if not values and not failed:
            self._without_value += 1
            return None
        values_by_name = {**self._before.training, **trial.config}
        config = {
            name: values_by_name[name] if _is_searched(domain) else domain
            for name, domain in self._space.items()
            if name in values_by_name or not _is_searched(domain)
        }
        try:
            self._encoding.encode(config)
        except FaultsError as error:
            self._outside.update({fault.key for fault in error.faults})
            return None
        tried = trial.status != FAILED and self._trains_alike(trial.config, config)
        return WarmTrial(trial.trial_id, config, values, failed, tried)

    def _trains_alike(self, old: Mapping[str, Value], new: Mapping[str, Value]) -> bool:
        """Whether a trial of `new` would be trained here as that of `old` was there."""
        spec, before = self._spec, self._before
        there = {**flat(before.training), **flat(old), "data_dir": None}
        here = {**flat(spec.training), **flat(new), "data_dir": None}
        same = (before.trainable, before.epochs) == (spec.trainable, spec.epochs)
        has_seeds = isinstance(spec.search, GridSettings) and spec.search.seeds
        return same and there == here and not has_seeds

    def notes(self) -> Iterator[str]:
        """A line for each hyperparameter and constant that did not match."""
        spec, before = self._spec, self._before
        old, new = (
            {name for name, value in space.items() if _is_searched(value)}
            for space in (before.search.space, self._space)
        )
        for name in sorted(old ^ new):
            yield f"{name}: {'is not searched here' if name in old else 'was not searched there'}"
        for path, count in self._outside.items():
            yield f"{path}: does not fit in {amount_of(count, 'trial')}, left out"
        if self._without_value:
            metric = spec.objective.metric
            yield f"{self._without_value} without a value of {metric!r}, left out"
        searched = {*before.search.space, *self._space}
        was, now = (
            {
                "trainable": each.trainable,
                "epochs of a trial": each.epochs,
                **{f"training.{n}": v for n, v in each.training.items() if n not in searched},
            }
            for each in (before, spec)
        )
        for name in {**was, **now}:
            old_value, value = (each.get(name, "the default") for each in (was, now))
            if old_value != value:
                yield f"{name}: was {old_value!r}, is {value!r}"


def _is_searched(value: Value) -> bool:
    """Whether a value of a space varies, itself or within."""
    return any(isinstance(inner, Domain) for _, inner in walk({"": value}))
