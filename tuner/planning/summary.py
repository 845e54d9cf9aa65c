"""What the networks of a spec consist of. To tell it they are built, which takes torch."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tuner.errors import UsageError
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.space.spaces import extreme_configs
from tuner.vision.settings import ClassifierSettings, merged


def summaries_of(spec: ExperimentSpec) -> list[dict[str, Any]]:
    """Of each model that a validated spec can train, with the first of what else is searched.

    {model, settings, images, classes, stages: [{name, kind, output, parameters}], parameters,
    trainable, mib}. Raises UsageError where the trainable is not the image classifier that ships,
    and SpecError for a network that cannot be built or trained.
    """
    if not spec.ships:
        raise UsageError(f"--summary is of the image classifier; {spec.trainable} builds its own")
    first: dict[str, ClassifierSettings] = {}
    for config in extreme_configs(spec.search.space):
        settings = ClassifierSettings.model_validate(merged(spec.constants, config))
        first.setdefault(settings.model, settings)
    return [_summary(settings) for settings in first.values()]


def _summary(settings: ClassifierSettings) -> dict[str, Any]:
    from tuner.vision.blueprint import blueprint_of
    from tuner.vision.summary import summary_of

    plan = blueprint_of(settings)
    return {
        "model": plan.name,
        "settings": plan.settings,
        "images": plan.shape,
        "classes": plan.num_classes,
        **asdict(summary_of(plan, frozen=settings.freeze)),
    }
