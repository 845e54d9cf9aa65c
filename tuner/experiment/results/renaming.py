"""Another name for an experiment, in all that names it."""

from __future__ import annotations

import logging
from typing import Any

from tuner.errors import TunerError
from tuner.experiment.files import CONFIRMED, EXPERIMENT
from tuner.experiment.results.confirmation import linked
from tuner.experiment.results.described import Described
from tuner.spec.experiment import build_spec

_log = logging.getLogger(__name__)


def rename(experiment: Described, name: str) -> Described:
    """Give an experiment that no driver has another name; it as it is then.

    Its folder decides how it is called; whatever else has its name follows: experiment.json, and
    the link between a search and what confirms it. Raises SpecError for what is no name, and as
    `ExperimentFolder.rename` does.
    """
    old = experiment.files.name
    build_spec({**experiment.document["spec"], "name": name}, "the new name")
    confirming = linked(experiment)
    renamed = Described(experiment.files.rename(name, warn=_log.warning).path)
    _write(renamed, name=name)
    for folder in confirming:
        try:
            other = Described(folder)
        except TunerError:  # it is gone, and confirms nothing
            continue
        confirms = other.document["spec"].get("confirms")
        if isinstance(confirms, dict) and confirms.get("name") == old:
            _write(other, confirms={**confirms, "name": name})
    if renamed.is_confirmation:
        _follow(renamed, old, name)
    return Described(renamed.folder)


def _write(experiment: Described, **changes: Any) -> None:
    """Write experiment.json anew with some fields of its spec changed."""
    document = experiment.document
    changed = {**document, "spec": {**document["spec"], **changes}}
    experiment.files.write(EXPERIMENT, changed)


def _follow(confirmation: Described, old: str, name: str) -> None:
    """Let the search that a renamed experiment confirms name it."""
    searched = str(confirmation.document["spec"]["confirms"].get("name", ""))
    try:
        search = Described(confirmation.folder.with_name(searched))
    except (TunerError, ValueError):
        return
    names = [folder.name for folder in linked(search)]
    if old in names:
        new = [name if one == old else one for one in names]
        search.files.write(CONFIRMED, {"experiments": new})
