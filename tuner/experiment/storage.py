"""Where experiments lie: finding one by its name, listing all, and finding a free name."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from itertools import chain, count
from pathlib import Path

from tuner.errors import UsageError, did_you_mean
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote import mirror
from tuner.places import default_storage, is_url, local, shown, url_of


def storage_folder(storage: Path | str | None) -> Path:
    """The folder of `storage` on this machine, by default $TUNER_STORAGE, else ./results.

    For a URL this is the folder of the copies.
    """
    return local(default_storage() if storage is None else storage)


def find_experiment(name: str | Path, storage: Path | str | None = None) -> Path:
    """The folder of an experiment: a name under `storage`, a folder's path, or a URL.

    Raises UsageError, with the nearest names, if there is none.
    """
    if is_url(name):
        storage, _, name = str(name).rstrip("/").rpartition("/")
    root = storage_folder(storage)
    for folder in (root / name, Path(name).expanduser()):
        if _is_experiment(folder):
            return folder
    names = sorted(folder.name for folder in experiment_folders(root))
    known = f"available: {', '.join(names[:20])}" if names else "there are none yet"
    hint = did_you_mean(str(name), names)
    raise UsageError(f"no experiment {str(name)!r} in {shown(root)}{hint}; {known}")


def experiment_folders(
    storage: Path | str | None = None, *, known: Container[str] = ()
) -> Iterator[Path]:
    """The folders right under `storage` that hold an experiment.json.

    known: names that are taken for experiments without another look, if they are there.
    """
    root = storage_folder(storage)
    if (names := mirror.names_in(root, known=known)) is not None:
        yield from (root / name for name in names)
    elif root.is_dir():
        visible = (folder for folder in root.iterdir() if folder.name[0] != ".")
        yield from (f for f in visible if f.name in known or _is_experiment(f))


def free_name(name: str, storage: Path | str | None = None) -> str:
    """`name`, or the first of NAME-2, NAME-3, ... that nothing under `storage` has yet."""
    root = storage_folder(storage)
    numbered = (f"{name}-{number}" for number in count(2))
    names = chain([name], numbered)
    return next(free for free in names if not ExperimentFolder(root / free).is_taken)


def _is_experiment(folder: Path) -> bool:
    if url_of(folder.parent):
        return mirror.is_taken(folder)
    # Unlike Path.is_file, this is False where the user may not look
    return os.path.isfile(folder / EXPERIMENT)
