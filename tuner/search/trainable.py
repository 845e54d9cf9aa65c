"""From a spec to the trainable that Ray Tune runs for it, with the resources of one trial."""

from __future__ import annotations

import os
import sys
from typing import Any

from ray import tune

from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources
from tuner.trial.context import TrialContext
from tuner.trial.loading import is_learner, load_trainable
from tuner.trial.trainable import FunctionTrial, LearnerTrial


def tune_trainable(spec: ExperimentSpec) -> Any:
    """The trainable for `tune.run`, which reserves what a trial may use."""
    learner = spec.ships or is_learner(load_trainable(spec.trainable))
    context = TrialContext(
        place=spec.place,
        trainable=spec.trainable,
        constants=spec.constants,
        metric=spec.objective.metric,
        epochs=spec.epochs,
        cpus=spec.resources.cpus,
        gpus=spec.resources.gpus,
        ranks=spec.resources.ranks,
        split=spec.resources.split,
        report_timeout_s=spec.timeouts.report_s,
        ranks_timeout_s=spec.timeouts.ranks_s,
        sys_path=tuple(sys.path),
        directory=os.getcwd(),
    )
    trial = tune.with_parameters(LearnerTrial if learner else FunctionTrial, context=context)
    return tune.with_resources(trial, placement(spec.resources))


def placement(resources: Resources) -> tune.PlacementGroupFactory:
    """What a trial reserves: a bundle a rank, and for several an empty one for who watches them.

    Bundles are packed on one node where they fit, and spread where they must.
    """
    bundle = {"CPU": resources.cpus, "GPU": resources.gpus}
    if resources.ranks == 1:
        return tune.PlacementGroupFactory([bundle])
    return tune.PlacementGroupFactory([{}, *[bundle] * resources.ranks], strategy="PACK")
