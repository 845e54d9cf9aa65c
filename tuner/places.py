"""Paths of experiments, in a folder or in an object store with a local copy, and of trials.

A copy is an ordinary folder whose name is the quoted URL, so all other code works with paths.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from tuner.errors import UsageError

LOCAL = "local"  # the address of a Ray that is started here for one search
ROOT = "TUNER_MIRROR"  # in the environment: the folder of the copies
TRIAL_DIR = "TUNER_TRIAL_DIR"  # in the environment of a trial: its own folder
START_DIR = "TUNER_START_DIR"  # in the environment of a trial: where its search was started

_URL = re.compile(r"[a-z][a-z0-9+.-]*://.", re.IGNORECASE)


def check_here() -> None:
    """Raise UsageError if the working directory or the user's home folder does not exist.

    A container may run as a user without an account.
    """
    try:
        Path.cwd()
        Path.home()
    except FileNotFoundError:
        raise UsageError("the working directory has been removed: go to one that exists") from None
    except RuntimeError:
        raise UsageError(
            f"user {os.getuid()} has no home folder: set HOME to a folder that it can write to"
        ) from None


def trial_dir() -> Path:
    """The folder of the trial that this process trains; it is kept with the trial.

    Outside of a trial it is the working directory, so that the same code runs by hand.
    """
    folder = Path(os.environ.get(TRIAL_DIR) or Path.cwd())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start_dir() -> Path:
    """The directory where the search was started; outside of a trial the working directory.

    On another node of a cluster it is the copy of that directory.
    """
    return Path(os.environ.get(START_DIR) or Path.cwd())


def find_state_folder() -> Path:
    """The folder for state that outlives a process (XDG_STATE_HOME)."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "tuner"


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
