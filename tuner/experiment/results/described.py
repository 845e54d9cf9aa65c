"""What an experiment is, by experiment.json, and what its user calls it, by labels.json."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tuner.errors import UsageError, translate_error
from tuner.experiment.files import LABELS
from tuner.experiment.folder import ExperimentFolder
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.sections import Objective

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_LONGEST = 1000  # characters of a note


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags, in the order in which they were given, and a note, empty where there is none."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def add_tags(self, tags: Iterable[str]) -> Labels:
        """These with more tags. Raises UsageError for what is none."""
        new = tuple(dict.fromkeys([*self.tags, *tags]))
        for tag in new:
            if not _TAG.fullmatch(tag):
                rule = "must be letters, digits, '.', '_' and '-', at most 50"
                raise UsageError(f"a tag {rule}, got {tag!r}")
        return replace(self, tags=new)

    def remove_tags(self, tags: Iterable[str]) -> Labels:
        return replace(
            self, tags=tuple(tag for tag in self.tags if tag not in set(tags))
        )

    def replace_note(self, note: str) -> Labels:
        """These with another note. Raises UsageError for one that is too long."""
        if len(note) > _LONGEST:
            raise UsageError(
                f"a note has at most {_LONGEST} characters, got {len(note)}"
            )
        return replace(self, note=note)

    def write(self, files: ExperimentFolder) -> None:
        """Write them into the experiment's folder, completely or not at all. Raises as it does."""
        files.write(LABELS, {"tags": list(self.tags), "note": self.note})


def read_labels(files: ExperimentFolder) -> Labels:
    """The labels of an experiment; none where its file is missing or damaged."""
    try:
        document = files.read(LABELS)
    except (OSError, ValueError):
        return Labels()
    match document:
        case {"tags": list(tags), "note": str(note)}:
            valid = (
                tag for tag in tags if isinstance(tag, str) and _TAG.fullmatch(tag)
            )
            return Labels(tuple(valid), note[:_LONGEST])
    return Labels()


class Described:
    """An experiment without its journal. Raises UsageError for a folder that is none."""

    def __init__(self, folder: Path | str) -> None:
        self.files = ExperimentFolder(folder)
        self.files.refresh()
        self.document = self.files.read_document()
        objective = self.document["spec"]["objective"]
        with translate_error(
            UsageError, f"experiment.json of {self.files.name} is damaged"
        ):
            known = {
                name: objective[name]
                for name in Objective.model_fields
                if name in objective
            }
            self.objective = Objective.model_validate(
                {**known, "mode": objective["mode"]}
            )
        self.metric: str = self.objective.metric
        self.mode: str = self.objective.mode
        self.name = self.files.name
        self.folder = self.files.path  # on this machine

    @property
    def is_confirmation(self) -> bool:
        """Whether this experiment retrains the leaders of another one."""
        return bool(self.document["spec"].get("confirms"))

    @cached_property
    def labels(self) -> Labels:
        return read_labels(self.files)

    @cached_property
    def spec(self) -> ExperimentSpec:
        """The spec, with the folder's name and storage. Raises SpecError for another version's."""
        moved = {"name": self.folder.resolve().name, "storage": self.files.storage}
        return build_spec(
            {**self.document["spec"], **moved}, str(self.folder), recorded=True
        )

    @property
    def seed(self) -> int | None:
        """The seed of the trials that have none of their own."""
        spec = self.document["spec"]
        training = spec.get("training")
        constant = training.get("seed") if isinstance(training, dict) else None
        seed: int | None = spec.get("seed") if constant is None else constant
        return seed
