"""Where an experiment lies: a storage is a folder, or a URL that has a mirror on this machine.

A mirror is a folder like any other, so that all that reads or writes experiments knows paths alone.
Its name is the URL, quoted, which is how a path tells whether it is a mirror's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from tuner.errors import UsageError

ROOT = "TUNER_MIRROR"  # in the environment: the folder of the mirrors

_URL = re.compile(r"[a-z][a-z0-9+.-]*://.")
_LONGEST = 255  # characters of a file's name


def is_url(storage: str | os.PathLike[str]) -> bool:
    """Whether a storage is a URL; a Path never is."""
    return isinstance(storage, str) and bool(_URL.match(storage))


def local(storage: str | os.PathLike[str]) -> Path:
    """The folder on this machine of a storage: its own, or the mirror of a URL.

    Raises UsageError for a URL that is too long to have one.
    """
    if not is_url(storage):
        return Path(storage).expanduser()
    name = quote(str(storage).rstrip("/"), safe="")
    if len(name) > _LONGEST:
        raise UsageError(f"a storage's URL may have at most {_LONGEST} characters, got {storage!r}")
    return _root() / name


def experiment_here(place: str) -> Path:
    """The folder on this machine of an experiment, given as a path or as STORAGE's URL/NAME."""
    storage, _, name = place.rpartition("/")
    return local(storage) / name if is_url(storage) else Path(place)


def url_of(path: str | os.PathLike[str]) -> str | None:
    """The URL of which `path`, a mirror or within one, is the copy; None for any other path."""
    path, root = Path(os.path.realpath(path)), _root()
    if path == root or not path.is_relative_to(root):
        return None
    name, *inner = path.relative_to(root).parts
    return "/".join([unquote(name), *inner])


def storage_of(folder: Path) -> str:
    """The storage in which the experiment in `folder` lies, as --storage takes it."""
    folder = folder.resolve()
    return url_of(folder.parent) or str(folder.parent)


def shown(path: Path) -> str:
    """What to tell a user of `path`: the URL, where it is a mirror's."""
    return url_of(path) or str(path)


def _root() -> Path:
    root = os.environ.get(ROOT) or "~/.cache/tuner/remote"
    return Path(os.path.realpath(Path(root).expanduser()))
