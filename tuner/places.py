"""Paths of storages and experiments: a folder, or an object store with a local copy.

A copy is an ordinary folder whose name is the quoted URL, so all other code works with paths.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

ROOT = "TUNER_MIRROR"  # in the environment: the folder of the copies

_URL = re.compile(r"[a-z][a-z0-9+.-]*://.", re.IGNORECASE)


def find_default_storage() -> str:
    return os.environ.get("TUNER_STORAGE") or "./results"


def is_url(storage: str | os.PathLike[str]) -> bool:
    """Whether a storage is a URL; a Path never is."""
    return isinstance(storage, str) and _URL.match(storage) is not None


def find_local_folder(storage: str | os.PathLike[str]) -> Path:
    """The local folder of a storage: the folder itself, or the copy of a URL."""
    if not is_url(storage):
        return Path(storage).expanduser()
    return _find_mirror_root() / quote(str(storage).rstrip("/"), safe="")


def find_local_experiment(place: str) -> Path:
    """The folder on this machine of an experiment, given as a path or as URL/NAME."""
    storage, _, name = place.rpartition("/")
    return find_local_folder(storage) / name if is_url(storage) else Path(place)


def find_url(path: str | os.PathLike[str]) -> str | None:
    """The URL that `path` is a copy of, or lies in a copy of; None for any other path."""
    path = Path(os.path.realpath(path))
    root = _find_mirror_root()
    if path == root or not path.is_relative_to(root):
        return None
    name, *inner = path.relative_to(root).parts
    return "/".join([unquote(name), *inner])


def find_storage(folder: Path) -> str:
    """The storage that the experiment in `folder` lies in, as --storage takes it."""
    folder = folder.resolve()
    return find_url(folder.parent) or str(folder.parent)


def format_path(path: Path) -> str:
    """`path` as a user knows it: the URL, if it is a copy's."""
    return find_url(path) or str(path)


def _find_mirror_root() -> Path:
    root = os.environ.get(ROOT) or "~/.cache/tuner/remote"
    return Path(os.path.realpath(Path(root).expanduser()))
