"""What every model-based searcher shares: its trials, its start, its state, its rules.

A suggestion depends on the seed, on its number and on what has been told, never on hidden random
state: a searcher that is told the same trials goes on with the same configs, in any process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from ray.tune.search import Searcher

from tuner.errors import Fault, SpecError
from tuner.search.searchers.data import Data, data_of
from tuner.search.searchers.fresh import fresh_config, random_config, sobol_point
from tuner.search.searchers.records import FAILED, Record, Records
from tuner.settings_base import FaultsError
from tuner.space.constraints import Constraints
from tuner.space.domains import Value, names_of, parse_space, space_text
from tuner.space.encoding import Array, Encoding, config_key

_FORMAT = 1


class ModelSearch(Searcher):
    """Base of the searchers that learn; a subclass says which points are the most promising.

    space: name -> domain, as Ray's objects, as text or as ours; else `set_search_properties` gives
    it. seed: None draws one. points_to_evaluate: configs to begin with; what they leave out is
    drawn. evaluated_rewards: their values where these are known, so that they are not run. max_t:
    epochs of a whole trial; else the most that any trial has reported. forbid: expressions that no
    config may fulfil. Raises SpecError for what cannot work.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: Literal["min", "max"] | None = None,
        seed: int | None = None,
        points_to_evaluate: Sequence[Mapping[str, Value]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        time_attr: str = "training_iteration",
        max_t: int | None = None,
        *,
        forbid: Sequence[str] = (),
        startup: int = 10,
    ) -> None:
        if mode not in (None, "min", "max"):
            raise SpecError([Fault("mode", "must be 'min' or 'max'", mode)], type(self).__name__)
        super().__init__(metric, mode)
        self.seed = int.from_bytes(os.urandom(4), "little") if seed is None else int(seed)
        self._time_attr = time_attr
        self._max_t = max_t
        self._startup = startup
        self._records = Records()
        self._points = [dict(point) for point in points_to_evaluate or ()]
        self._rewards = None if evaluated_rewards is None else list(evaluated_rewards)
        if self._rewards is not None and len(self._rewards) != len(self._points):
            rule = f"must be as many as points_to_evaluate, {len(self._points)}"
            fault = Fault("evaluated_rewards", rule, len(self._rewards))
            raise SpecError([fault], type(self).__name__)
        with self._refused("forbid"):
            self._constraints = Constraints(forbid)
        self._encoding: Encoding | None = None
        self._initial: list[dict[str, Value]] = []
        if space is not None and space != {}:
            self._set_space(space)

    # What Ray Tune calls

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take what the constructor was not given; False where a second space is given."""
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
        own = self._records.own
        if trial_id not in own:
            number = len(own)
            found = self._next(number, np.random.default_rng((self.seed, number)))
            if found is None:
                return str(Searcher.FINISHED)
            own[trial_id] = Record(*found)
        config: dict[str, Any] = _copied(own[trial_id].config)
        return config

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Learn the value of one epoch; a report of no trial that runs changes nothing."""
        record = self._records.running(trial_id)
        if record is not None and self._metric is not None and self._metric in result:
            record.report(result[self._metric], result.get(self._time_attr))

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn how a trial ended.

        error: its config is at fault, and is to be avoided. With neither a result nor an error the
        trial was lost: what it reported before counts, its end tells nothing.
        """
        record = self._records.running(trial_id)
        if record is None:
            return
        if result:
            self.on_trial_result(trial_id, result)
        record.end(error=error, lost=not (result and record.reports))

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
        self._check_ready()
        config = dict(parameters)
        self._check_config(config, "parameters")
        record = Record(config, "warm")
        for epoch, reported in enumerate(intermediate_values or (), start=1):
            record.take(reported, epoch)
        if not pruned and not error:
            record.take(value)
        record.end(error=error)
        self._records.warm.append(record)

    def add_evaluated_points(
        self, points: Sequence[Mapping[str, Value]], values: Sequence[float]
    ) -> None:
        """Learn from whole trials of another run."""
        for point, value in zip(points, values, strict=True):
            self.add_evaluated_point(point, value)

    def take_trial(self, trial_id: str, config: Mapping[str, Value]) -> None:
        """Know of a trial that runs and was suggested elsewhere, as before a resume."""
        self._check_ready()
        config = dict(config)
        self._check_config(config, "config")
        known = any(config == point for point in self._initial)
        self._records.own[trial_id] = Record(config, "initial" if known else "told")

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested: initial, random, model or warm; told: a resume."""
        return self._records.own[trial_id].origin

    def get_state(self) -> dict[str, Any]:
        """Everything that a new searcher needs to go on with the same configs, as JSON values."""
        return {
            "format": _FORMAT,
            "space": space_text(self._encoding.space) if self._encoding else None,
            "metric": self._metric,
            "mode": self._mode,
            "seed": self.seed,
            "points": self._points,
            "rewards": self._rewards,
            **self._records.state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over a state. Raises ValueError for one of another format."""
        if not isinstance(state, Mapping) or state.get("format") != _FORMAT:
            raise ValueError(f"{type(self).__name__}: not a state of format {_FORMAT}")
        self._metric, self._mode, self.seed = state["metric"], state["mode"], state["seed"]
        self._points, self._rewards = state["points"], None
        if state["space"] is not None:
            self._set_space(state["space"])
        self._rewards = state["rewards"]
        self._records = Records.of_state(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, as JSON."""
        with open(checkpoint_path, "w", encoding="utf-8") as file:
            json.dump(self.get_state(), file)

    def restore(self, checkpoint_path: str) -> None:
        """Take over the state of a file that `save` wrote. Runs no code from it."""
        with open(checkpoint_path, encoding="utf-8") as file:
            self.set_state(json.load(file))

    # What a subclass has

    def _propose(self, data: Data, number: int, rng: np.random.Generator) -> Iterator[Array]:
        """Points, the most promising first; the first that is allowed and new is tried."""
        raise NotImplementedError

    @property
    def _space(self) -> Encoding:
        assert self._encoding is not None
        return self._encoding

    # The rest

    def _next(self, number: int, rng: np.random.Generator) -> tuple[dict[str, Value], str] | None:
        tried = self._records.tried()
        for config in self._initial:
            if config_key(config) not in tried:
                return config, "initial"
        data = data_of(self._records, self._space, maximised=self._mode == "max", max_t=self._max_t)
        asked = len(data.curves) >= self._startup
        origin = self._reason() if asked else "random"
        points = self._propose(data, number, rng) if asked else [self._sobol(number)]
        for u_D in points:
            fresh = fresh_config(u_D, self._space, self._constraints, tried)
            if fresh is not None:
                return fresh, origin
        with self._refused():
            drawn = random_config(self._space, self._constraints, tried, rng)
        return None if drawn is None else (drawn, "random")

    def _sobol(self, number: int) -> Array:
        return sobol_point(self._space, self.seed, number)

    def _reason(self) -> str:
        """model; or warm, where without the trials of another run it were not asked yet."""
        own = sum(1 for r in self._records.own.values() if r.reports and r.status != FAILED)
        return "warm" if self._records.warm and own < self._startup else "model"

    def _set_space(self, space: Mapping[str, Any]) -> None:
        try:
            encoding = Encoding(parse_space(self._translated(space)))
        except FaultsError as error:
            raise SpecError(error.faults, "the search space") from None
        faults = self._constraints.check_names(names_of(encoding.space))
        if faults:
            raise SpecError([fault.under("forbid") for fault in faults])
        self._encoding = encoding
        self._initial = []
        for index, point in enumerate(self._points):
            with self._refused(f"points_to_evaluate.{index}"):
                config = encoding.complete(point, self._sobol(index))
            if self._rewards is None:
                if self._constraints.allow(config):
                    self._initial.append(config)
            else:
                record = Record(config, "warm")
                record.take(self._rewards[index])
                record.end()
                self._records.warm.append(record)

    def _translated(self, space: Mapping[str, Any]) -> Mapping[str, Any]:
        """A space as `parse_space` takes it; for a subclass that knows others."""
        return space

    def _check_config(self, config: Mapping[str, Value], name: str) -> None:
        with self._refused(name):
            self._space.encode(config)

    @contextmanager
    def _refused(self, name: str = "") -> Iterator[None]:
        """Tells what is wrong with a value as a SpecError, on the argument `name` where given."""
        try:
            yield
        except FaultsError as error:
            faults = [fault.under(name) for fault in error.faults]
            raise SpecError(faults, type(self).__name__) from None

    def _check_ready(self) -> None:
        lacks = [
            name
            for name, value in (
                ("space", self._encoding),
                ("metric", self._metric),
                ("mode", self._mode),
            )
            if value is None
        ]
        if lacks:
            rule = "must be given, to the searcher or to tune.run"
            raise SpecError([Fault(name, rule) for name in lacks], type(self).__name__)


def _copied(value: Any) -> Any:
    """A copy of plain nested values, so that a trial cannot change what is remembered."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
