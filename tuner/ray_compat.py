"""What is known of Ray that is not public: names of its processes, names to replace for a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

DAEMONS = ("gcs_server", "raylet")  # without one of them nothing goes on
AGENTS = ("ray::RuntimeEnv", "ray::Dashboard")  # what their titles begin with; a raylet needs them
IDLE = "ray::IDLE"  # the title of a worker without work
WORKER = "ray::"  # what the titles of all workers begin with, and those of the agents

TESTED = "2.60."  # what the version of Ray begins with


def is_known() -> bool:
    """Whether Ray is of the version whose inner names this was tested with."""
    import ray

    return ray.__version__.startswith(TESTED)


def admit_storage(storage: Any) -> None:
    """Let Ray keep a function's checkpoint in the folder of its `storage` on this machine.

    It looks there for a mark that the driver has set, in what it takes for a shared folder.
    """
    from ray.train._internal.storage import _VALIDATE_STORAGE_MARKER_FILENAME

    folder = Path(storage.experiment_fs_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _VALIDATE_STORAGE_MARKER_FILENAME).touch()


@contextmanager
def replaced(names: Mapping[ModuleType, Mapping[str, Any]]) -> Iterator[None]:
    """Within it the given names of each module are those given, after it what they were."""
    before = {
        module: {name: getattr(module, name) for name in own} for module, own in names.items()
    }
    for module, own in names.items():
        vars(module).update(own)
    try:
        yield
    finally:
        for module, own in before.items():
            vars(module).update(own)
