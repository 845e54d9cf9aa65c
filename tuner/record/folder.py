"""Where experiments lie, and the experiment.json of each: plain JSON, never run.

A storage is a folder or a URL; of a URL all paths are those of its mirror (`tuner.remote`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from reprlib import repr as shown  # short, and safe on what is nested deep
from typing import Any
from uuid import uuid4

from tuner.errors import NameTakenError, UsageError, did_you_mean
from tuner.places import is_url, local, storage_of, url_of
from tuner.places import shown as shown_place
from tuner.plain_values import fault_of_values
from tuner.record.plain_files import read_plain
from tuner.record.remote import mirror
from tuner.record.remote.mirror import is_taken
from tuner.wording import program

EXPERIMENT = mirror.DOCUMENT
FORMAT = 1  # of experiment.json


def find_experiment(name: str | Path, storage: Path | str | None = None) -> Path:
    """The folder of an experiment, by the rules and errors of `load_results`."""
    if is_url(name):
        storage, _, name = str(name).rstrip("/").rpartition("/")
    root = storage_folder(storage)
    for folder in (root / name, Path(name).expanduser()):
        if _is_experiment(folder):
            return folder
    names = sorted(folder.name for folder in experiment_folders(root))
    there = f"available: {', '.join(names[:20])}" if names else "there are none yet"
    hint = did_you_mean(str(name), names)
    raise UsageError(f"no experiment {str(name)!r} in {shown_place(root)}{hint}; {there}")


def storage_folder(storage: Path | str | None) -> Path:
    """The folder of `storage`, by default $TUNER_STORAGE, else ./results; of a URL its mirror."""
    if storage is None:
        from tuner.spec.experiment import default_storage

        storage = default_storage()
    return local(storage)


def experiment_folders(storage: Path | str | None = None) -> Iterator[Path]:
    """The folders right under `storage` that hold an experiment.json."""
    root = storage_folder(storage)
    if (names := mirror.names_in(root)) is not None:
        yield from (root / name for name in names)
    elif root.is_dir():
        yield from (f for f in root.iterdir() if f.name[0] != "." and _is_experiment(f))


def _is_experiment(folder: Path) -> bool:
    if url_of(folder.parent):
        return mirror.is_taken(folder)
    return os.path.isfile(folder / EXPERIMENT)  # unlike Path.is_file, False where it may not look


def read_document(path: Path) -> dict[str, Any]:
    """experiment.json, with its format, spec and objective checked.

    Raises UsageError for a file that is missing, damaged, or of another format.
    """
    try:
        document = read_object(path)
    except OSError as error:
        raise UsageError(
            f"{path.parent} is no experiment: cannot read {path}: {error.strerror}"
        ) from error
    if document.get("format") != FORMAT:
        raise UsageError(
            f"{path} has format {shown(document.get('format'))}; this version reads {FORMAT}"
        )
    match document.get("spec"):
        case {"objective": {"metric": str(), "mode": "min" | "max"}}:
            return document
        case _:
            raise UsageError(f"{path} is damaged: its spec has no objective of metric and mode")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file of someone's folder holds.

    Raises OSError where it cannot be read or is no plain file, UsageError where it is damaged.
    """
    try:
        found = read_json(path)
    except ValueError as error:
        raise UsageError(f"{path} is damaged: not JSON") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is damaged: it must hold one object")
    if fault := fault_of_values(found):
        raise UsageError(f"{path} is damaged: it {fault}")
    return found


def read_json(path: Path) -> Any:
    """What a JSON file of an experiment's folder holds.

    Raises OSError where it cannot be read or is no plain file, ValueError where it is not JSON.
    """
    try:
        return json.loads(read_plain(path))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON file, whole or not at all. Raises OSError where it cannot be written."""
    data = _encoded(document)
    _replace(path, lambda partial: partial.write_bytes(data))


def _encoded(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a new file, and put that in the place of `path`: whole or not at all.

    Raises UsageError where it cannot be written.
    """
    try:
        _replace(path, write)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")  # that no one else has placed
    partial.unlink(missing_ok=True)  # of a killed process that had our number, or someone's link
    try:
        write(partial)
        partial.replace(path)
        mirror.hand_over(path)
    finally:
        partial.unlink(missing_ok=True)


def claim(folder: Path, document: dict[str, Any], *, empty: Iterable[str] = ()) -> None:
    """Make a new experiment's folder, with `document` as its experiment.json and `empty` files.

    It appears whole or not at all, whatever is killed, and of two that claim it one gets it. Raises
    NameTakenError where it exists, UsageError where it cannot be made.
    """
    if is_taken(folder):
        raise already_there(folder)
    data = _encoded(document)
    partial = folder.with_name(f".{folder.name}.{uuid4().hex}")
    try:
        partial.mkdir(parents=True)
        (partial / EXPERIMENT).write_bytes(data)
        for name in empty:
            (partial / name).touch()
        if not mirror.create(folder, data):
            raise already_there(folder)
        partial.rename(folder)
    except UsageError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if os.path.lexists(folder):
            raise already_there(folder) from None
        raise UsageError(f"cannot create {folder}: {error.strerror}") from error


def already_there(folder: Path) -> NameTakenError:
    """The error for a new experiment whose folder exists."""
    name = url_of(folder) or folder.name
    return NameTakenError(
        f"experiment {folder.name!r} exists in {storage_of(folder)}; "
        f"go on with it by: {program()} resume {name}, or give another name"
    )


def free_name(name: str, storage: Path | str | None = None) -> str:
    """`name`, or the first of NAME-2, NAME-3, ... that nothing under `storage` has yet."""
    root = storage_folder(storage)
    numbered = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if not is_taken(root / free))
