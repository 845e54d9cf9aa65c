"""The searcher around every model: its trials, its start, its state.

A suggestion depends on the seed, on its number and on the trials that were reported, never on
hidden random state: a searcher that is given the same trials goes on with the same configs, in any
process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, is_dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from ray.tune.search import Searcher

from tuner.errors import Fault, SpecError
from tuner.experiment.history import collector_paused
from tuner.search.searchers._drawing import draw_untried
from tuner.search.searchers._observations import (
    FAILED,
    RUNNING,
    ModelInput,
    Observation,
    Observations,
    model_input,
)
from tuner.settings import FaultsError
from tuner.spec.sections import Objective
from tuner.spec.space.constraints import Constraints
from tuner.spec.space.domains import Value
from tuner.spec.space.encoding import Array, Encoding
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import names_of, space_text

_FORMAT = 2


class Model(Protocol):
    """What tells the searchers that learn apart."""

    def propose(
        self, data: ModelInput, encoding: Encoding, rng: np.random.Generator
    ) -> Iterator[Array]:
        """Points, the most promising first; the first that is allowed and new is tried."""


class StatefulSearcher(Searcher):
    """A searcher whose state is JSON values."""

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, as JSON."""
        with open(checkpoint_path, "w", encoding="utf-8") as file:
            json.dump(self.get_state(), file)

    def restore(self, checkpoint_path: str) -> None:
        """Load the state from a file that `save` wrote. Runs no code from it."""
        with open(checkpoint_path, encoding="utf-8") as file:
            self.set_state(json.load(file))


class LearningSearch(StatefulSearcher):
    """Suggests what its model finds most promising.

    space: name -> domain, as Ray's or hyperopt's objects, as text or as ours; else
    `set_search_properties` gives it. seed: None draws one. points_to_evaluate: configs to begin
    with; what they leave out is sampled. max_t: epochs of a whole trial; else the most that any
    trial has reported. forbid: expressions that no config may fulfil. startup: trials that must
    have reported before the model is asked; until then points come from a Sobol sequence. Raises
    SpecError for what cannot work.
    """

    def __init__(
        self,
        model: Model,
        space: Any = None,
        metric: str | None = None,
        mode: Literal["min", "max"] | None = None,
        seed: int | None = None,
        points_to_evaluate: Sequence[Mapping[str, Value]] | None = None,
        *,
        max_t: int | None = None,
        forbid: Sequence[str] = (),
        startup: int = 10,
    ) -> None:
        if mode not in (None, "min", "max"):
            raise _refused([Fault("mode", "must be 'min' or 'max'", mode)])
        super().__init__(metric, mode)
        self.seed = int.from_bytes(os.urandom(4), "little") if seed is None else int(seed)
        self._model = model
        self._max_t = max_t
        self._startup = startup
        self._observations = Observations()
        self._points = [dict(point) for point in points_to_evaluate or ()]
        with _refusing("forbid"):
            self._constraints = Constraints(forbid)
        self._encoding: Encoding | None = None
        self._initial: list[dict[str, Value]] = []
        if space is not None and space != {}:
            self._set_space(space)

    # What Ray Tune calls

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Set what the constructor was not given; False where a second space is given."""
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        if not config:
            return True
        if self._encoding is not None:
            return False
        self._set_space(config)
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str:  # type: ignore[override]
        """The config to try next, of plain Python values; FINISHED where none is left."""
        self._check_ready()
        own = self._observations.own
        if trial_id not in own:
            number = len(own)
            suggestion = self._next(number, np.random.default_rng((self.seed, number)))
            if suggestion is None:
                return str(Searcher.FINISHED)
            own[trial_id] = Observation(*suggestion)
        return deepcopy(own[trial_id].config)  # which the trial may change

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Record the value of one epoch; a report of no trial that runs changes nothing."""
        trial = self._observations.running(trial_id)
        if trial is not None and self._metric is not None and self._metric in result:
            trial.report(result[self._metric], result.get("training_iteration"))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record how a trial ended.

        error: its config is at fault, and is to be avoided. With neither a result nor an error the
        trial was lost: what it reported before counts, its end says nothing.
        """
        trial = self._observations.running(trial_id)
        if trial is None:
            return
        if result:
            self.on_trial_result(trial_id, result)
        trial.end(error=error, lost=not (result and trial.reports))

    def add_evaluated_point(
        self,
        parameters: Mapping[str, Value],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: Sequence[float] | None = None,
    ) -> None:
        """Learn from a trial of another run; `intermediate_values` are its epochs 1, 2, ...

        A trial that was pruned counts at the epoch that it came to; where that is not known only
        its config is remembered, so that it is not tried again.
        """
        trial = self._observed(dict(parameters), "parameters", "warm")
        for epoch, reported in enumerate(intermediate_values or (), start=1):
            trial.add(reported, epoch)
        if not pruned and not error:
            trial.add(value)
        trial.end(error=error)
        self._observations.warm.append(trial)

    def take_trial(self, trial_id: str, config: dict[str, Value]) -> None:
        """Know of a trial that runs and was suggested elsewhere, as before a resume.

        Its config is kept as it is, not copied: nobody may change it.
        """
        origin = "initial" if config in self._initial else "resumed"
        self._observations.own[trial_id] = self._observed(config, "config", origin)

    def go_on(self, trial_id: str) -> None:
        """Learn again from a trial that had ended: what it had reported still counts."""
        if trial_id in self._observations.own:
            self._observations.own[trial_id].status = RUNNING

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested; see `Observation`."""
        return self._observations.own[trial_id].origin

    def get_state(self) -> dict[str, Any]:
        """Everything that a new searcher needs to go on with the same configs, as JSON values."""
        return {
            "format": _FORMAT,
            "space": space_text(self._encoding.space) if self._encoding else None,
            "metric": self._metric,
            "mode": self._mode,
            "seed": self.seed,
            "points": self._points,
            "max_t": self._max_t,
            "forbid": list(self._constraints.forbid),
            "startup": self._startup,
            "model": _settings_of(self._model),
            **self._observations.state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state, with its settings. Raises ValueError for one of another format.

        The model must be of the same class.
        """
        if not isinstance(state, Mapping) or state.get("format") != _FORMAT:
            raise ValueError(f"{type(self).__name__}: not a state of format {_FORMAT}")
        self._metric, self._mode, self.seed = state["metric"], state["mode"], state["seed"]
        self._points = state["points"]
        self._max_t, self._startup = state["max_t"], state["startup"]
        self._constraints = Constraints(state["forbid"])
        if settings := state["model"]:
            self._model = replace(self._model, **settings)  # type: ignore[type-var]
        if state["space"] is not None:
            self._set_space(state["space"])
        self._observations = Observations.of_state(state)

    # The rest

    def _next(self, number: int, rng: np.random.Generator) -> tuple[dict[str, Value], str] | None:
        """A config and its origin; None where none is left."""
        encoding, rules = self._encoding, self._constraints
        assert encoding is not None
        tried = self._observations.tried()
        for config in rules.untried(self._initial, tried):
            return config, "initial"
        objective = Objective.model_validate({"metric": self._metric, "mode": self._mode})
        with collector_paused():
            data = model_input(self._observations, encoding, objective, self._max_t)
        if rules:
            data = replace(data, allows=lambda u_D: rules.allow(encoding.decode(u_D)))
        if len(data.curves) >= self._startup:
            points, origin = self._model.propose(data, encoding, rng), self._model_origin()
        else:
            points, origin = iter([sobol_point(encoding, self.seed, number)]), "random"
        for config in rules.untried(map(encoding.decode, points), tried):
            return config, origin
        drawn = draw_untried(encoding, rules, tried, rng)
        return None if drawn is None else (drawn, "random")

    def _model_origin(self) -> str:
        """model; or warm, where without the trials of another run it were not asked yet."""
        observations = self._observations
        own = sum(1 for t in observations.own.values() if t.reports and t.status != FAILED)
        return "warm" if observations.warm and own < self._startup else "model"

    def _set_space(self, space: Any) -> None:
        try:
            encoding = Encoding(parse_space(space))
        except FaultsError as error:
            raise SpecError(error.faults, "the search space") from None
        if faults := self._constraints.check_names(names_of(encoding.space)):
            raise SpecError([fault.under("forbid") for fault in faults])
        self._encoding = encoding
        self._initial = []
        for index, point in enumerate(self._points):
            with _refusing(f"points_to_evaluate.{index}"):
                config = encoding.complete(point, sobol_point(encoding, self.seed, index))
            if self._constraints.allow(config):
                self._initial.append(config)

    def _observed(self, config: dict[str, Value], name: str, origin: str) -> Observation:
        """A trial of `config`, where that is of the space."""
        self._check_ready()
        assert self._encoding is not None
        trial = Observation(config, origin)
        with _refusing(name):
            trial.encoded(self._encoding)
        return trial

    def _check_ready(self) -> None:
        needed = {"space": self._encoding, "metric": self._metric, "mode": self._mode}
        if missing := [name for name, value in needed.items() if value is None]:
            rule = "must be given, to the searcher or to tune.run"
            raise _refused([Fault(name, rule) for name in missing])


def sobol_point(encoding: Encoding, seed: int, number: int) -> Array:
    """Point `number` of the seed's own Sobol sequence."""
    if len(encoding) == 0:
        return np.empty(0)
    from scipy.stats import qmc  # 0.5 s, which a resume with enough trials need not spend

    sequence = qmc.Sobol(len(encoding), rng=np.random.default_rng((seed, 0)))
    if number:  # it cannot go forward by nothing
        sequence.fast_forward(number)
    return np.asarray(sequence.random(1)[0])


def _settings_of(model: Model) -> dict[str, Any]:
    """The settings of a model, which are its fields where it is a dataclass; else it has none."""
    return asdict(model) if is_dataclass(model) and not isinstance(model, type) else {}


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn what is wrong with a value into a SpecError about the argument `name`."""
    try:
        yield
    except FaultsError as error:
        raise _refused([fault.under(name) for fault in error.faults]) from None


def _refused(faults: list[Fault]) -> SpecError:
    return SpecError(faults, "the searcher")
