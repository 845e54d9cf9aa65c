"""What an experiment is and was made with: what its experiment.json says."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tuner.record.folder import FORMAT
from tuner.spec.experiment import ExperimentSpec

_PACKAGES = (
    *("tuner", "torch", "ray", "hyperopt", "bayesian-optimization", "pandas", "numpy"),
    *("scikit-learn", "torchvision", "timm"),
)


def describe(spec: ExperimentSpec) -> dict[str, Any]:
    """{format, spec, seed, versions, git_revision}: the resolved spec, and what is installed."""
    return {
        "format": FORMAT,
        "spec": spec.model_dump(mode="json"),
        "seed": spec.seed,
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "git_revision": _git_revision(),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            yield package, version(package)


def _git_revision() -> str | None:
    """The commit of the working directory; None where it is in no repository, or git is not."""
    try:
        git = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return git.stdout.strip()
