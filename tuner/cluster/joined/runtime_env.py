"""What of the user's code reaches the nodes of a cluster, and how: as Ray's runtime environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tuner import ray_compat


def runtime_env(directory: Path, storage: Path, *, code: bool) -> dict[str, Any]:
    """The runtime environment of a search's processes on a cluster.

    With `code` the files of `directory` are in it: without what .gitignore and .rayignore there
    name, and without the results in `storage`. Modules are found in the same folders below it as
    here. Ray itself refuses files of more than 512 MiB.
    """
    settings = {name: os.environ[name] for name in ray_compat.FOR_WORKERS if name in os.environ}
    if not code or ray_compat.IN_A_JOB in os.environ:
        return {"env_vars": settings}
    directory, storage = directory.resolve(), storage.expanduser().resolve()
    excludes = []
    if storage != directory and storage.is_relative_to(directory):
        excludes = [f"/{storage.relative_to(directory).as_posix()}/"]
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
