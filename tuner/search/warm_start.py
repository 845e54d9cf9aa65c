"""Warm start: learn from finished trials of earlier experiments, or skip tried configs.

The trials are saved in the new experiment's folder. Several experiments are tasks of their own:
their best configs are tried first, as a portfolio.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, FiniteFloat, TypeAdapter

from tuner.errors import Fault, SpecError, TunerError, UsageError, translate_error
from tuner.experiment.estimate import build_curve
from tuner.experiment.events import ENDED, FAILED
from tuner.experiment.files import WARM_START, read_json
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.experiment.storage import find_experiment, find_experiment_folders
from tuner.experiment.trials import TrialRecord
from tuner.spec.experiment import COMPLETE_STORAGE, ExperimentSpec
from tuner.spec.plain_values import flatten
from tuner.spec.settings import MAX_COUNT, FaultsError
from tuner.spec.space.domains import Domain, Value
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.spaces import compute_config_key, walk
from tuner.spec.strategies import GridSettings, SearchSettings
from tuner.wording import format_amount, join_names

_MAX_EPOCHS = 1_000_000  # of a trial: later reports are left out
_Epoch = Annotated[int, Field(gt=0, le=_MAX_EPOCHS)]
MOST_VALUES = 3_000_000  # of a saved warm start: a million reports have about as many
_FIRST = 8  # configs of a portfolio at most, and a quarter of the trials


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
    """The trials of the experiment `name` to learn from, and notes on what did not match.

    portfolio: of several experiments, the configs to try first, else None. Their trials are then
    those that would be trained the same here.
    """

    name: str
    trials: tuple[WarmTrial, ...]
    notes: tuple[str, ...]
    portfolio: tuple[dict[str, Value], ...] | None = None

    def save(self, folder: Path) -> None:
        values = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        ExperimentFolder(folder).write(WARM_START, values)

    def count_skipped(self, search: SearchSettings) -> int:
        """How many configs a `search` that does not learn skips."""
        if not search.skips:
            return 0
        tried = {compute_config_key(t.config): t.config for t in self.trials if t.tried}
        return sum(map(search.can_suggest, tried.values()))

    def apply(self, strategy: Any) -> None:
        """Add the trials to a strategy, before its first suggestion."""
        if skip := getattr(strategy, "skip", None):
            skip(trial.config for trial in self.trials if trial.tried)
        if self.portfolio:
            strategy.queue_configs(self.portfolio)
        if skip:
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


def build_warm_start(spec: ExperimentSpec) -> WarmStart | None:
    """The warm start that `spec` names, or None.

    Values are translated by name, constants fill new hyperparameters, and trials outside of the
    domains are left out, as the notes say. Raises UsageError without such an experiment, SpecError
    if no trial matches or every config was tried.
    """
    if spec.warm_start is None:
        return None
    if isinstance(spec.warm_start, str) and spec.warm_start != COMPLETE_STORAGE:
        results = Results(find_experiment(spec.warm_start, spec.storage))
        match = _Match(spec, results.spec)
        trials, count = match.match_trials(results)
        used = len(trials)
        verb = "are given"
        if spec.search.skips:
            used = sum(trial.tried for trial in trials)
            verb = "are not tried again"
        note = f"{used} of the {count} finished trials of {results.name} {verb}"
        warm_start = WarmStart(
            results.name, trials, (note, *match.describe_mismatches())
        )
        matches = bool(trials)
    else:
        warm_start, matches = _merge_experiments(spec)
    if not matches and (not spec.search.skips or warm_start.portfolio is not None):
        rule = f"{'; '.join(warm_start.notes)}; warm_start=null begins without them"
        raise SpecError([Fault("warm_start", rule)], "the spec")
    configs = spec.search.trials(None)
    if (
        spec.search.skips
        and configs is not None
        and configs <= warm_start.count_skipped(spec.search)
    ):
        name = warm_start.name
        rule = (
            f"all {configs} configs were tried in {name}; warm_start=null tries again"
        )
        raise SpecError([Fault("warm_start", rule)], "the spec")
    return warm_start


def _merge_experiments(spec: ExperimentSpec) -> tuple[WarmStart, bool]:
    """The warm start of several experiments, and whether a search can begin with it.

    Trials that would be trained the same here count as this search's. Of the other trials the best
    of each experiment may be in the portfolio.
    """
    sources: dict[Path, list[tuple[dict[str, Value], float | None]]] = {}
    tried: tuple[WarmTrial, ...] = ()
    notes: list[str] = []
    for folder in _list_folders(spec):
        try:
            results = Results(folder)
            match = _Match(spec, results.spec, fills=True)
            trials, count = match.match_trials(results)
        except TunerError as error:
            notes.append(f"{folder.name}: left out, {error}")
            continue
        used = f"{folder.name}: {len(trials)} of the {count} finished trials match"
        notes.append("; ".join([used, *match.describe_changes()]))
        objective = spec.objective.model_copy(
            update={"choose": results.objective.choose}
        )
        scored = [
            (trial.config, build_curve(trial.values, objective).estimate)
            for trial in trials
            if trial.values and not trial.failed
        ]
        if scored:
            sources[folder] = scored
            tried += tuple(trial for trial in trials if trial.tried)
    if tried:
        verb = (
            "are not tried again"
            if spec.search.skips
            else "count as trials of this search"
        )
        notes.insert(0, f"{format_amount(len(tried), 'trial')} of the same task {verb}")
    portfolio: tuple[dict[str, Value], ...] = ()
    if not isinstance(spec.search, GridSettings):
        from tuner.search.searchers._portfolio import order_leaders  # scipy

        here = {compute_config_key(trial.config) for trial in tried}
        size = min(
            _FIRST, math.ceil((spec.search.trials(spec.num_samples) or MAX_COUNT) / 4)
        )
        leaders = order_leaders(
            sources.values(),
            Encoding(spec.search.space),
            offers=lambda config: (
                compute_config_key(config) not in here
                and spec.search.can_suggest(config)
            ),
        )
        portfolio = tuple(leaders[:size])
        if portfolio or not tried:
            first = f"{format_amount(len(portfolio), 'config')} of"
            notes.insert(
                0,
                f"{first} {format_amount(len(sources), 'experiment')} begin the search",
            )
    names = (
        join_names([folder.name for folder in sources]) if sources else COMPLETE_STORAGE
    )
    warm_start = WarmStart(names, tried, tuple(notes), portfolio)
    return warm_start, bool(sources) or spec.warm_start == COMPLETE_STORAGE


def _list_folders(spec: ExperimentSpec) -> Iterable[Path]:
    """The earlier experiments that `spec` names, each once."""
    folders: dict[Path, None] = {}
    for name in (
        [spec.warm_start] if isinstance(spec.warm_start, str) else spec.warm_start or ()
    ):
        if name == COMPLETE_STORAGE:
            others = set(find_experiment_folders(spec.storage)) - {spec.folder}
            folders |= dict.fromkeys(sorted(others))
        else:
            folders[find_experiment(name, spec.storage)] = None
    return folders


def load_warm_start(spec: ExperimentSpec) -> WarmStart | None:
    """The warm start in the folder of `spec`, created if missing. Raises UsageError for a damaged
    file, and as `build_warm_start`.
    """
    if spec.warm_start is None:
        return None
    path = spec.folder / WARM_START
    if not os.path.lexists(path) and (made := build_warm_start(spec)):
        made.save(spec.folder)
    encoding = Encoding(spec.search.space)
    with translate_error(UsageError, f"{path} is damaged"):
        saved = TypeAdapter(WarmStart).validate_python(
            read_json(path, most=MOST_VALUES)
        )
        for config in (
            *(trial.config for trial in saved.trials),
            *(saved.portfolio or ()),
        ):
            encoding.encode(config)
    return saved


class _Match:
    """Translates an earlier experiment's configs into a spec's space, noting what differs.

    fills: a hyperparameter that it lacks gets the middle of its domain.
    """

    def __init__(
        self, spec: ExperimentSpec, before: ExperimentSpec, *, fills: bool = False
    ) -> None:
        self._spec = spec
        self._before = before
        self._fills = fills
        self._space = spec.search.space
        self._encoding = Encoding(self._space)
        # Hyperparameter -> trials left out for it
        self._outside: Counter[str] = Counter()
        self._filled: dict[str, None] = {}  # hyperparameters, in order
        self._without_value = 0

    def match_trials(self, results: Results) -> tuple[tuple[WarmTrial, ...], int]:
        """The finished trials that match, and how many have finished."""
        finished = [
            trial
            for trial in results.trials.values()
            if trial.status in ENDED
            and not (trial.error and trial.error.kind == "node_lost")
        ]
        matches = tuple(
            trial for trial in map(self._translate_trial, finished) if trial is not None
        )
        return matches, len(finished)

    def _translate_trial(self, trial: TrialRecord) -> WarmTrial | None:
        """The trial in the new space; None if it does not match."""
        objective = self._spec.objective
        known = all(r.metrics.keys() >= set(objective.limited) for r in trial.results)
        every_epoch = objective.model_copy(update={"from_epoch": None})
        reports = (
            trial.list_counted_values(every_epoch)
            if known
            else trial.list_values(objective.metric)
        )
        values = tuple(
            r for r in reports if 0 < r[0] <= _MAX_EPOCHS and math.isfinite(r[1])
        )
        failed = trial.status == FAILED or (known and trial.is_beyond(every_epoch))
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
            if self._fills and any(
                map(_is_searched, map(self._space.get, trial.config))
            ):
                self._filled |= dict.fromkeys(
                    name for name in self._space if name not in config
                )
                centre_D = np.full(len(self._encoding), 0.5)
                config = self._encoding.complete(config, centre_D)
            self._encoding.encode(config)
        except FaultsError as error:
            self._outside.update(
                dict.fromkeys((fault.key for fault in error.faults), 1)
            )
            return None
        tried = trial.status != FAILED and self._is_same_training(trial.config, config)
        return WarmTrial(trial.trial_id, config, values, failed, tried)

    def _is_same_training(
        self, old: Mapping[str, Value], new: Mapping[str, Value]
    ) -> bool:
        """Whether a trial of `new` would be trained here as that of `old` was there."""
        spec = self._spec
        before = self._before
        there = {**flatten(before.training), **flatten(old), "data_dir": None}
        here = {**flatten(spec.training), **flatten(new), "data_dir": None}
        same = (before.trainable, before.epochs) == (spec.trainable, spec.epochs)
        has_seeds = isinstance(spec.search, GridSettings) and spec.search.seeds
        return same and there == here and not has_seeds

    def describe_changes(self) -> Iterator[str]:
        """A line for each reason to leave trials out, and each value that was filled in."""
        for name in self._filled:
            yield f"{name}: was not searched there, gets the middle of its domain"
        for path, count in self._outside.items():
            yield f"{path}: does not fit in {format_amount(count, 'trial')}, left out"
        if self._without_value:
            metric = self._spec.objective.metric
            yield f"{self._without_value} without a value of {metric!r}, left out"

    def describe_mismatches(self) -> Iterator[str]:
        """A line for each hyperparameter and constant that did not match."""
        spec = self._spec
        before = self._before
        old, new = (
            {name for name, value in space.items() if _is_searched(value)}
            for space in (before.search.space, self._space)
        )
        for name in sorted(old ^ new):
            yield f"{name}: {'is not searched here' if name in old else 'was not searched there'}"
        yield from self.describe_changes()
        searched = {*before.search.space, *self._space}
        was, now = (
            {
                "trainable": each.trainable,
                "epochs of a trial": each.epochs,
                **{
                    f"training.{n}": v
                    for n, v in each.training.items()
                    if n not in searched
                },
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
