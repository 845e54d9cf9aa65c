"""What is wrong with the settings that a search would give the image classifier that ships."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tuner.errors import Fault
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources
from tuner.spec.space.domains import Domain, Numeric
from tuner.spec.space.parsing import EXAMPLES
from tuner.spec.space.spaces import extreme_configs, walk
from tuner.vision.catalog import describe, remembering, ships
from tuner.vision.recipe import OPTIONAL_METRICS
from tuner.vision.settings import (
    ClassifierSettings,
    check_settings,
    merged,
    own_data_searched,
)

OPTIONAL = {f"val_{name}": name for name in OPTIONAL_METRICS}  # by what they are reported as
FaultsOf = Callable[[Mapping[str, Any]], list[Fault]]


def settings_faults(
    spec: ExperimentSpec,
    pinned: Mapping[str, Any] | None = None,
    *,
    further: FaultsOf = lambda values: [],
) -> Iterator[Fault]:
    """The faults of what the image classifier would be given, at every extreme of the space.

    pinned: replaces some of the constants. further: checks values that have no other fault.
    """
    if spec.epochs is None:
        yield Fault("training.epochs", "is required when there is no scheduler")
    constants, space = {**spec.constants, **(pinned or {})}, spec.search.space
    yield from _own_data_faults(spec)
    described = remembering(describe)  # a folder is listed once, not for every extreme
    settings_check = partial(check_settings, split=spec.resources.split, describe=described)

    def check(values: Mapping[str, Any]) -> list[Fault]:
        faults = [*settings_check(values), *_rank_faults(values, spec.resources)]
        return faults or further(values)

    searched = [f"{place.path}." for place, _ in walk(space)]
    refused = set()  # domains of numbers: of one that breaks a rule at both bounds one is enough
    for config in extreme_configs(space):
        for fault in check(merged(constants, config)):
            key, value = f"{fault.key}.", space.get(fault.key, 0)
            is_searched = any(key.startswith(path) or path.startswith(key) for path in searched)
            if isinstance(value, Numeric):
                if (key, fault.rule) in refused:
                    continue
                refused.add((key, fault.rule))
            elif fault.rule.startswith("must be") and not isinstance(value, Domain | int | float):
                choices = (*fault.choices, *EXAMPLES)
                fault = replace(fault, rule=f"{fault.rule} or a domain", choices=choices)
            yield fault.under("search.space" if is_searched else "training")
    for number, config in enumerate(getattr(spec.search, "configs", ())):
        for fault in check(merged(constants, config)):
            yield fault.under(f"search.configs.{number}")


def start_faults(*, here: bool) -> FaultsOf:
    """Checks whether networks can begin with weights and freeze layers; each is built once.

    here: whether trials run on this machine, whose pretrained weights they take. Imports torch
    only for values that name weights or layers.
    """
    known: dict[str, list[Fault]] = {}

    def check(values: Mapping[str, Any]) -> list[Fault]:
        settings = ClassifierSettings.model_validate(values)
        if not here:
            settings = settings.model_copy(update={"pretrained": False})
        start = (settings.pretrained, settings.start_from, settings.freeze)
        if not any(start) or (data := describe(settings)) is None:
            return []
        from tuner.vision.blueprint import blueprint_of
        from tuner.vision.transfer import start_faults

        plan = blueprint_of(settings, data)
        key = repr((plan, start))
        if key not in known:
            known[key] = start_faults(settings, plan)
        return known[key]

    return check


def _own_data_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """What cannot be searched: images of the user's own are decoded once, for all trials."""
    space, configs = spec.search.space, getattr(spec.search, "configs", ())
    searched = space.get("dataset")
    extremes = searched.extremes() if isinstance(searched, Domain) else (searched,)
    names = [*extremes, *(config.get("dataset") for config in configs)]
    for name in names:
        if isinstance(name, str) and not ships(name):
            yield own_data_searched(name).under("search.space")
    for name in ("image_size", "image_bits", "skip_unreadable"):
        if name in space:
            rule = f"cannot be searched, since images are decoded once: set training.{name}"
            yield Fault(f"search.space.{name}", rule)


def _rank_faults(settings: Mapping[str, Any], resources: Resources) -> Iterator[Fault]:
    """Every rank takes the same share of a batch."""
    size = settings.get("batch_size", ClassifierSettings.model_fields["batch_size"].default)
    if isinstance(size, int) and size % resources.workers:
        yield Fault("batch_size", f"must be divisible by the {resources.workers} workers", size)


def reporting(spec: ExperimentSpec) -> ExperimentSpec:
    """`spec`, the classifier that ships being told to report the objective's metric."""
    named = spec.training.get("metrics", [])
    named = [named] if isinstance(named, str) else named
    wanted = OPTIONAL.get(spec.objective.metric)
    if not (spec.ships and wanted and isinstance(named, list)) or wanted in named:
        return spec
    return spec.model_copy(update={"training": {**spec.training, "metrics": [*named, wanted]}})


def of_the_objective(faults: Iterable[Fault], spec: ExperimentSpec) -> Iterator[Fault]:
    """The faults of `reporting(spec)`, under the keys that the user has written in `spec`."""
    for fault in faults:
        unasked = fault.key == "training.metrics" and "metrics" not in spec.training
        yield replace(fault, key="objective.metric") if unasked else fault
