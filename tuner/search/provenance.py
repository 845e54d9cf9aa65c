"""What an experiment is and was made with: what its experiment.json says."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import FORMAT, ExperimentFolder
from tuner.experiment.results.baseline import VALIDATION
from tuner.planning.validation import ValidatedSpec
from tuner.search.warm_start import leave_out_tried, warm_start_of
from tuner.spec.experiment import ExperimentSpec

DATA = "data_content"  # in experiment.json: a digest of images of the user's own

_PACKAGES = (
    *("tuner", "torch", "ray", "hyperopt", "bayesian-optimization", "pandas", "numpy"),
    *("scikit-learn", "torchvision", "timm"),
)


def create(spec: ValidatedSpec) -> ExperimentFolder:
    """Make the folder of a new experiment, with its warm start.

    Raises as `ExperimentFolder.create` and `warm_start_of` do.
    """
    warm_start = warm_start_of(spec)  # refuses what does not match before there is a folder
    leave_out_tried(spec, warm_start)
    folder = ExperimentFolder(spec.folder)
    known = {DATA: spec.data_content, VALIDATION: spec.validation_baseline}
    of_data = {name: value for name, value in known.items() if value}
    folder.create({**describe(spec), **of_data}, empty=[JOURNAL])
    if warm_start:
        warm_start.save(spec.folder)
    return folder


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
