"""What of the user's code reaches the nodes of a cluster, and how: as Ray's runtime environment."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tuner import ray_compat
from tuner.errors import UsageError

MOST_BYTES = 100 << 20  # of files: each node downloads them before its first trial

_SHOWN = 3  # of the largest entries
_IGNORES_GIT = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"  # "1" has Ray send what .gitignore names


def runtime_env(
    directory: Path, storage: Path, *, code: bool, most_bytes: int = MOST_BYTES
) -> dict[str, Any]:
    """The runtime environment of a search's processes on a cluster.

    With `code` the files of `directory` are in it: without what .gitignore and .rayignore there
    name, and without the results in `storage`. Modules are found in the same folders below it as
    here. Raises UsageError where the files have more than `most_bytes`.
    """
    settings = {name: os.environ[name] for name in ray_compat.FOR_WORKERS if name in os.environ}
    if not code or ray_compat.IN_A_JOB in os.environ:
        return {"env_vars": settings}
    directory, storage = directory.resolve(), storage.expanduser().resolve()
    excludes = []
    if storage != directory and storage.is_relative_to(directory):
        excludes = [f"/{storage.relative_to(directory).as_posix()}/"]
    _check_size(directory, excludes, most_bytes)
    if folders := _module_folders(directory):
        settings["PYTHONPATH"] = os.pathsep.join(folders)
    return {"working_dir": str(directory), "excludes": excludes, "env_vars": settings}


def _module_folders(directory: Path) -> list[str]:
    """The folders below `directory` in which Python looks for modules here, as relative paths.

    A worker starts in its copy of `directory`, from which Python reads them.
    """
    installed = Path(sys.prefix).resolve()
    paths = (Path(entry).resolve() for entry in sys.path if entry)
    return [
        path.relative_to(directory).as_posix()
        for path in paths
        if path != directory and path.is_relative_to(directory) and path.is_dir()
        if not path.is_relative_to(installed)
    ]


def _check_size(directory: Path, excludes: list[str], most_bytes: int) -> None:
    """Refuse a folder of more than `most_bytes`, before it is packed."""
    sizes: Counter[str] = Counter()

    def count(path: Path) -> None:
        if path.is_file():
            sizes[path.relative_to(directory).parts[0]] += path.stat().st_size
        if sizes.total() > most_bytes:
            raise UsageError(_too_large(directory, sizes, most_bytes))

    gitignore = os.environ.get(_IGNORES_GIT) != "1"
    ray_compat.visit_sent_files(directory, excludes, count, gitignore=gitignore)


def _too_large(directory: Path, sizes: Counter[str], most_bytes: int) -> str:
    largest = (f"{name} ({size / (1 << 20):.0f} MiB)" for name, size in sizes.most_common(_SHOWN))
    return (
        f"your code is sent to the nodes with its folder, {directory}, which may have "
        f"{most_bytes >> 20} MiB and has more; largest so far: {', '.join(largest)}. Start tuner "
        "in the folder of the code alone, or name what is not needed in a .rayignore there (lines "
        "as in .gitignore)"
    )
