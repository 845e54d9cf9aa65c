"""The section `search` of a spec; see `tuner.spec.loading`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from tuner.errors import Fault, build_unknown_fault
from tuner.spec.loading import Registry
from tuner.spec.plain_values import convert_values, is_number
from tuner.spec.sections import Objective
from tuner.spec.settings import MAX_COUNT, FaultsError, Settings, parse
from tuner.spec.space.constraints import Expression, as_list, check_names, is_allowed
from tuner.spec.space.grid import MAX_LISTED, Grid, count_configs, every_value
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import (
    compute_config_key,
    format_space,
    list_domains,
    list_names,
)

SpaceField = Annotated[
    Mapping[str, Any],
    BeforeValidator(parse_space),
    PlainSerializer(format_space, return_type=dict[str, Any]),
]


LEARNS_FROM = 12  # trials: of fewer, a model would suggest few or none


class SearchSettings(Settings):
    """What every search strategy takes; each strategy's own settings are a subclass."""

    # Of the scheduler, where its own settings leave it open
    brackets: ClassVar[int] = 1
    learns: ClassVar[bool] = False  # whether suggestions depend on what trials reported
    # Whether it can leave out what an earlier experiment has tried
    skips: ClassVar[bool] = False

    strategy: str = Field(
        description="its name, or a module of your own such as my_package.my_searcher. Default: "
        f"mixed for {LEARNS_FROM} trials or more, or where a time budget alone ends the search, "
        "else random"
    )
    space: SpaceField = Field(
        description="the name of each hyperparameter with its domain, or a constant"
    )
    forbid: Annotated[tuple[Expression, ...], as_list] = Field(
        (),
        description='expressions over hyperparameters, such as "lr > 0.1 and batch_size < 32"; a '
        "config for which one is true is not tried",
    )

    @model_validator(mode="after")
    def _check_forbid(self) -> Self:
        if faults := check_names(self.forbid, list_names(self.space)):
            raise FaultsError(*(fault.add_prefix("forbid") for fault in faults))
        return self

    def build(
        self, seed: int, *, objective: Objective | None = None, max_t: int | None = None
    ) -> Any:
        """Ray Tune's searcher; the same seed suggests the same configs. max_t: in epochs."""
        module = SEARCHERS.load_extension(self.strategy)
        return module.build(self, seed, objective=objective, max_t=max_t)

    def can_suggest(self, config: Mapping[str, Any]) -> bool:
        """Whether the search can suggest `config`, one of its space."""
        return is_allowed(self.forbid, config)

    def settle(
        self, num_samples: int | None, time_budget_s: float | None
    ) -> SearchSettings:
        """These settings with open ones decided for a search of this length."""
        return self

    def _count(self, grid: Grid) -> int:
        """The allowed cells of a grid; all cells if it is too large to list."""
        if not self.forbid or grid.size > MAX_LISTED:
            return grid.size
        return sum(is_allowed(self.forbid, grid[index]) for index in range(grid.size))

    def trials(self, num_samples: int | None) -> int | None:
        """The number of trials, or None if only the time budget ends the search."""
        if (count_configs(self.space) or MAX_COUNT + 1) > MAX_COUNT:
            return num_samples
        size = self._count(Grid(self.space, every_value))
        return min(size, num_samples or size)


_Configs = Annotated[tuple[dict[str, JsonValue], ...], BeforeValidator(convert_values)]


class SampledSettings(SearchSettings):
    """What the strategies share that are no grid."""

    points_to_evaluate: _Configs = Field(
        (),
        description="configs to try first, the default at the head; what is left out is sampled",
    )
    default_first: bool | None = Field(
        None,
        description="whether the Learner's defaults, or what priors expect, come first; default "
        "true where they are a config of the space, and there are several trials",
    )

    @model_validator(mode="after")
    def _check_points(self) -> Self:
        if not self.points_to_evaluate:
            return self
        from tuner.spec.space.encoding import Encoding  # numpy

        encoding = Encoding(self.space)
        faults = list[Fault]()
        for number, point in enumerate(self.points_to_evaluate):
            try:
                encoding.encode(point, partial=True)
            except FaultsError as error:
                faults += (
                    fault.add_prefix(f"points_to_evaluate.{number}")
                    for fault in error.faults
                )
        if faults:
            raise FaultsError(*faults)
        return self


class ModelSettings(SampledSettings):
    """What the strategies that learn from results share."""

    learns: ClassVar[bool] = True

    startup: int = Field(
        10,
        ge=1,
        description="how many trials must have reported before the model is asked",
    )


class UncheckedSearch(SearchSettings):
    """The settings of a user's strategy whose module is not imported."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    learns: ClassVar[bool] = True


_POINTS = 3  # values of a continuous domain on a grid
_Points = Annotated[int, Field(ge=1, le=1000)]


def _read_points(raw: Any) -> Any:
    """Checked here, since pydantic has a fault for each type of a union."""
    by_name = raw if isinstance(raw, Mapping) else {"": raw}
    wrong = {
        n: v for n, v in by_name.items() if not (is_number(v) and v in range(1, 1001))
    }
    rule = "must be a whole number from 1 to 1000, or such a number for each name"
    if wrong:
        raise FaultsError(*(Fault(name, rule, value) for name, value in wrong.items()))
    return raw


class GridSettings(SearchSettings):
    """Every combination of values, each once."""

    skips: ClassVar[bool] = True

    strategy: Literal["grid"] = "grid"
    order: Literal["spread", "rows"] | None = Field(
        None,
        description='"rows" takes the cells in the declared order, with the last name changing '
        'fastest; "spread" begins with cells from all over the grid. Unless set it is '
        "spread where num_samples or a time budget may leave cells out, or with "
        "`through`, and else rows",
    )
    points: Annotated[_Points | dict[str, _Points], BeforeValidator(_read_points)] = (
        Field(
            _POINTS,
            description="how many values a continuous domain (or a longer range of integers) "
            "gets, 1 to 1000, evenly spaced in the domain's own scale; one number for all, or "
            "one for each name",
        )
    )
    through: dict[str, JsonValue] | None = Field(
        None,
        description='a config that becomes a cell, the first one of "spread"; its values replace '
        "the nearest ones of continuous domains",
    )
    configs: _Configs = Field(
        (), description="these configs instead of the grid's cells, in this order"
    )
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(
        (),
        description="each config is trained once with each of these seeds, one after the other; "
        "default the experiment's",
    )

    def count_points(self, path: str) -> int:
        if isinstance(self.points, int):
            return self.points
        return self.points.get(path, _POINTS)

    @model_validator(mode="after")
    def _check_space(self) -> Self:
        paths = [path for path, _ in list_domains(self.space)]
        names = self.points.keys() - paths if isinstance(self.points, dict) else ()
        faults = [
            build_unknown_fault(f"points.{n}", "hyperparameter", n, paths)
            for n in sorted(names)
        ]
        configs = {
            f"configs.{number}": config for number, config in enumerate(self.configs)
        }
        if self.through is not None:
            configs["through"] = self.through
        for key, config in configs.items():
            others = sorted(config.keys() - self.space.keys())
            faults += [
                build_unknown_fault(key, "hyperparameter", name, self.space)
                for name in others
            ]
            missing = [name for name in self.space if name not in config]
            faults += [Fault(f"{key}.{name}", "is missing") for name in missing]
        if self.seeds and "seed" in self.space:
            faults.append(
                Fault("seeds", "cannot be set where `seed` is searched", self.seeds)
            )
        if len(set(self.seeds)) < len(self.seeds):
            faults.append(Fault("seeds", "must differ from each other", self.seeds))
        if faults:
            raise FaultsError(*faults)
        return self

    @property
    def _grid(self) -> Grid:
        return Grid(self.space, self.count_points, through=self.through)

    def can_suggest(self, config: Mapping[str, Any]) -> bool:
        key = compute_config_key(config)
        if self.configs:
            cell = key in map(compute_config_key, self.configs)
        else:
            grid = self._grid
            cell = key == compute_config_key(grid[grid.find_nearest(config)])
        return cell and super().can_suggest(config)

    @property
    def all_trials(self) -> int:
        """The trials of the complete grid: the cells, or configs, times the seeds."""
        allowed = sum(is_allowed(self.forbid, config) for config in self.configs)
        count = allowed if self.configs else self._count(self._grid)
        return count * max(len(self.seeds), 1)

    def settle(
        self, num_samples: int | None, time_budget_s: float | None
    ) -> GridSettings:
        if self.order is not None:
            return self
        leaves_out = (
            time_budget_s is not None
            or (num_samples or self.all_trials) < self.all_trials
        )
        order = "spread" if leaves_out or self.through is not None else "rows"
        values = {**dict(self), "order": order}
        return self.model_construct(_fields_set=self.model_fields_set, **values)

    def trials(self, num_samples: int | None) -> int:
        all_trials = self.all_trials
        return min(all_trials, num_samples or all_trials)


SEARCHERS = Registry(
    "search", "tuner.search.searchers", "strategy", SearchSettings, UncheckedSearch
)


class Unnamed(str):
    """The strategy of a spec that names none; it does not count as a field that was set."""


def choose_strategy(raw: Mapping[str, Any]) -> str:
    """The strategy that a spec's plain values name; Unnamed where they name none.

    A search that a time budget alone ends is `mixed`, too, however few trials it comes to: the
    models suggest from 8 reported trials on, and before that it tries points of a Sobol sequence.
    """
    search = raw.get("search")
    if isinstance(search, Mapping) and "strategy" in search:
        return str(search["strategy"])
    is_long = _is_long(raw.get("num_samples"), raw.get("time_budget_s"))
    return Unnamed("mixed" if is_long and _can_learn(raw) else "random")


def _is_long(samples: Any, time_budget_s: Any) -> bool:
    if samples is None:
        return time_budget_s is not None
    try:
        # Of text, too, which the spec takes for a number
        return float(samples) >= LEARNS_FROM
    except (TypeError, ValueError, OverflowError):  # which the spec refuses
        return False


def _can_learn(raw: Mapping[str, Any]) -> bool:
    """False where earlier trials are of one objective, and there are several."""
    objective = raw.get("objective")
    objectives = raw.get("objectives")
    others = objective.get("others") if isinstance(objective, Mapping) else None
    has_several = bool(others) or (
        isinstance(objectives, Sequence) and len(objectives) > 1
    )
    return not (raw.get("warm_start") and has_several)


def _read(raw: object, info: ValidationInfo) -> object:
    if isinstance(raw, SearchSettings) or not isinstance(raw, Mapping):
        return raw
    strategy = choose_strategy({"search": raw})
    if isinstance(raw.get("strategy"), Unnamed):
        raw = {name: value for name, value in raw.items() if name != "strategy"}
    try:
        return SEARCHERS.read(raw, strategy, info.context)
    except FaultsError as error:
        if any(fault.key == SEARCHERS.key for fault in error.faults):
            # Then check the others, too
            _, faults = parse(
                SearchSettings, {"strategy": "?", "space": raw.get("space", {})}
            )
            raise FaultsError(*error.faults, *faults) from None
        raise


Search = Annotated[SerializeAsAny[SearchSettings], BeforeValidator(_read)]
