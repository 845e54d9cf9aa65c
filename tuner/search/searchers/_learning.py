"""The searcher around every model; suggestions depend on seed, number and reports alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from ray.tune.search import Searcher

from tuner.errors import SpecError
from tuner.experiment.history import pause_collector
from tuner.search.searchers._numbered import raise_nothing_left
from tuner.search.searchers._observations import (
    FAILED,
    LOST,
    RUNNING,
    ModelInput,
    Observation,
    build_model_input,
)
from tuner.spec.sections import Objective
from tuner.spec.settings import FaultsError
from tuner.spec.space.constraints import MAX_DRAWS, filter_untried, is_allowed
from tuner.spec.space.domains import Value
from tuner.spec.space.encoding import Array, Encoding
from tuner.spec.space.grid import MAX_LISTED, count_configs, every_value, iterate_cells
from tuner.spec.space.priors import Priors
from tuner.spec.space.spaces import find_expected_values
from tuner.spec.strategies import ModelSettings, SampledSettings

_LEAST = 2  # trials within the limits, before those beyond count for `startup`
_DRAWS = 1000  # forbidden or tried ones, before the remaining configs are listed


class Model(Protocol):
    """The part in which searchers that learn differ."""

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Points, the most promising first; the first allowed and new one is tried."""


class Mixed:
    """Proposes what one of its models does, each as often."""

    def __init__(self, models: tuple[Model, ...]) -> None:
        self._models = models

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        return self._models[int(rng.integers(len(self._models)))].propose(
            data, encoding, rng
        )


class LearningSearch(Searcher):
    """Suggests what its model proposes, after `settings.startup` points of a Sobol sequence.

    max_t: epochs of a complete trial; None: the most that one has reported.
    """

    def __init__(
        self,
        model: Model,
        settings: ModelSettings,
        seed: int = 0,
        *,
        objective: Objective,
        max_t: int | None = None,
    ) -> None:
        super().__init__(objective.metric, objective.mode)
        self.trials: dict[str, Observation] = {}  # by their ids
        self._warm: list[Observation] = []  # of earlier experiments
        self._model = model
        self._seed = seed
        self._objective = objective
        self._max_t = max_t
        self._startup = settings.startup
        self._forbid = settings.forbid
        self._encoding = Encoding(settings.space)
        self._priors = Priors(self._encoding)
        self._initial = list(
            filter(settings.can_suggest, list_first_configs(settings, seed))
        )

    def suggest(self, trial_id: str) -> dict[str, Any] | str:  # type: ignore[override]
        """The config to try next, of plain Python values; FINISHED if none is left."""
        if trial_id not in self.trials:
            number = len(self.trials)
            suggestion = self._suggest_next(
                number, np.random.default_rng((self._seed, number))
            )
            if suggestion is None:
                return str(Searcher.FINISHED)
            self.trials[trial_id] = Observation(*suggestion)
        return deepcopy(self.trials[trial_id].config)  # the trial may change it

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Record the value of an epoch of a running trial."""
        trial = self._find_running(trial_id)
        if trial is None or self._objective.metric not in result:
            return
        if not self._objective.is_within_limits(result):
            trial.beyond = True
            return
        epoch = result["training_iteration"]
        trial.add(result[self._objective.metric], epoch)
        if self._objective.others and not trial.broken:
            trial.losses = trial.losses or {}
            trial.losses[epoch] = self._objective.compute_losses(result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record a trial's end. error: avoid its config. Without a result it was lost."""
        trial = self._find_running(trial_id)
        if trial is None:
            return
        if result:
            self.on_trial_result(trial_id, result)
        trial.end(error=error, lost=not (result and (trial.reports or trial.beyond)))

    def add_evaluated_point(
        self,
        parameters: Mapping[str, Value],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        """Learn from another run's trial; `intermediate_values` are epochs 1, 2, ...

        A pruned trial counts at its last epoch.
        """
        trial = self._build_observation(dict(parameters), "warm")
        for epoch, reported in enumerate(intermediate_values or (), start=1):
            trial.add(reported, epoch)
        if not pruned and not error:
            trial.add(value)
        trial.end(error=error)
        self._warm.append(trial)

    def queue_configs(self, configs: Sequence[dict[str, Value]]) -> None:
        """Suggest these after the settings' own first configs; call it before any suggestion."""
        self._initial += configs

    def take_trial(self, trial_id: str, config: dict[str, Value]) -> None:
        """Add a running trial that was suggested elsewhere. Its config is not copied."""
        origin = "initial" if config in self._initial else "resumed"
        self.trials[trial_id] = self._build_observation(config, origin)

    def go_on(self, trial_id: str) -> None:
        """Learn again from a trial that had ended; its earlier reports still count."""
        if trial_id in self.trials:
            self.trials[trial_id].status = RUNNING

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested; see `Observation`."""
        return self.trials[trial_id].origin

    def _suggest_next(
        self, number: int, rng: np.random.Generator
    ) -> tuple[dict[str, Value], str] | None:
        """A config and its origin, or None."""
        encoding = self._encoding
        forbid = self._forbid
        trials = [*self._warm, *self.trials.values()]
        tried = {trial.key for trial in trials if trial.status != LOST}
        for config in filter_untried(self._initial, tried, forbid):
            return config, "initial"
        with pause_collector():
            data = build_model_input(
                trials, encoding, self._objective, self._max_t, number
            )
        if forbid:
            data = replace(
                data, allows=lambda u_D: is_allowed(forbid, encoding.decode(u_D))
            )
        if self._priors:
            u_ND = np.concatenate([data.u_ND, data.failed_ND])
            loss_N = np.append(data.loss_N, np.full(len(data.failed_ND), np.inf))
            trust = self._priors.estimate_trust(u_ND, loss_N)
            favour = partial(
                self._priors.compute_bonus, trials=len(loss_N), trust=trust
            )
            data = replace(data, favour=favour)
        reporting = len(data.curves)
        if reporting >= _LEAST:  # a single loss is no scale
            reporting += data.beyond
        if reporting >= self._startup:
            points = self._model.propose(data, encoding, rng)
            origin = "model"
            own = self.trials.values()
            reported = sum(
                1 for trial in own if trial.reports and trial.status != FAILED
            )
            if self._warm and reported < self._startup:
                origin = "warm"  # only trials of another run are enough
        else:
            point = draw_sobol_point(encoding, self._seed, number)
            if self._priors:
                point = self._priors.sample(point, number, rng.random(), trust=trust)
            points = iter([point])
            origin = "random"
        for config in filter_untried(map(encoding.decode, points), tried, forbid):
            return config, origin
        drawn = draw_untried(encoding, forbid, tried, rng)
        return None if drawn is None else (drawn, "random")

    def _find_running(self, trial_id: str) -> Observation | None:
        """The trial, if it was suggested and has not ended."""
        trial = self.trials.get(trial_id)
        return trial if trial is not None and trial.status == RUNNING else None

    def _build_observation(self, config: dict[str, Value], origin: str) -> Observation:
        """A trial of `config`. Raises SpecError if that is not of the space."""
        trial = Observation(config, origin)
        try:
            trial.encode(self._encoding)
        except FaultsError as error:
            raise SpecError(error.faults, "a config of the searcher") from None
        return trial


def list_first_configs(settings: SampledSettings, seed: int) -> list[dict[str, Value]]:
    """The `points_to_evaluate`, completed from the seed's Sobol sequence.

    Searchers that learn begin with what priors expect, which others draw.
    """
    encoding = Encoding(settings.space)
    points = list(settings.points_to_evaluate)
    prior = find_expected_values(settings.space)
    has_prior = bool(points) and points[0] == {**points[0], **prior}
    if settings.learns and prior and not has_prior:
        points.insert(0, prior)
    return [
        _complete(point, encoding, seed=seed, number=number)
        for number, point in enumerate(points)
    ]


def _complete(
    point: dict[str, Value], encoding: Encoding, *, seed: int, number: int
) -> dict[str, Value]:
    """`point` with the values that it lacks, from point `number` of the seed's Sobol sequence."""
    point_D = encoding.encode(point, partial=True)
    if np.isnan(point_D).any():
        point_D = draw_sobol_point(encoding, seed, number)
    return encoding.complete(point, point_D)


def draw_sobol_point(encoding: Encoding, seed: int, number: int) -> Array:
    """Point `number` of the seed's Sobol sequence."""
    if len(encoding) == 0:
        return np.empty(0)
    from scipy.stats import qmc  # takes 0.5 s

    sequence = qmc.Sobol(len(encoding), rng=np.random.default_rng((seed, 0)))
    if number:  # 0 raises
        sequence.fast_forward(number)
    return np.asarray(sequence.random(1)[0])


def draw_untried(
    encoding: Encoding, forbid: Sequence[str], tried: Set[str], rng: np.random.Generator
) -> dict[str, Value] | None:
    """An allowed untried config, or None. Raises SpecError if too few are allowed."""
    size = count_configs(encoding.space)
    listed = size is not None and size <= MAX_LISTED
    count = _DRAWS if listed else MAX_DRAWS
    draws = (encoding.decode(rng.random(len(encoding))) for _ in range(count))
    for config in filter_untried(draws, tried, forbid):
        return config
    if not listed:
        raise_nothing_left(count)
    left = list(
        filter_untried(iterate_cells(encoding.space, every_value), tried, forbid)
    )
    return left[int(rng.integers(len(left)))] if left else None
