"""Finds experiments in a storage, by name, path or URL."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from itertools import chain, count
from pathlib import Path

from tuner.errors import UsageError, suggest_similar
from tuner.experiment.files import EXPERIMENT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.objects import Objects
from tuner.places import (
    find_default_storage,
    find_local_folder,
    find_url,
    format_path,
    is_url,
)


def resolve_storage(storage: Path | str | None) -> Path:
    """The folder of `storage` (None: $TUNER_STORAGE, else ./results), or of its copies."""
    return find_local_folder(find_default_storage() if storage is None else storage)


def find_experiment(name: str | Path, storage: Path | str | None = None) -> Path:
    """The folder of an experiment by name, path or URL. Raises UsageError with similar names."""
    if is_url(name):
        storage, _, name = str(name).rstrip("/").rpartition("/")
    root = resolve_storage(storage)
    candidates = (root / name, Path(name).expanduser())
    for folder in candidates:
        if _is_experiment(folder):
            return folder
    names = sorted(folder.name for folder in find_experiment_folders(root))
    available = "there are none yet"
    if names:
        available = f"available: {', '.join(names[:20])}"
    hint = suggest_similar(str(name), names)
    raise UsageError(
        f"no experiment {str(name)!r} in {format_path(root)}{hint}; {available}"
    )


def find_experiment_folders(
    storage: Path | str | None, *, trusted: Container[str] = ()
) -> Iterator[Path]:
    """Folders right under `storage` with an experiment.json. trusted: names not to check."""
    root = resolve_storage(storage)
    if url := find_url(root):
        with Objects(url).translate_errors() as objects:
            names = [name for name in objects.list_folders() if name[0] != "."]
            experiments = [
                n for n in names if n in trusted or objects.has(f"{n}/{EXPERIMENT}")
            ]
        yield from (root / name for name in experiments)
    elif root.is_dir():
        visible = (folder for folder in root.iterdir() if folder.name[0] != ".")
        yield from (f for f in visible if f.name in trusted or _is_experiment(f))


def find_free_name(name: str, storage: Path | str | None) -> str:
    """`name`, or the first of NAME-2, NAME-3, ... that nothing under `storage` has yet."""
    root = resolve_storage(storage)
    numbered = (f"{name}-{number}" for number in count(2))
    names = chain([name], numbered)
    return next(free for free in names if not ExperimentFolder(root / free).is_taken)


def _is_experiment(folder: Path) -> bool:
    if find_url(folder.parent):
        return ExperimentFolder(folder).is_taken
    # Unlike Path.is_file, this is False where the user may not look
    return os.path.isfile(folder / EXPERIMENT)
