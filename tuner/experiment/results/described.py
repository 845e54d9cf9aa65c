"""An experiment as its experiment.json describes it; its journal is not read."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.labels import Labels, labels_of
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.sections import Objective


class Described:
    """What an experiment's folder says of what it runs; nothing of what has come of it.

    `files` is the folder, `document` its experiment.json. Raises UsageError for a folder that is no
    experiment.
    """

    def __init__(self, folder: Path | str) -> None:
        self.files = ExperimentFolder(folder)
        self.files.refresh()
        self.document = self.files.document()
        objective = self.document["spec"]["objective"]
        self.objective = Objective(metric=objective["metric"], mode=objective["mode"])
        self.name = self.files.name

    @property
    def is_confirmation(self) -> bool:
        """Whether this experiment retrains the leaders of another one."""
        return bool(self.document["spec"].get("confirms"))

    @cached_property
    def labels(self) -> Labels:
        """What its user calls it."""
        return labels_of(self.files)

    @cached_property
    def spec(self) -> ExperimentSpec:
        """The experiment's spec, with the name and storage that its folder has now.

        Raises SpecError if this version cannot read it.
        """
        moved = {"name": self.folder.resolve().name, "storage": self.files.storage}
        return build_spec({**self.document["spec"], **moved}, str(self.folder))

    @property
    def folder(self) -> Path:
        """The experiment's folder on this machine."""
        return self.files.path

    @property
    def metric(self) -> str:
        """The objective's metric."""
        return self.objective.metric

    @property
    def mode(self) -> str:
        """The objective's mode: "min" or "max"."""
        return self.objective.mode

    @property
    def seed(self) -> int | None:
        """The seed of the trials that have none of their own."""
        spec = self.document["spec"]
        training = spec.get("training")
        own = training.get("seed") if isinstance(training, dict) else None
        seed: int | None = spec.get("seed") if own is None else own
        return seed
