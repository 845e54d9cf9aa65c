"""Specs of experiments, as the command line makes them."""

from tuner.experiment.resolve import resolve
from tuner.search.preparation import prepare


def resolve_spec(experiment, assignments=(), **how):
    """(the validated spec of a new EXPERIMENT, its source). how: as `resolve` takes it."""
    resolved = resolve(experiment, assignments, **how)
    plan = prepare(resolved.raw, source=resolved.title, is_new=True)
    return plan.spec, resolved.source
