"""The frozen, validated description of an experiment, and its parts.

An `ExperimentSpec` says everything about a run but where Ray is. It is built from Python, from a
mapping, or from YAML or JSON text, and goes back to each without loss. What can be told without
importing the trainable or looking at the machine is checked here; `tuner.validation` does the rest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    SerializeAsAny,
    field_validator,
    model_validator,
)

from tuner.constraints import Constraints
from tuner.domains import domains_of, names_of, parse_space, space_size, space_text
from tuner.errors import Fault, SpecError, unknown
from tuner.grid import MOST_LISTED, Points, allowed_cells, count_cells, every_value
from tuner.parts import Part, Rule, parse
from tuner.rungs import most_brackets

IMAGE_CLASSIFIER = "tuner.training.classifier:ImageClassifier"

SpaceField = Annotated[
    Mapping[str, Any],
    BeforeValidator(parse_space),
    PlainSerializer(space_text, return_type=dict[str, Any]),
]


class SearchSettings(Part):
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
        except Rule as rule:
            faults = list(rule.faults)
        if faults:
            raise Rule(*(fault.under("forbid") for fault in faults))
        return self

    def _count(self, points: Points) -> int:
        """The cells of a grid that are allowed; of one too large to be listed, all."""
        cells = count_cells(self.space, points)
        if not self.forbid or cells > MOST_LISTED:
            return cells
        return sum(1 for _ in allowed_cells(self.space, points, Constraints(self.forbid)))

    def trials(self, num_samples: int | None) -> int | None:
        """How many trials the search gives: None where only the time budget ends it."""
        finite = space_size(self.space) is not None
        size = self._count(every_value) if finite else None
        return num_samples if size is None else min(size, num_samples or size)


class RandomSettings(SearchSettings):
    """Configs drawn independently from the domains; a finite space is drawn without repeats."""

    strategy: Literal["random"] = "random"


_POINTS = 3  # values of a continuous domain on a grid


class GridSettings(SearchSettings):
    """Every combination, in declared order, the last name changing fastest.

    points: how many values a continuous domain (or an integer range that is longer) gets, 1 or
    more, evenly spaced in the domain's own scale; one number for all, or one for each name.
    """

    strategy: Literal["grid"] = "grid"
    points: Annotated[int, Field(ge=1)] | dict[str, Annotated[int, Field(ge=1)]] = _POINTS

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
                raise Rule(*(unknown(f"points.{n}", "hyperparameter", n, names) for n in unknowns))
        return self

    def trials(self, num_samples: int | None) -> int:
        """The number of cells, at most `num_samples` where that is given."""
        cells = self._count(self.points_of)
        return cells if num_samples is None else min(cells, num_samples)


class ModelSettings(SearchSettings):
    """What the strategies that learn from results share.

    points_to_evaluate: configs to begin with; what one leaves out is drawn.
    """

    points_to_evaluate: tuple[dict[str, JsonValue], ...] = ()


class HyperOptSettings(ModelSettings):
    """Tree-structured Parzen estimators, by hyperopt.

    startup: random trials before the model is asked. gamma: ceil(gamma * sqrt(n)) of n trials are
    the good ones. candidates: draws that are compared for a suggestion.
    """

    strategy: Literal["hyperopt"] = "hyperopt"
    startup: int = Field(10, ge=1)
    gamma: float = Field(1.0, gt=0)
    candidates: int = Field(24, ge=1)


class BayesOptSettings(ModelSettings):
    """A Gaussian process and expected improvement; startup: Sobol points before it is asked."""

    strategy: Literal["bayesopt"] = "bayesopt"
    startup: int = Field(8, ge=2)


class BOHBSettings(ModelSettings):
    """Kernel densities of the good and the bad trials at the highest rung with enough of them.

    startup: random trials before the model is asked. random_share: of suggestions drawn at random.
    candidates: draws that are compared for a suggestion.
    """

    brackets: ClassVar[int] = 2

    strategy: Literal["bohb"] = "bohb"
    startup: int = Field(6, ge=1)
    random_share: float = Field(1 / 3, ge=0, le=1)
    candidates: int = Field(64, ge=1)


STRATEGIES: dict[str, type[SearchSettings]] = {
    "grid": GridSettings,
    "random": RandomSettings,
    "hyperopt": HyperOptSettings,
    "bayesopt": BayesOptSettings,
    "bohb": BOHBSettings,
}


def _search(raw: object) -> object:
    if isinstance(raw, SearchSettings) or not isinstance(raw, Mapping):
        return raw
    strategy = raw.get("strategy", "random")
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        _, faults = parse(SearchSettings, {"strategy": "?", "space": raw.get("space", {})})
        raise Rule(unknown("strategy", "search", str(strategy), STRATEGIES), *faults)
    settings, faults = parse(STRATEGIES[strategy], raw)
    if faults:
        raise Rule(*faults)
    return settings


class Objective(Part):
    """The metric that decides, and whether its best is the "min" or the "max"."""

    metric: str = Field("val_loss", min_length=1)
    mode: Literal["min", "max"] = "min"


class AshaSettings(Part):
    """Asynchronous successive halving (Li et al., MLSys 2020), counted in epochs.

    max_t: upper bound of a trial in epochs, inclusive. grace_period: the first rung, the epoch
    before which no trial is stopped. reduction_factor: above 1; one in so many goes on at a rung.
    brackets: of asynchronous Hyperband; each begins one rung later than the one before, for what
    looks bad at first. None: 1, and for bohb 2.
    """

    name: Literal["asha"] = "asha"
    max_t: int = Field(10, ge=1)
    grace_period: int = Field(1, ge=1)
    reduction_factor: float = Field(4, gt=1)
    brackets: int | None = Field(None, ge=1)

    @property
    def most_brackets(self) -> int:
        """One for each rung, and one that stops no trial."""
        return most_brackets(self.max_t, self.grace_period, self.reduction_factor)

    @model_validator(mode="after")
    def _grace_within(self) -> Self:
        if self.grace_period > self.max_t:
            raise Rule(
                Fault(
                    "grace_period",
                    f"must be at most max_t, got {self.grace_period} and {self.max_t}",
                )
            )
        if self.brackets and self.brackets > self.most_brackets:
            rule = f"must be at most {self.most_brackets}, one more than there are rungs"
            raise Rule(Fault("brackets", rule, self.brackets))
        return self


SCHEDULERS = ("asha", "none")


def _scheduler(raw: object) -> object:
    name = raw.get("name", "asha") if isinstance(raw, Mapping) else raw
    if isinstance(name, str) and name not in SCHEDULERS:
        raise Rule(unknown("", "scheduler", name, SCHEDULERS))
    return None if name == "none" else {"name": raw} if isinstance(raw, str) else raw


class Resources(Part):
    """What one trial reserves: CPUs and GPUs of each worker, and how many workers (DDP ranks)."""

    cpus: float = Field(1, gt=0)
    gpus: float = Field(0, ge=0)
    workers: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _gpu_shares(self) -> Self:
        whole = self.gpus == int(self.gpus)
        if self.workers > 1 and not whole:
            raise Rule(Fault("gpus", "must be whole when workers is above 1", self.gpus))
        if self.gpus > 1 and not whole:
            raise Rule(Fault("gpus", "must be a share below 1 or a whole number", self.gpus))
        return self


class Timeouts(Part):
    """How long to wait before something counts as hanging, in seconds.

    report_s: the longest that an epoch, or a trial's start, may take. ranks_s: the longest that
    one worker of a trial waits for another.
    """

    report_s: float = Field(3600, gt=0)
    ranks_s: float = Field(600, gt=0)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_name(name: str) -> str:
    """`name`, where it can be an experiment's folder. Raises Rule otherwise."""
    if not _NAME.fullmatch(name) or ".." in name or len(name) > 100:
        rule = "must be letters, digits, '-', '_' and single '.', at most 100, no path"
        raise Rule(Fault("", rule, name))
    return name


def default_storage() -> str:
    """The folder that holds experiments: $TUNER_STORAGE, else `results` where you stand."""
    return os.environ.get("TUNER_STORAGE") or "./results"


def _dotted(raw: object) -> object:
    """`module:name` of a class or function that is given itself."""
    if isinstance(raw, str):
        module, _, name = raw.partition(":") if ":" in raw else raw.rpartition(".")
        parts = [*module.split("."), *name.split(".")]
        if not module or not all(part.isidentifier() for part in parts):
            raise Rule(Fault("", "must be a dotted path, as in 'package.module:Name'", raw))
        return f"{module}:{name}"
    module, name = getattr(raw, "__module__", ""), getattr(raw, "__qualname__", "")
    if not module or not name or "<" in name:
        rule = "cannot be pickled for the workers: define it by name at a module's top level"
        raise Rule(Fault("", rule, repr(raw)))
    return f"{module}:{name}"


class ExperimentSpec(Part):
    """One experiment: what trains, what is searched, what decides, what it may use.

    name: its folder under `storage`. trainable: dotted path of a Learner class or a plain Tune
    function. training: the trainable's constants. num_samples: trials, 1 or more; only a grid or a
    time budget may leave it out. max_concurrent: trials at a time; None: as many as fit.
    time_budget_s: seconds after which no epoch is begun. seed: decides every config and every
    trial's initial weights. storage: a folder; relative to where the run is started.
    """

    name: Annotated[str, BeforeValidator(lambda raw: check_name(str(raw)))] = "experiment"
    trainable: Annotated[str, BeforeValidator(_dotted)] = IMAGE_CLASSIFIER
    training: dict[str, JsonValue] = Field(default_factory=dict)
    search: Annotated[SerializeAsAny[SearchSettings], BeforeValidator(_search)]
    objective: Objective = Objective()
    scheduler: Annotated[AshaSettings | None, BeforeValidator(_scheduler)] = AshaSettings()
    resources: Resources = Resources()
    timeouts: Timeouts = Timeouts()
    num_samples: int | None = Field(None, ge=1)
    max_concurrent: int | None = Field(None, ge=1)
    time_budget_s: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0, lt=2**32)
    storage: str = Field(default_factory=default_storage, min_length=1)

    @field_validator("training", mode="before")
    @classmethod
    def _named_constants(cls, raw: object) -> object:
        return {} if raw is None else raw

    @model_validator(mode="after")
    def _ends(self) -> Self:
        faults = []
        if self.search.strategy != "grid" and self.num_samples is None and not self.time_budget_s:
            faults.append(Fault("num_samples", "is required, unless the search is grid"))
        for name in sorted(set(self.search.space) & set(self.training)):
            faults.append(
                Fault(f"training.{name}", f"is also searched: set search.space.{name} instead")
            )
        if faults:
            raise Rule(*faults)
        return self

    @property
    def folder(self) -> Path:
        """The experiment's folder, STORAGE/NAME."""
        return Path(self.storage).expanduser() / self.name

    @property
    def ships(self) -> bool:
        """Whether the trainable is the image classifier that ships with tuner."""
        return self.trainable == IMAGE_CLASSIFIER

    @property
    def trials(self) -> int | None:
        """How many trials there will be; None where only the time budget ends the search."""
        return self.search.trials(self.num_samples)

    @property
    def epochs(self) -> int | None:
        """The length of a whole trial in epochs; None where the trainable ends by itself."""
        given = self.training.get("epochs")
        lengths = [self.scheduler.max_t] if self.scheduler else []
        if isinstance(given, int):
            lengths.append(given)
        return min(lengths, default=None)

    @property
    def brackets(self) -> int:
        """How many brackets the scheduler has; 1 where there is no scheduler."""
        if self.scheduler is None:
            return 1
        default = min(self.search.brackets, self.scheduler.most_brackets)
        return self.scheduler.brackets or default

    @property
    def constants(self) -> dict[str, Any]:
        """What every Learner of the experiment is built with, `epochs` and `seed` among it.

        `epochs` is left out where nothing tells it.
        """
        length = {} if self.epochs is None else {"epochs": self.epochs}
        return {**length, "seed": self.seed, **self.training}

    def replace(self, **changes: Any) -> ExperimentSpec:
        """This spec with the given fields changed, validated anew. Raises SpecError."""
        return build_spec({**self.model_dump(mode="json"), **changes})

    def to_json(self) -> str:
        """The spec as JSON text."""
        return self.model_dump_json(indent=2)

    def to_yaml(self) -> str:
        """The spec as YAML text."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=100)

    @classmethod
    def from_text(cls, text: str) -> ExperimentSpec:
        """The spec that YAML or JSON `text` holds. Raises SpecError with every fault."""
        return build_spec(read_mapping(text))


def build_spec(raw: Mapping[str, Any], source: str = "the spec") -> ExperimentSpec:
    """The spec of a mapping. Raises SpecError that lists every fault, headed by `source`."""
    spec, faults = parse(ExperimentSpec, raw)
    if spec is None:
        raise SpecError(faults, source)
    return spec


class _Loader(yaml.SafeLoader):
    """YAML whose floats may be written without a dot, as in 1e-3 (YAML 1.1 reads that as text)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)|[-+]?(\d+\.\d*|\.\d+)", re.X),
    list("-+0123456789."),
)


def read_value(text: str) -> Any:
    """What `text` means as a YAML value: 1e-3 a number, `true` a bool, `[1, 2]` a list."""
    return yaml.load(text, Loader=_Loader)


def read_mapping(text: str, source: str = "the spec") -> dict[str, Any]:
    """The mapping that YAML or JSON `text` holds. Raises SpecError where it does not parse."""
    try:
        raw = read_value(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise SpecError([Fault("", f"is neither YAML nor JSON: {reason}")], source) from None
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise SpecError([Fault("", "must be a mapping of names to values", raw)], source)
    return raw


def override(raw: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`raw` with each `dotted.path=value` set; values are read as YAML.

    `search.space.lr=loguniform(1e-5, 1e-2)` sets a domain. Raises SpecError for an assignment
    without `=`, or a path through something that holds no keys.
    """
    changed: dict[str, Any] = json.loads(json.dumps(raw))
    faults = []
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *parents, last = path.strip().split(".")
        if not equals or not all([*parents, last]):
            faults.append(Fault(assignment, "must be KEY=VALUE, as in scheduler.max_t=30"))
            continue
        node = changed
        for parent in parents:
            if not isinstance(node.get(parent), dict):
                if isinstance(node.get(parent), str | int | float | list):
                    faults.append(Fault(path, f"{parent!r} holds no keys", node[parent]))
                    break
                node[parent] = {}
            node = node[parent]
        else:
            try:
                node[last] = read_value(text)
            except yaml.YAMLError as error:
                faults.append(Fault(path, f"cannot be read: {' '.join(str(error).split())}", text))
    if faults:
        raise SpecError(faults, "the command line")
    return changed


def with_strategy(raw: Mapping[str, Any], strategy: str) -> dict[str, Any]:
    """`raw` searched by `strategy` over the same space; other strategies' settings are dropped.

    A grid runs all of its cells, so a number of samples meant for another strategy goes too.
    """
    search = raw.get("search") or {}
    if not isinstance(search, Mapping) or search.get("strategy", "random") == strategy:
        return dict(raw)
    changed = {**raw, "search": {"strategy": strategy, "space": search.get("space", {})}}
    if strategy == "grid":
        changed.pop("num_samples", None)
    return changed
