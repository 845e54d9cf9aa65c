"""The settings of every search strategy, by its name in STRATEGIES.

To add a strategy: a subclass of SearchSettings here, and what builds its searcher in
`tuner.search.searchers.build`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    SerializeAsAny,
    model_validator,
)

from tuner.errors import Fault, unknown
from tuner.settings_base import MAX_COUNT, FaultsError, Settings, parse
from tuner.space.constraints import Constraints
from tuner.space.domains import domains_of, names_of, parse_space, space_size, space_text
from tuner.space.grid import MOST_LISTED, Points, allowed_cells, count_cells, every_value

SpaceField = Annotated[
    Mapping[str, Any],
    BeforeValidator(parse_space),
    PlainSerializer(space_text, return_type=dict[str, Any]),
]


class SearchSettings(Settings):
    """What every search strategy takes; each strategy's own settings are a subclass.

    space: hyperparameter name -> domain, or a constant. forbid: expressions over hyperparameters,
    as "lr > 0.1 and batch_size < 32"; a config for which one holds is not tried.
    """

    brackets: ClassVar[int] = 1  # of the scheduler, where it is not told how many

    strategy: str
    space: SpaceField
    forbid: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _readable_constraints(self) -> Self:
        try:
            faults = Constraints(self.forbid).check_names(names_of(self.space))
        except FaultsError as error:
            faults = list(error.faults)
        if faults:
            raise FaultsError(*(fault.under("forbid") for fault in faults))
        return self

    def _count(self, points: Points) -> int:
        """The cells of a grid that are allowed; of one too large to be listed, all."""
        cells = count_cells(self.space, points)
        if not self.forbid or cells > MOST_LISTED:
            return cells
        return sum(1 for _ in allowed_cells(self.space, points, Constraints(self.forbid)))

    def trials(self, num_samples: int | None) -> int | None:
        """How many trials the search gives: None where only the time budget ends it."""
        if (space_size(self.space) or MAX_COUNT + 1) > MAX_COUNT:
            return num_samples
        size = self._count(every_value)
        return min(size, num_samples or size)


class RandomSettings(SearchSettings):
    """Configs drawn independently from the domains; a finite space is drawn without repeats."""

    strategy: Literal["random"] = "random"


_POINTS = 3  # values of a continuous domain on a grid
_Points = Annotated[int, Field(ge=1, le=1000)]


class GridSettings(SearchSettings):
    """Every combination, in declared order, the last name changing fastest.

    points: how many values a continuous domain (or an integer range that is longer) gets, 1 to
    1000, evenly spaced in the domain's own scale; one number for all, or one for each name.
    configs: these configs instead of the grid's cells, in this order. seeds: each config is
    trained once with each of these seeds, one after the other; none: with the experiment's.
    """

    strategy: Literal["grid"] = "grid"
    points: _Points | dict[str, _Points] = _POINTS
    configs: tuple[dict[str, JsonValue], ...] = ()
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = ()

    def points_of(self, path: str) -> int:
        """The number of values for the domain at the dotted `path`."""
        if isinstance(self.points, int):
            return self.points
        return self.points.get(path, _POINTS)

    @model_validator(mode="after")
    def _known_points(self) -> Self:
        if isinstance(self.points, dict):
            names = [path for path, _ in domains_of(self.space)]
            unknowns = [n for n in self.points if n not in names]
            if unknowns:
                raise FaultsError(
                    *(unknown(f"points.{n}", "hyperparameter", n, names) for n in unknowns)
                )
        return self

    @model_validator(mode="after")
    def _whole_configs(self) -> Self:
        faults = []
        for number, config in enumerate(self.configs):
            for name in sorted(set(config) - set(self.space)):
                faults.append(unknown(f"configs.{number}", "hyperparameter", name, self.space))
            for name in [name for name in self.space if name not in config]:
                faults.append(Fault(f"configs.{number}.{name}", "is missing"))
        if self.seeds and "seed" in self.space:
            faults.append(Fault("seeds", "cannot be given where `seed` is searched", self.seeds))
        if len(set(self.seeds)) < len(self.seeds):
            faults.append(Fault("seeds", "must differ from each other", self.seeds))
        if faults:
            raise FaultsError(*faults)
        return self

    def trials(self, num_samples: int | None) -> int:
        """The cells, or configs, times the seeds; at most `num_samples` where that is given."""
        allow = Constraints(self.forbid).allow
        cells = sum(map(allow, self.configs)) if self.configs else self._count(self.points_of)
        trials = cells * max(len(self.seeds), 1)
        return trials if num_samples is None else min(trials, num_samples)


class ModelSettings(SearchSettings):
    """What the strategies that learn from results share.

    points_to_evaluate: configs to begin with; what one leaves out is drawn.
    """

    points_to_evaluate: tuple[dict[str, JsonValue], ...] = ()


class HyperOptSettings(ModelSettings):
    """Tree-structured Parzen estimators, on hyperopt's spaces.

    startup: random trials before the model is asked. gamma: the share of trials that are the good
    ones, of which there are at most 25. candidates: draws that are compared for a suggestion.
    """

    strategy: Literal["hyperopt"] = "hyperopt"
    startup: int = Field(10, ge=1)
    gamma: float = Field(0.1, gt=0, lt=1)
    candidates: int = Field(64, ge=1)


class BayesOptSettings(ModelSettings):
    """A Gaussian process and expected improvement; startup: Sobol points before it is asked."""

    strategy: Literal["bayesopt"] = "bayesopt"
    startup: int = Field(8, ge=2)


class BOHBSettings(ModelSettings):
    """Kernel densities of the good and the bad trials, of whatever age.

    startup: Sobol points before the model is asked. random_share: of suggestions drawn at random.
    candidates: draws that are compared for a suggestion.
    """

    brackets: ClassVar[int] = 2

    strategy: Literal["bohb"] = "bohb"
    startup: int = Field(10, ge=1)
    random_share: float = Field(0.05, ge=0, le=1)
    candidates: int = Field(64, ge=1)


STRATEGIES: dict[str, type[SearchSettings]] = {
    "grid": GridSettings,
    "random": RandomSettings,
    "hyperopt": HyperOptSettings,
    "bayesopt": BayesOptSettings,
    "bohb": BOHBSettings,
}


def _settings(raw: object) -> object:
    if isinstance(raw, SearchSettings) or not isinstance(raw, Mapping):
        return raw
    strategy = raw.get("strategy", "random")
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        _, faults = parse(SearchSettings, {"strategy": "?", "space": raw.get("space", {})})
        raise FaultsError(unknown("strategy", "search", str(strategy), STRATEGIES), *faults)
    settings, faults = parse(STRATEGIES[strategy], raw)
    if faults:
        raise FaultsError(*faults)
    return settings


Search = Annotated[SerializeAsAny[SearchSettings], BeforeValidator(_settings)]
