"""What the user of an experiment calls it: tags and a note, in labels.json beside its journal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tuner.errors import UsageError
from tuner.experiment.files import LABELS
from tuner.experiment.folder import ExperimentFolder

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_LONGEST = 1000  # characters of a note


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags, in the order in which they were given, and a note, empty where there is none."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def tagged(self, tags: Iterable[str]) -> Labels:
        """These with more tags. Raises UsageError for what is none."""
        new = tuple(dict.fromkeys([*self.tags, *tags]))
        for tag in new:
            if not _TAG.fullmatch(tag):
                rule = "must be letters, digits, '.', '_' and '-', at most 50"
                raise UsageError(f"a tag {rule}, got {tag!r}")
        return replace(self, tags=new)

    def untagged(self, tags: Iterable[str]) -> Labels:
        """These without some tags. Raises UsageError for one that is not there."""
        gone = set(tags)
        if strangers := sorted(gone - set(self.tags)):
            has = ", ".join(self.tags) or "none"
            raise UsageError(f"there is no tag {strangers[0]!r} to remove; it has {has}")
        return replace(self, tags=tuple(tag for tag in self.tags if tag not in gone))

    def noted(self, note: str) -> Labels:
        """These with another note. Raises UsageError for one that is too long."""
        if len(note) > _LONGEST:
            raise UsageError(f"a note has at most {_LONGEST} characters, got {len(note)}")
        return replace(self, note=note)

    def write(self, files: ExperimentFolder) -> None:
        """Write them into the experiment's folder, whole or not at all."""
        files.write(LABELS, {"tags": list(self.tags), "note": self.note})


def labels_of(files: ExperimentFolder) -> Labels:
    """The labels of an experiment; none where its file is missing or damaged."""
    try:
        document = files.read(LABELS)
    except (OSError, ValueError):
        return Labels()
    match document:
        case {"tags": list(tags), "note": str(note)}:
            known = (tag for tag in tags if isinstance(tag, str) and _TAG.fullmatch(tag))
            return Labels(tuple(known), note[:_LONGEST])
    return Labels()
