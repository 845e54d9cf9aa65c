"""What of the user's code reaches the nodes of a cluster, and how: as Ray's runtime environment."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tuner.errors import UsageError

MOST_BYTES = 100 << 20  # of files: each node downloads them before its first trial

_SHOWN = 3  # of the largest entries
_IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set where a Ray job runs: its files are there already
_IGNORES_GIT = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"  # "1" has Ray ship what .gitignore names
_FOR_WORKERS = ("PL_DISABLE_FORK", "RAY_CHDIR_TO_TRIAL_DIR", "TUNE_FUNCTION_THREAD_TIMEOUT_S")


def runtime_env(directory: Path, storage: Path, *, code: bool) -> dict[str, Any]:
    """The runtime environment of a search's processes on a cluster.

    With `code` the files of `directory` are in it: without what .gitignore and .rayignore there
    name, and without the results in `storage`. Modules are found in the same folders below it as
    here. Raises UsageError where they are too large to send.
    """
    settings = {name: os.environ[name] for name in _FOR_WORKERS if name in os.environ}
    if not code or _IN_A_JOB in os.environ:
        return {"env_vars": settings}
    directory = directory.resolve()
    excludes = _below(storage.expanduser().resolve(), directory)
    _check_size(directory, excludes)
    inner = os.pathsep.join(_module_folders(directory))
    return {
        "working_dir": str(directory),
        "excludes": excludes,
        "env_vars": {**settings, **({"PYTHONPATH": inner} if inner else {})},
    }


def _below(folder: Path, directory: Path) -> list[str]:
    """`folder` as a pattern of what to leave out of `directory`, if it lies in it."""
    if folder == directory or not folder.is_relative_to(directory):
        return []
    return [f"/{folder.relative_to(directory).as_posix()}/"]


def _module_folders(directory: Path) -> list[str]:
    """The folders below `directory` in which Python looks for modules here, as relative paths.

    A worker starts in its copy of `directory`, from which Python reads them.
    """
    within = (Path(entry).resolve() for entry in sys.path if entry)
    found = (p for p in within if p != directory and p.is_relative_to(directory) and p.is_dir())
    installed = Path(sys.prefix).resolve()
    return [p.relative_to(directory).as_posix() for p in found if not p.is_relative_to(installed)]


def _check_size(directory: Path, excludes: list[str]) -> None:
    """Refuse a folder of more than MOST_BYTES, before it is packed."""
    from ray._private.ray_constants import get_runtime_env_default_excludes
    from ray._private.runtime_env.packaging import _dir_travel, _get_excludes

    sizes: Counter[str] = Counter()

    def count(path: Path) -> None:
        if path.is_file():
            sizes[path.relative_to(directory).parts[0]] += path.stat().st_size
        if sizes.total() > MOST_BYTES:
            raise UsageError(_too_large(directory, sizes))

    _dir_travel(
        directory,
        [_get_excludes(directory, [*get_runtime_env_default_excludes(), *excludes])],
        count,
        include_gitignore=os.environ.get(_IGNORES_GIT) != "1",
        logger=_quiet(),
    )


def _quiet() -> logging.Logger:
    logger = logging.getLogger(f"{__name__}.walk")
    logger.disabled = True
    return logger


def _too_large(directory: Path, sizes: Counter[str]) -> str:
    largest = (f"{name} ({size / (1 << 20):.0f} MiB)" for name, size in sizes.most_common(_SHOWN))
    return (
        f"your code is sent to the nodes with its folder, {directory}, which may have "
        f"{MOST_BYTES >> 20} MiB and has more; largest so far: {', '.join(largest)}. Start tuner "
        "in the folder of the code alone, or name what is not needed in a .rayignore there (lines "
        "as in .gitignore)"
    )
