"""The arguments of `tune.run` that follow from a spec."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray import tune
from ray.tune import ProgressReporter, Stopper

from tuner import ray_compat
from tuner.cluster import connect as cluster
from tuner.experiment.folder import ExperimentFolder
from tuner.spec.command import Command
from tuner.spec.loading import is_learner, is_rays_class, load_trainable
from tuner.spec.sections import Resources
from tuner.spec.validation import ValidatedSpec
from tuner.trial.checkpoint_writer import SaveRules
from tuner.trial.command_trial import CommandTrial
from tuner.trial.context import TrialContext
from tuner.trial.trainable import LearnerTrial, Trial
from tuner.trial.tune_trials import ClassTrial, FunctionTrial

_RAY_FILES = ".tune-"  # the prefix of the folder that Ray Tune insists on


def tune_trainable(spec: ValidatedSpec) -> Any:
    """The trainable for `tune.run`, with the resources of a trial."""
    rungs = spec.scheduler.rungs() if spec.scheduler else ()
    saves = SaveRules(
        every_s=spec.checkpoints.every_s,
        rungs=frozenset(map(math.ceil, rungs)),  # the first epoch that has come to each
        mode=spec.objective.mode,
    )
    context = TrialContext(
        place=spec.place,
        trainable=spec.trainable,
        constants=spec.declaration.constants(spec, here=not cluster.is_joined()),
        metric=spec.objective.metric,
        epochs=spec.epochs,
        cpus=spec.resources.cpus,
        gpus=spec.resources.gpus,
        ranks=spec.resources.ranks,
        split=spec.resources.split,
        report_timeout_s=spec.timeouts.report_s,
        ranks_timeout_s=spec.timeouts.ranks_s,
        sys_path=tuple(map(os.path.abspath, sys.path)),  # a trial works elsewhere
        directory=os.getcwd(),
        saves=saves,
    )
    trial = tune.with_parameters(trial_class(spec), context=context)
    return tune.with_resources(trial, placement(spec.resources))


def trial_class(spec: ValidatedSpec) -> type[Trial]:
    """The class of the trials of `spec`, by the kind of its trainable."""
    if isinstance(spec.trainable, Command):
        return CommandTrial
    if spec.ships or is_learner(trainable := load_trainable(spec.trainable)):
        return LearnerTrial
    return ClassTrial if is_rays_class(trainable) else FunctionTrial


def placement(resources: Resources) -> tune.PlacementGroupFactory:
    """What a trial reserves: a bundle a rank, after an empty one if there are several.

    Bundles are packed on one node if they fit.
    """
    bundle = {"CPU": resources.cpus, "GPU": resources.gpus}
    if resources.ranks == 1:
        return tune.PlacementGroupFactory([bundle])
    return tune.PlacementGroupFactory([{}, *[bundle] * resources.ranks], strategy="PACK")


class StopAll(Stopper):
    """Ends every trial as soon as `is_over()`; never a single one."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self._is_over = is_over

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._is_over()

    def __reduce__(self) -> tuple[type[StopAll], tuple[Callable[[], bool]]]:
        # Ray pickles it into snapshots that nobody reads; `is_over` does not pickle
        return StopAll, (bool,)


class _SilentReporter(ProgressReporter):
    def should_report(self, trials: object, done: bool = False) -> bool:
        return False


def progress_reporter() -> ProgressReporter | None:
    """In a notebook one that reports nothing, since Ray's clears the output; elsewhere None."""
    return _SilentReporter() if ray_compat.in_notebook() else None


@contextmanager
def ray_files(experiment: ExperimentFolder) -> Iterator[str]:
    """A folder for Ray Tune's files; removes those that a kill has left.

    On a cluster it is in the experiment's folder, which all nodes see.
    """
    folder = cluster.scratch_folder()
    if cluster.is_joined() and not experiment.is_remote:
        for stale in experiment.path.glob(f"{_RAY_FILES}*"):
            shutil.rmtree(stale, ignore_errors=True)
        folder = str(experiment.path.resolve())
    with tempfile.TemporaryDirectory(dir=folder, prefix=_RAY_FILES) as path:
        yield path
