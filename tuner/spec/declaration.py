"""What a Learner declares beside its training: settings, faults, data, a summary.

A Learner's class or function has it as its attribute `declaration`. A package may have it as
`DECLARATION` in its module `declaration`: that is imported without the Learner, and torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tuner.errors import Fault, UsageError
from tuner.spec import code
from tuner.spec.by_value import ByValue
from tuner.spec.command import Command
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.loading import load_trainable
from tuner.spec.settings import Settings, bad_value, parse
from tuner.spec.space.extremes import list_extreme_configs, list_paired_configs
from tuner.spec.space.spaces import merge_config, walk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values = Mapping[str, Any]
_RENAMED = {  # hooks that would never be called
    "code": "find_code_paths",
    "confirming": "choose_confirm_constants",
    "epoch_s": "measure_epoch_s",
    "faults": "find_faults",
    "hints": "list_hints",
    "reference": "describe_settings",
    "refitting": "choose_refit",
    "seeds_trials": "has_trial_seeds",
}


class NodeData(Protocol):
    """Data that each node of a cluster needs on its disk. Pickled; its methods run there.

    state: (can send it, lacks it). download: raises DataError. load: file contents, for `receive`.
    """

    @property
    def title(self) -> str: ...
    def state(self) -> tuple[bool, bool]: ...
    def download(self) -> None: ...
    def load(self) -> list[NDArray[np.uint8]]: ...
    def receive(self, contents: list[NDArray[np.uint8]]) -> None: ...


@dataclass(frozen=True, slots=True)
class PinnedData:
    """An experiment's data, the same for all trials.

    constants: replace the spec's. content: a digest, which a resume compares. baseline: `images`
    and `baseline` of the validation split; `copies` across splits, of `measured` images of
    validation and test. doubts: about metrics on this data. recorded: constants that a resume takes
    as they are, and so part of the recorded spec.
    """

    constants: Values = field(default_factory=dict)
    content: str = ""
    baseline: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    recorded: Values = field(default_factory=dict)

    def apply(self, spec: ExperimentSpec) -> ExperimentSpec:
        """The spec as trials get it: with the constants of this data."""
        return spec.model_copy(update={"training": {**spec.training, **self.constants}})


class Declaration:
    """Inherit and override what applies; the defaults declare nothing.

    settings: the model of `training` merged with a config. combined: those of its fields that are
    refused only together with others; None: any may be. metrics: of `step`. schemes: of data
    sets that are experiments by themselves, as `folder` in folder:PATH. refit: constants for
    `training` with which the Learner trains on the training and validation images together; `step`
    then reports `epochs_trained`, the epochs so far. None if it cannot. final: the same with the
    test images, too.
    """

    settings: type[Settings] | None = None
    combined: Collection[str] | None = None
    metrics: tuple[str, ...] | None = None
    schemes: Collection[str] = ()
    refit: ClassVar[Values | None] = None
    final: ClassVar[Values | None] = None

    def __init_subclass__(cls) -> None:
        for old in vars(cls).keys() & _RENAMED.keys():
            raise TypeError(f"{cls.__name__}.{old} is {_RENAMED[old]} since tuner 0.2")

    def settle(self, spec: ExperimentSpec) -> ExperimentSpec:
        """The spec with what it leaves open decided by the Learner."""
        return spec

    def check(self, values: Values, spec: ExperimentSpec) -> list[Fault]:
        """The faults of one trial's settings; keys are relative to them."""
        if self.settings is None:
            return []
        outside = {"epochs", "seed"} - self.settings.model_fields.keys()
        return parse(
            self.settings, {k: v for k, v in values.items() if k not in outside}
        )[1]

    def find_faults(self, spec: ExperimentSpec, *, here: bool) -> Iterator[Fault]:
        """The faults of a spec. here: whether trials run on this machine."""
        folder = spec.training.get("data_dir")
        if here and isinstance(folder, str) and not Path(folder).expanduser().is_dir():
            yield Fault(
                "training.data_dir",
                "must be a folder that exists on this machine",
                folder,
            )
        yield from find_config_faults(spec, partial(self.check, spec=spec))

    def notes(self, spec: ExperimentSpec) -> Iterator[str]:
        """What works, but perhaps not as it is meant, for `tuner validate`."""
        yield from ()

    def list_hints(self, spec: ExperimentSpec) -> Iterator[str]:
        """What would make the search better, shown before it starts."""
        yield from ()

    def choose_refit(self, training: Values, epoch: int) -> tuple[Values, int]:
        """(`refit`, its epochs) after a trial of this `training` whose best epoch was `epoch`."""
        return self.refit or {}, epoch

    def choose_confirm_constants(self, training: Values) -> Values:
        """Constants with which a fresh seed trains otherwise, beside those of a `training`."""
        return {}

    def has_trial_seeds(self, spec: ExperimentSpec) -> bool:
        """Whether each trial gets a seed of its own, and not that of the experiment."""
        return False

    def data(self, spec: ExperimentSpec) -> dict[str, Any] | None:
        """What a plan shows of the data: {title, images, shape, classes}, or None."""
        return None

    def pin_data(
        self, spec: ExperimentSpec, *, download: bool, here: bool
    ) -> PinnedData | None:
        """Fix the data, or None without the needed `download`. Raises DataError and SpecError."""
        return PinnedData()

    def constants(self, spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
        """The constants of every Learner, with an absolute `data_dir`. here: on this machine."""
        constants = spec.constants
        if isinstance(folder := constants.get("data_dir"), str):
            constants["data_dir"] = str(Path(folder).expanduser().absolute())
        return constants

    def node_data(self, spec: ExperimentSpec) -> Sequence[NodeData]:
        """The data that the nodes of a cluster send each other before trials start."""
        return ()

    def summaries(self, spec: ExperimentSpec) -> list[dict[str, Any]]:
        """Of each network {model, parameters}, optionally {settings, images, classes, stages:
        [{name, kind, output, parameters}], trainable, mib, unused}. Raises UsageError if none is
        declared.
        """
        raise UsageError(
            f"--summary: {spec.trainable} declares no summary of its networks"
        )

    def measure_epoch_s(self, spec: ExperimentSpec) -> float | None:
        """The seconds of an epoch on this machine, measured within a few seconds, or None."""
        return None

    def find_code_paths(self, spec: Values) -> Iterator[tuple[str, str]]:
        """(key, module:name) of user code in a spec's plain values, for the Learner that ships."""
        yield from ()

    def default_experiment(
        self,
        dataset: str,
        directory: Path,
        training: Values,
        space: Values,
        budget_s: object = None,
        metric: object = None,
    ) -> dict[str, Any]:
        """A spec's plain values for a data set of one of the `schemes`.

        training, space, budget_s, metric: values and domains that the user sets; metric: of the
        objective. Raises SpecError for unusable data, DataError for missing data.
        """
        raise NotImplementedError

    def export(
        self, results: Any, to: Path, *, trial_id: str | None, formats: Collection[str]
    ) -> Path:
        """Write a trial's best checkpoint to a new folder, also of another Learner's Results."""
        raise NotImplementedError

    def describe_settings(
        self,
    ) -> tuple[Mapping[str, str], Mapping[str, tuple[str, Mapping[str, str]]]]:
        """For `tuner spec`: ({setting: default}, {list: (title, {name: text})})."""
        return {}, {}


def load_declaration(trainable: str) -> Declaration:
    """The Declaration of a spec's trainable, by default an empty one.

    Imports its package's module `declaration`, else the trainable. Raises as `load_trainable`, and
    FaultsError for an attribute of another type.
    """
    if trainable == code.ELSEWHERE or isinstance(trainable, Command):
        return Declaration()
    module = (
        None
        if isinstance(trainable, ByValue)
        else code.find_declaration_module(trainable)
    )
    if module and (module in sys.modules or code.find_module_file(module)):
        declared = getattr(import_module(module), code.DECLARATION, None)
        if isinstance(declared, Declaration):
            return declared
    declared = getattr(load_trainable(trainable), "declaration", None) or Declaration()
    if isinstance(declared, Declaration):
        return declared
    raise bad_value(
        "must have a tuner.spec.declaration.Declaration as its `declaration`", declared
    )


def load_default_declaration() -> Declaration:
    return load_declaration(code.IMAGE_CLASSIFIER)


def find_config_faults(
    spec: ExperimentSpec,
    check: Callable[[Values], Iterable[Fault]],
    *,
    pinned: Values | None = None,
) -> Iterator[Fault]:
    """The faults that `check` finds in trials' settings, at the space's extremes, each once."""
    constants = {**spec.constants, **(pinned or {})}
    search = spec.search
    faults: dict[tuple[str, str], Fault] = {}
    for config in list_extreme_configs(search.space, search.forbid):
        for fault in check(merge_config(constants, config)):
            fault = _add_section(fault, search.space)
            faults.setdefault((fault.key, fault.rule), fault)
    yield from faults.values()
    for number, config in enumerate(getattr(spec.search, "configs", ())):
        for fault in check(merge_config(constants, config)):
            yield fault.add_prefix(f"search.configs.{number}")


def find_paired_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """The faults of settings together that work alone: of two searched ones, and of first configs.

    Each is named once. A first config is checked if it leaves nothing open.
    """
    declaration = load_declaration(spec.trainable)
    if declaration.settings is None and type(declaration).check is Declaration.check:
        return
    spec = declaration.settle(spec)
    search = spec.search
    combined = declaration.combined
    names = [name for name in search.space if combined is None or name in combined]
    found: set[tuple[str, str]] = set()
    for config, values in list_paired_configs(search.space, names, search.forbid):
        for fault in declaration.check(merge_config(spec.constants, config), spec):
            if (fault.key, fault.rule) not in found:
                found.add((fault.key, fault.rule))
                both = ", ".join(f"{name}={value}" for name, value in values.items())
                rule = f"{fault.rule} (as with {both}; search.forbid leaves such configs out)"
                yield _add_section(replace(fault, rule=rule), search.space)
    for number, point in enumerate(getattr(search, "points_to_evaluate", ())):
        if point.keys() >= search.space.keys():
            for fault in declaration.check(merge_config(spec.constants, point), spec):
                yield fault.add_prefix(f"search.points_to_evaluate.{number}")


def _add_section(fault: Fault, space: Values) -> Fault:
    """A fault of a trial's settings with the section of the spec that has its key."""
    key = f"{fault.key}."
    searched = (f"{position.path}." for position, _ in walk(space))
    is_searched = any(key.startswith(path) or path.startswith(key) for path in searched)
    return fault.add_prefix("search.space" if is_searched else "training")
