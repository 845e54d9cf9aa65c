"""Specs and plans of experiments, as the command line makes them."""

from tuner.experiment.resolve import resolve
from tuner.search.preparation import prepare


def prepare_experiment(experiment, assignments=(), **how):
    """(the plan of an EXPERIMENT, its source). how: as `resolve` takes it."""
    resolved = resolve(experiment, assignments, **how)
    return prepare(resolved.raw, source=resolved.title, is_new=True), resolved.source


def resolve_spec(experiment, assignments=(), **how):
    """(the validated spec of an EXPERIMENT, its source)."""
    plan, source = prepare_experiment(experiment, assignments, **how)
    return plan.spec, source
