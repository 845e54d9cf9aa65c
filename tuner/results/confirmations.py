"""Which experiment confirms a search: links between folders, and whether they still hold.

The search's folder names its confirmations in confirmed.json; without that, or where they are gone,
not finished, or older than the search's present leader, the search counts as not confirmed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import TunerError
from tuner.record.events import COMPLETED
from tuner.record.folder import read_json, write_document
from tuner.record.history import TrialRecord
from tuner.record.plain_files import check_folder
from tuner.record.remote import mirror
from tuner.results.confirmation import Confirmation
from tuner.results.results import Results

LINK = mirror.CONFIRMED  # in the search's folder


def confirmation_of(results: Results) -> Confirmation | None:
    """What is known of the search `results` by its newest finished confirmation, else None.

    Of an experiment that itself confirms another it is its own. None, too, where the search has
    gone on since and has a leader that was not among those retrained.
    """
    if results.spec.get("confirms"):
        return _finished(results)
    leader = leaders(results, 1)
    for folder in reversed(linked(results)):
        try:
            confirmation = _finished(Results(folder))
        except TunerError:  # gone, renamed, or damaged: the search is not confirmed by it
            continue
        if confirmation is None or confirmation.confirms.name != results.folder.resolve().name:
            continue
        current = leader and leader[0].trial_id in confirmation.confirms.trials
        return confirmation if current else None
    return None


def leaders(results: Results, k: int) -> list[TrialRecord]:
    """The `k` best usable trials of different configs, best first; a seed is no part of these."""
    found: dict[str, TrialRecord] = {}
    for trial in results.top():
        found.setdefault(json.dumps(without_seed(trial.config), sort_keys=True), trial)
        if len(found) == k:
            break
    return list(found.values())


def without_seed(values: Mapping[str, Any]) -> dict[str, Any]:
    """A config or a space but for `seed`, which confirming sets anew."""
    return {name: value for name, value in values.items() if name != "seed"}


def linked(results: Results) -> list[Path]:
    """The folders, beside that of the search, that it names as its confirmations; oldest first."""
    try:
        names = read_json(results.folder / LINK)["experiments"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    folder = results.folder
    beside = folder.parent if folder.name not in ("", "..") else folder.resolve().parent
    plain = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
    return [beside / name for name in plain if Path(name).name == name != ".."]


def link(results: Results, name: str) -> None:
    """Name the experiment `name`, beside the search, as its newest confirmation.

    Raises UsageError as `check_folder` does.
    """
    check_folder(results.folder)
    names = [folder.name for folder in linked(results) if folder.name != name]
    write_document(results.folder / LINK, {"experiments": [*names, name]})


def _finished(results: Results) -> Confirmation | None:
    if not results.spec.get("confirms") or results.status != COMPLETED:
        return None
    return Confirmation(results)
