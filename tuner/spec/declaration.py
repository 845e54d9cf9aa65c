"""What a Learner declares beside its training: its settings, its faults, its data, a summary.

A Learner's class, or the function that builds it, has a `Declaration` as its attribute
`declaration`. A package may have it as `DECLARATION` in its module `declaration` instead: that is
imported without the Learner, so a spec is checked without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tuner.errors import Fault, UsageError
from tuner.settings import FaultsError, Settings, parse
from tuner.spec.by_value import ByValue
from tuner.spec.code import DECLARATION, ELSEWHERE, IMAGE_CLASSIFIER, declaration_module, file_of
from tuner.spec.command import Command
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.loading import load_trainable
from tuner.spec.space.spaces import extreme_configs, merged, walk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values = Mapping[str, Any]


class NodeData(Protocol):
    """Data that each node of a cluster needs on its disk. It is pickled; its methods run there.

    title: its name in messages. state: whether the node can send the data, and whether it lacks it.
    download: raises DataError. load: the contents of the files, which `receive` writes elsewhere.
    """

    @property
    def title(self) -> str: ...
    def state(self) -> tuple[bool, bool]: ...
    def download(self) -> None: ...
    def load(self) -> list[NDArray[np.uint8]]: ...
    def receive(self, contents: list[NDArray[np.uint8]]) -> None: ...


@dataclass(frozen=True, slots=True)
class PinnedData:
    """The data of an experiment as its trials read it, the same for all of them.

    constants: replace those of the spec. content: a digest of the data; a resume compares it.
    baseline: `images` of the validation split and the share of its largest class as `baseline`.
    doubts: what makes metrics on this data doubtful, in words.
    """

    constants: Values = field(default_factory=dict)
    content: str = ""
    baseline: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


class Declaration:
    """Inherit, and set or override what applies; each default declares nothing.

    settings: the model of a trial's settings, which are `training` and one config, merged; `epochs`
    and `seed` need not be in it. metrics: what `step` may report. schemes: of the data sets that
    are experiments by themselves, as `folder` in folder:PATH.
    """

    settings: type[Settings] | None = None
    metrics: tuple[str, ...] | None = None
    schemes: Collection[str] = ()

    def settle(self, spec: ExperimentSpec) -> ExperimentSpec:
        """The spec with what it leaves open decided by the Learner."""
        return spec

    def check(self, values: Values, spec: ExperimentSpec) -> list[Fault]:
        """The faults of one trial's settings; keys are relative to them."""
        if self.settings is None:
            return []
        outside = {"epochs", "seed"} - self.settings.model_fields.keys()
        return parse(self.settings, {k: v for k, v in values.items() if k not in outside})[1]

    def faults(self, spec: ExperimentSpec, *, here: bool) -> Iterator[Fault]:
        """The faults of a spec. here: whether trials run on this machine."""
        folder = spec.training.get("data_dir")
        if here and isinstance(folder, str) and not Path(folder).expanduser().is_dir():
            yield Fault("training.data_dir", "must be a folder that exists on this machine", folder)
        yield from faults_of_configs(spec, partial(self.check, spec=spec))

    def notes(self, spec: ExperimentSpec) -> Iterator[str]:
        """What works, but perhaps not as it is meant, for `tuner validate`."""
        yield from ()

    def hints(self, spec: ExperimentSpec) -> Iterator[str]:
        """What would make the search better, shown before it starts."""
        yield from ()

    def data(self, spec: ExperimentSpec) -> dict[str, Any] | None:
        """What a plan shows of the data: {title, images, shape, classes}, or None."""
        return None

    def pin_data(self, spec: ExperimentSpec, *, download: bool, here: bool) -> PinnedData | None:
        """Fix the data before the search; None if that takes a download and `download` is False.

        Raises DataError for data that is not there, and SpecError if the spec does not fit it.
        """
        return PinnedData()

    def constants(self, spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
        """What every Learner is built with: a `data_dir` does not depend on where a trial works.

        here: whether all trials run on this machine.
        """
        constants = spec.trial_constants
        if isinstance(folder := constants.get("data_dir"), str):
            constants["data_dir"] = str(Path(folder).expanduser().absolute())
        return constants

    def node_data(self, spec: ExperimentSpec) -> Sequence[NodeData]:
        """The data that the nodes of a cluster send each other before trials start."""
        return ()

    def summaries(self, spec: ExperimentSpec) -> list[dict[str, Any]]:
        """Of each network that a spec can train: {model, parameters}, and if known {settings,
        images, classes, stages: [{name, kind, output, parameters}], trainable, mib, unused}.

        Raises UsageError for a Learner that declares none.
        """
        raise UsageError(f"--summary: {spec.trainable} declares no summary of its networks")

    def code(self, spec: Values) -> Iterator[tuple[str, str]]:
        """(key, module:name) of each piece of a user's code that a spec's plain values name.

        It is asked of a Learner that ships alone: any other is a user's code itself.
        """
        yield from ()

    def default_experiment(self, dataset: str, directory: Path, training: Values) -> dict[str, Any]:
        """The plain values of a spec for a data set of one of the `schemes`, seen from `directory`.

        training: the values of the section `training` that the user sets, which replace those of
        the spec. Raises SpecError for data that cannot work, and DataError for missing data.
        """
        raise NotImplementedError

    def export(
        self, results: Any, to: Path, *, trial_id: str | None, formats: Collection[str]
    ) -> Path:
        """Write a trial's best checkpoint to a new folder, also of another Learner's Results."""
        raise NotImplementedError

    def reference(self) -> tuple[Mapping[str, str], Mapping[str, tuple[str, Mapping[str, str]]]]:
        """What `tuner spec` says beside the settings' own descriptions.

        ({setting: its default in words}, {key of a further list: (title, {name: text})}).
        """
        return {}, {}


def declaration_of(trainable: str) -> Declaration:
    """The Declaration of a spec's trainable; one that declares nothing if it has none.

    Imports the module `declaration` of the trainable's package, else the trainable. Raises what
    `load_trainable` raises, and FaultsError for an attribute that is no Declaration.
    """
    if trainable == ELSEWHERE or isinstance(trainable, Command):
        return Declaration()
    module = None if isinstance(trainable, ByValue) else declaration_module(trainable)
    if module and file_of(module):
        declared = getattr(import_module(module), DECLARATION, None)
        if isinstance(declared, Declaration):
            return declared
    declared = getattr(load_trainable(trainable), "declaration", None)
    if declared is None or isinstance(declared, Declaration):
        return declared or Declaration()
    rule = "must have a tuner.spec.declaration.Declaration as its `declaration`"
    raise FaultsError(Fault("", rule, declared))


def default_declaration() -> Declaration:
    """The Declaration of the Learner that a spec trains unless it names another."""
    return declaration_of(IMAGE_CLASSIFIER)


def faults_of_configs(
    spec: ExperimentSpec,
    check: Callable[[Values], Iterable[Fault]],
    *,
    pinned: Values | None = None,
) -> Iterator[Fault]:
    """The faults of what trials may train with, at every extreme of the space, by a spec's keys.

    Of each rule that a setting breaks the first value is shown. check: the faults of one trial's
    settings. pinned: replaces some of the constants.
    """
    constants, space = {**spec.constants, **(pinned or {})}, spec.search.space
    searched = [f"{position.path}." for position, _ in walk(space)]
    faults: dict[tuple[str, str], Fault] = {}
    for config in extreme_configs(space):
        for fault in check(merged(constants, config)):
            key = f"{fault.key}."
            is_searched = any(key.startswith(path) or path.startswith(key) for path in searched)
            fault = fault.under("search.space" if is_searched else "training")
            faults.setdefault((fault.key, fault.rule), fault)
    yield from faults.values()
    for number, config in enumerate(getattr(spec.search, "configs", ())):
        for fault in check(merged(constants, config)):
            yield fault.under(f"search.configs.{number}")
