"""From a spec to the trainable that Ray Tune runs for it, with the resources of one trial."""

from __future__ import annotations

import sys
from typing import Any

from ray import tune

from tuner.spec import ExperimentSpec
from tuner.training.loading import is_learner, load_trainable
from tuner.training.trainable import FunctionTrial, LearnerTrial, Plan


def tune_trainable(spec: ExperimentSpec) -> Any:
    """The trainable for `tune.run`: it knows the plan and reserves what a trial may use."""
    learner = spec.ships or is_learner(load_trainable(spec.trainable))
    plan = Plan(
        folder=str(spec.folder.resolve()),
        trainable=spec.trainable,
        constants=spec.constants,
        metric=spec.objective.metric,
        epochs=spec.epochs,
        cpus=spec.resources.cpus,
        gpus=spec.resources.gpus,
        sys_path=tuple(sys.path),
    )
    trial = tune.with_parameters(LearnerTrial if learner else FunctionTrial, plan=plan)
    bundle = {"CPU": spec.resources.cpus, "GPU": spec.resources.gpus}
    return tune.with_resources(trial, tune.PlacementGroupFactory([bundle]))
