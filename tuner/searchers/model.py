"""What every model-based searcher shares: its trials, its start, its state, its rules.

A suggestion depends on the seed, on its number and on what has been told, never on hidden random
state: a searcher that is told the same trials goes on with the same configs, in any process.
"""

# N trials with a loss, P trials without one yet, D columns of the encoding

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from ray.tune.search import Searcher
from scipy.stats import qmc

from tuner.constraints import Constraints
from tuner.domains import Value, names_of, parse_space, space_size, space_text
from tuner.errors import Fault, SpecError
from tuner.grid import MOST_LISTED, allowed_cells, every_value
from tuner.parts import Rule
from tuner.searchers.curves import standings
from tuner.searchers.encoding import Array, Encoding, config_key

RUNNING, ENDED, FAILED, LOST = "running", "ended", "failed", "lost"

_TRIES = 1000  # draws that may be forbidden or known before the configs that are left are listed
_FORMAT = 1


@dataclass(slots=True)
class Record:
    """One trial as a searcher knows it.

    origin: why its config was tried: initial, random, model, told, or warm: evaluated before, or
    suggested by the model of what was.
    reports: epoch -> value of the metric, finite; epoch 0 stands for a whole trial. status:
    running, ended, failed (a config to avoid), or lost (nothing was learned about its config).
    """

    config: dict[str, Value]
    origin: str
    status: str = RUNNING
    reports: dict[int, float] = field(default_factory=dict)
    broken: bool = False  # its latest report was not a finite number


@dataclass(frozen=True, slots=True)
class Data:
    """What a model is fitted to: N trials with reports, and those without; less is better.

    loss_N: how each stands, by values at equal epochs only. curves: the N losses at each epoch.
    live_N: whether it still runs. failed_ND: configs that failed. pending_PD: configs that run and
    have reported nothing.
    """

    u_ND: Array
    loss_N: Array
    curves: list[dict[int, float]]
    live_N: NDArray[np.bool_]
    failed_ND: Array
    pending_PD: Array


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
        self._records: dict[str, Record] = {}
        self._warm: list[Record] = []
        self._points = [dict(point) for point in points_to_evaluate or ()]
        self._rewards = None if evaluated_rewards is None else list(evaluated_rewards)
        if self._rewards is not None and len(self._rewards) != len(self._points):
            rule = f"must be as many as points_to_evaluate, {len(self._points)}"
            fault = Fault("evaluated_rewards", rule, len(self._rewards))
            raise SpecError([fault], type(self).__name__)
        with self._told_of("forbid"):
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
        if trial_id not in self._records:
            number = len(self._records)
            found = self._next(number, np.random.default_rng((self.seed, number)))
            if found is None:
                return str(Searcher.FINISHED)
            self._records[trial_id] = Record(*found)
        config: dict[str, Any] = _copied(self._records[trial_id].config)
        return config

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Learn the value of one epoch; a report of no trial that runs changes nothing."""
        record = self._records.get(trial_id)
        if record is not None and record.status == RUNNING:
            self._take_report(record, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Learn how a trial ended.

        error: its config is at fault, and is to be avoided. With neither a result nor an error the
        trial was lost: what it reported before counts, its end tells nothing.
        """
        record = self._records.get(trial_id)
        if record is None or record.status != RUNNING:
            return
        if result:
            self._take_report(record, result)
        if error or record.broken:
            record.status = FAILED
        else:
            record.status = ENDED if result and record.reports else LOST

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
        self._point_of(config, "parameters")
        record = Record(config, "warm", FAILED if error else ENDED)
        for epoch, reported in enumerate(intermediate_values or (), start=1):
            self._take_value(record, reported, epoch)
        if not pruned and not error:
            self._take_value(record, value, 0)
        if record.broken:
            record.status = FAILED
        self._warm.append(record)

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
        self._point_of(config, "config")
        known = any(config == point for point in self._initial)
        self._records[trial_id] = Record(config, "initial" if known else "told")

    def origin(self, trial_id: str) -> str:
        """Why the trial's config was suggested: initial, random, model or warm; told: a resume."""
        return self._records[trial_id].origin

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
            "trials": {trial_id: asdict(record) for trial_id, record in self._records.items()},
            "warm": [asdict(record) for record in self._warm],
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
        self._records = {trial_id: _record(raw) for trial_id, raw in state["trials"].items()}
        self._warm = [_record(raw) for raw in state["warm"]]

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

    def _data(self) -> Data:
        sign = 1.0 if self._mode == "min" else -1.0
        records = [*self._warm, *self._records.values()]
        longest = max((max(r.reports) for r in records if r.reports), default=1)
        whole = self._max_t or max(longest, 1)
        known: list[Record] = []
        failed: list[Record] = []
        pending: list[Record] = []
        curves: list[dict[int, float]] = []
        for record in records:
            if record.status == FAILED:
                failed.append(record)
            elif record.reports:
                known.append(record)
                curves.append({t or whole: sign * value for t, value in record.reports.items()})
            elif record.status == RUNNING:
                pending.append(record)
        return Data(
            self._points_of(known),
            standings(curves),
            curves,
            np.array([record.status == RUNNING for record in known], dtype=bool),
            self._points_of(failed),
            self._points_of(pending),
        )

    def _points_of(self, records: Sequence[Record]) -> Array:
        points = [self._space.encode(record.config) for record in records]
        return self._space.snap(np.array(points).reshape(len(points), len(self._space)))

    def _sobol(self, number: int) -> Array:
        """Point `number` of the seed's own Sobol sequence."""
        if len(self._space) == 0:
            return np.empty(0)
        sequence = qmc.Sobol(len(self._space), rng=np.random.default_rng((self.seed, 0)))
        if number:  # it cannot go forward by nothing
            sequence.fast_forward(number)
        return np.asarray(sequence.random(1)[0])

    # The rest

    def _next(self, number: int, rng: np.random.Generator) -> tuple[dict[str, Value], str] | None:
        seen = self._seen()
        for config in self._initial:
            if config_key(config) not in seen:
                return config, "initial"
        data = self._data()
        if len(data.loss_N) < self._startup:
            sobol = self._fresh(self._sobol(number), seen)
            if sobol is not None:
                return sobol, "random"
        else:
            for u_D in self._propose(data, number, rng):
                config_ = self._fresh(u_D, seen)
                if config_ is not None:
                    return config_, self._reason()
        drawn = self._draw(seen, rng)
        return None if drawn is None else (drawn, "random")

    def _reason(self) -> str:
        """model; or warm, where without the trials of another run it were not asked yet."""
        own = sum(1 for r in self._records.values() if r.reports and r.status != FAILED)
        return "warm" if self._warm and own < self._startup else "model"

    def _fresh(self, u_D: Array, seen: set[str]) -> dict[str, Value] | None:
        """The config at a point, where it is allowed and new."""
        config = self._space.decode(u_D)
        fresh = config_key(config) not in seen and self._constraints.allow(config)
        return config if fresh else None

    def _draw(self, seen: set[str], rng: np.random.Generator) -> dict[str, Value] | None:
        for _ in range(_TRIES):
            config = self._fresh(rng.random(len(self._space)), seen)
            if config is not None:
                return config
        size = space_size(self._space.space)
        if size is None or size > MOST_LISTED:
            fault = Fault("forbid", f"leaves nothing that {_TRIES} random draws could find")
            raise SpecError([fault], type(self).__name__)
        allowed = allowed_cells(self._space.space, every_value, self._constraints)
        left = [config for config in allowed if config_key(config) not in seen]
        return left[int(rng.integers(len(left)))] if left else None

    def _seen(self) -> set[str]:
        """The configs that must not come again: all that were tried, but for lost trials."""
        records = [*self._warm, *self._records.values()]
        return {config_key(r.config) for r in records if r.status != LOST}

    def _take_report(self, record: Record, result: Mapping[str, Any]) -> None:
        if self._metric is None or self._metric not in result:
            return
        epoch = result.get(self._time_attr)
        if isinstance(epoch, bool) or not isinstance(epoch, int | float) or not epoch >= 1:
            epoch = max(record.reports, default=0) + 1
        self._take_value(record, result[self._metric], int(epoch))

    def _take_value(self, record: Record, value: Any, epoch: int) -> None:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        record.broken = not math.isfinite(number)
        if not record.broken:
            record.reports[epoch] = number

    def _set_space(self, space: Mapping[str, Any]) -> None:
        try:
            encoding = Encoding(parse_space(self._translated(space)))
        except Rule as rule:
            raise SpecError(rule.faults, "the search space") from None
        faults = self._constraints.check_names(names_of(encoding.space))
        if faults:
            raise SpecError([fault.under("forbid") for fault in faults])
        self._encoding = encoding
        self._initial = []
        for index, point in enumerate(self._points):
            config = self._completed(point, index)
            if self._rewards is None:
                if self._constraints.allow(config):
                    self._initial.append(config)
            else:
                record = Record(config, "warm", ENDED)
                self._take_value(record, self._rewards[index], 0)
                record.status = FAILED if record.broken else ENDED
                self._warm.append(record)

    def _translated(self, space: Mapping[str, Any]) -> Mapping[str, Any]:
        """A space as `parse_space` takes it; for a subclass that knows others."""
        return space

    def _completed(self, point: Mapping[str, Value], index: int) -> dict[str, Value]:
        with self._told_of(f"points_to_evaluate.{index}"):
            return self._space.complete(point, self._sobol(index))

    def _point_of(self, config: Mapping[str, Value], name: str) -> Array:
        with self._told_of(name):
            return self._space.encode(config)

    @contextmanager
    def _told_of(self, name: str) -> Iterator[None]:
        """Tells what is wrong with a value as a SpecError on the argument `name`."""
        try:
            yield
        except Rule as rule:
            faults = [fault.under(name) for fault in rule.faults]
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


def _record(raw: Mapping[str, Any]) -> Record:
    reports = {int(epoch): value for epoch, value in raw["reports"].items()}
    return Record(**{**raw, "reports": reports})


def _copied(value: Any) -> Any:
    """A copy of plain nested values, so that a trial cannot change what is remembered."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
