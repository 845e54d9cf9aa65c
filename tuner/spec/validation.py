"""Checks the trainable and the machine of a spec, before anything starts."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from tuner.errors import Fault, SpecError, UsageError, build_unknown_fault
from tuner.places import is_url
from tuner.plugins import NOTIFIERS, TRACKERS, Plugins
from tuner.spec import quotas
from tuner.spec.by_value import ByValue, find_pickling_fault
from tuner.spec.command import Command
from tuner.spec.declaration import find_paired_faults, load_declaration
from tuner.spec.experiment import FINAL, ExperimentSpec, build_spec
from tuner.spec.loading import (
    IMPORTING,
    can_split,
    can_take,
    find_trainable_fault,
    is_learner,
    is_rays_class,
    load_trainable,
)
from tuner.spec.notify import get_scheme, hide_secrets
from tuner.spec.plain_values import CONFIG_BYTES, CONFIG_LEVELS
from tuner.spec.sections import MEASURED, Objective, Resources
from tuner.spec.settings import FaultsError, parse
from tuner.spec.space.constraints import MAX_DRAWS, is_allowed
from tuner.spec.space.domains import Domain, Value
from tuner.spec.space.grid import MAX_LISTED, count_configs, every_value, iterate_cells
from tuner.spec.space.spaces import (
    config_at,
    count_levels,
    find_expected_values,
    format_space,
    has_value,
)
from tuner.spec.strategies import SearchSettings
from tuner.wording import suggest_install


class Machine:
    """CPUs and GPUs that trials share. gpus: None counts them on first use, by torch."""

    def __init__(self, *, cpus: float, gpus: float | None = None) -> None:
        self.cpus = cpus
        if gpus is not None:
            self.gpus = gpus

    @classmethod
    def detect(cls) -> Machine:
        return cls(cpus=quotas.count_usable_cpus())

    @cached_property
    def gpus(self) -> float:
        import torch

        return torch.cuda.device_count()


def validate(
    spec: ExperimentSpec | Mapping[str, Any],
    *,
    source: str = "the spec",
    machine: Machine | None = None,
    recorded: bool = False,
) -> ExperimentSpec:
    """The spec, checked on `machine` (None: a cluster), with open settings decided.

    recorded: it is of a search that has begun, whose first configs stay. A mapping is parsed first.
    The trainable is imported, unless it ships. Raises SpecError with every fault.
    """
    faults: list[Fault] = []
    if isinstance(spec, ExperimentSpec):
        parsed: ExperimentSpec | None = spec
        checked: ExperimentSpec | None = spec
    else:
        parsed, faults = parse(ExperimentSpec, spec, context=IMPORTING)
        checked = parsed or _parse_sound_sections(spec, faults)
    if checked is not None:
        faulty = _list_faulty_sections(faults)
        further = [
            *(
                []
                if "trainable" in faulty
                else _find_trainable_faults(checked, machine)
            ),
            *_find_machine_faults(checked.resources, machine),
            *_find_package_faults(checked),
            *_find_size_faults(checked.search),
            *([] if recorded else _find_new_search_faults(checked)),
        ]
        faults += {
            str(f): f for f in further if f.key.split(".")[0] not in faulty
        }.values()
    if parsed is None or faults:
        raise SpecError(faults, source)
    if not recorded:
        if faults := list(find_paired_faults(parsed)):
            raise SpecError(faults, source)
        parsed = add_default_config(parsed, source)
    # The fields are taken over as they are: nothing is dumped and parsed again
    return settle_spec(load_declaration(parsed.trainable).settle(parsed))


def add_default_config(
    spec: ExperimentSpec, source: str = "the spec"
) -> ExperimentSpec:
    """The spec with what priors expect and the declared defaults as its first config.

    Where `default_first` is open, a spec that has other first configs, one trial, or defaults that
    are no config of its space is returned as it is.
    """
    search = spec.search
    space = spec.search.space
    required = getattr(search, "default_first", False)
    points = getattr(search, "points_to_evaluate", ())
    if required is False or (required is None and (points or spec.num_samples == 1)):
        return spec
    declared = load_declaration(spec.trainable).settings
    defaults = (
        {n: f.get_default() for n, f in declared.model_fields.items()}
        if declared
        else {}
    )
    point = {
        n: defaults.get(n) if isinstance(v, Domain | Mapping) else v
        for n, v in space.items()
    }
    point |= find_expected_values(space)
    missing = [
        name for name, value in point.items() if value in (None, PydanticUndefined)
    ]
    if required is None:
        inside = (
            has_value(v, point[n]) for n, v in space.items() if isinstance(v, Domain)
        )
        if missing or not all(inside) or not search.can_suggest(point):
            return spec
        # Not parsed again, which would import numpy
        search = search.model_copy(update={"points_to_evaluate": (point,)})
        return spec.model_copy(update={"search": search})
    if missing:
        rule = "needs a prior, or a default in the Learner's settings, for each hyperparameter"
        raise SpecError([Fault("search.default_first", rule, missing)], source)
    others = [each for each in points if each != point]
    raw = {**search.model_dump(mode="json"), "points_to_evaluate": [point, *others]}
    return build_spec({**spec.dump_values(), "search": raw}, source)


def settle_spec(spec: ExperimentSpec) -> ExperimentSpec:
    """The spec with open settings of its search and scheduler decided, without checks."""
    fields = {name: getattr(spec, name) for name in ExperimentSpec.model_fields}
    fields["search"] = spec.search.settle(spec.num_samples, spec.time_budget_s)
    fields["scheduler"] = spec.scheduler and spec.scheduler.settle(spec.trials)
    return ExperimentSpec.model_construct(spec.model_fields_set, **fields)


def _find_package_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """Missing packages, broken plugins, and keys of trackers; servers are tried later."""
    for name in spec.log:
        if name not in TRACKERS.built_in:
            yield from _find_plugin_faults("log", TRACKERS, name)
            continue
        package = find_spec(name)
        if package is None or package.origin is None:
            # A folder of that name is no package
            yield Fault("log", f"needs a package: {suggest_install(name)}", name)
        elif name == "wandb" and not _is_wandb_ready():
            rule = "needs an API key: run `wandb login`, or set WANDB_API_KEY or WANDB_MODE=offline"
            yield Fault("log", rule, name)
    for target in spec.notify:
        scheme = get_scheme(target)
        if scheme in NOTIFIERS.entry_points:
            yield from _find_plugin_faults("notify", NOTIFIERS, scheme)
        elif scheme not in ("", *NOTIFIERS.built_in) and find_spec("apprise") is None:
            rule = f"needs a package, if it is of apprise: {suggest_install('notify')}"
            yield Fault(
                "notify", rule, hide_secrets(target), tuple(NOTIFIERS.list_names())
            )


def _find_plugin_faults(key: str, plugins: Plugins, name: str) -> Iterator[Fault]:
    try:
        if not can_take(plugins.load(name), None):
            yield Fault(
                key, f"{plugins.kind} {plugins.describe(name)} must take one argument"
            )
    except UsageError as error:
        yield Fault(key, str(error))


def _is_wandb_ready() -> bool:
    if (
        os.environ.get("WANDB_MODE") in ("offline", "disabled")
        or "WANDB_API_KEY" in os.environ
    ):
        return True
    import wandb

    return wandb.api.api_key is not None  # that `wandb login` has stored


def _list_faulty_sections(faults: list[Fault]) -> set[str]:
    return {fault.key.split(".")[0] for fault in faults}


def _parse_sound_sections(
    raw: Mapping[str, Any], faults: list[Fault]
) -> ExperimentSpec | None:
    """The spec without its faulty sections, to check the others. Adds to `faults`."""
    faulty = _list_faulty_sections(faults)
    sound = {key: value for key, value in raw.items() if key not in faulty}
    if "search" not in sound:
        sound["search"] = {"space": {"left_out": None}}
    if {"search", "num_samples"} & faulty:
        sound["num_samples"] = 1
    spec, further = parse(ExperimentSpec, sound, context=IMPORTING)
    faults += further
    return spec


def _find_machine_faults(
    resources: Resources, machine: Machine | None
) -> Iterator[Fault]:
    if machine is None:
        return
    for key, amount in (("cpus", resources.cpus), ("gpus", resources.gpus)):
        # GPUs are counted only if a trial reserves any
        if amount and amount * resources.ranks > (available := getattr(machine, key)):
            what = f"{key.upper()[:-1]}s than this machine's {available}"
            of_all = "" if resources.ranks == 1 else f" in its {resources.ranks_text}"
            rule = f"a trial cannot have more {what}{of_all}"
            yield Fault(f"resources.{key}", rule, amount * resources.ranks)


def _find_new_search_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """What a search that has begun cannot have: a storage that is a file, no allowed config."""
    if not is_url(spec.storage) and os.path.isfile(os.path.expanduser(spec.storage)):
        yield Fault("storage", "must be a folder or a URL, and is a file", spec.storage)
    search = spec.search
    if search.forbid and not _has_allowed_config(search):
        yield Fault("search.forbid", "must leave a config to try", list(search.forbid))


def _has_allowed_config(search: SearchSettings) -> bool:
    """Whether `forbid` allows a config of the space; of a large one, any of many random ones."""
    if search.strategy == "grid":
        return search.trials(None) != 0
    size = count_configs(search.space)
    if size is not None and size <= MAX_LISTED:
        configs: Iterable[dict[str, Value]] = iterate_cells(search.space, every_value)
    else:
        draw = random.Random(0).random
        configs = (config_at(search.space, lambda _: draw()) for _ in range(MAX_DRAWS))
    return any(is_allowed(search.forbid, config) for config in configs)


def _find_size_faults(search: Any) -> Iterator[Fault]:
    """Configs, of the space or listed ones, that are too deep or too large for the journal."""
    spaces = {"search.space": search.space}
    for field in ("configs", "points_to_evaluate"):
        configs = enumerate(getattr(search, field, ()))
        spaces |= {f"search.{field}.{number}": config for number, config in configs}
    for key, space in spaces.items():
        if (deep := count_levels(space)) > CONFIG_LEVELS:
            yield Fault(
                key, f"must be nested at most {CONFIG_LEVELS} levels deep", deep
            )
        if (size := len(json.dumps(format_space(space)))) > CONFIG_BYTES:
            yield Fault(
                key,
                f"must give configs of at most {CONFIG_BYTES:,} bytes as JSON",
                size,
            )


def _find_trainable_faults(
    spec: ExperimentSpec, machine: Machine | None
) -> Iterator[Fault]:
    if spec.is_elsewhere:
        yield from _find_learner_only_faults(spec, "a client")
        if spec.resources != Resources():
            rule = "must not be set: nothing is reserved for trials that run elsewhere"
            yield Fault(
                "resources", rule, spec.resources.model_dump(exclude_defaults=True)
            )
        return
    if isinstance(spec.trainable, Command):
        yield from _find_command_faults(spec.trainable, machine)
        yield from _find_learner_only_faults(spec, "a command")
        return
    try:
        # The Learner that ships is not imported, since that would import torch
        trainable = None if spec.ships else load_trainable(spec.trainable)
        declaration = load_declaration(spec.trainable)
    except FaultsError as error:
        yield from (fault.add_prefix("trainable") for fault in error.faults)
        return
    except Exception as error:  # any error of the user's module
        reason = f"{type(error).__name__}: {error}"
        yield Fault("trainable", f"cannot be imported ({reason})", spec.trainable)
        return
    if trainable is not None and (fault := find_trainable_fault(trainable)):
        yield fault
        return
    if isinstance(spec.trainable, ByValue) and (
        refused := find_pickling_fault(spec.trainable)
    ):
        rule = f"cannot be sent to the workers ({refused}): it holds what is of this process alone"
        yield Fault("trainable", rule, str(spec.trainable))
        return
    if trainable is not None and not is_learner(trainable):
        rays = is_rays_class(trainable)
        yield from _find_learner_only_faults(
            spec, "a class of Ray Tune's" if rays else "a plain function"
        )
    else:
        if spec.epochs is None:
            yield Fault(
                "training.epochs",
                "is required for a Learner when there is no scheduler",
            )
        if (
            spec.resources.split > 1
            and trainable is not None
            and not can_split(trainable)
        ):
            rule = "must be 1 for a trainable that takes no argument `split`"
            yield Fault("resources.split", rule, spec.resources.split)
    needed = "final" if spec.refit == FINAL else "refit"
    if spec.refit and getattr(declaration, needed) is None:
        yield Fault(
            "refit", f"needs a Learner whose Declaration sets `{needed}`", spec.refit
        )
    metrics = declaration.metrics or getattr(trainable, "metrics", None)
    if isinstance(metrics, tuple | list):
        yield from _find_metric_faults(spec.objective, tuple(map(str, metrics)))
    yield from declaration.find_faults(spec, here=machine is not None)


def _find_learner_only_faults(spec: ExperimentSpec, what: str) -> Iterator[Fault]:
    """What only a Learner has: ranks and constants."""
    for name in ("workers", "split"):
        if (count := getattr(spec.resources, name)) > 1:
            rule = f"must be 1 for {what}: only a Learner knows of ranks"
            yield Fault(f"resources.{name}", rule, count)
    if spec.training:
        rule = f"is for Learners; {what} gets constants as values of search.space"
        yield Fault("training", rule, sorted(spec.training))


def _find_command_faults(command: Command, machine: Machine | None) -> Iterator[Fault]:
    """A missing program or script; absolute paths are not checked for a cluster."""
    here = Path.cwd()
    program = command.resolve_paths(here).arguments[0]
    script = command.script
    if machine is not None and shutil.which(program) is None:
        rule = "must begin with a program that is on the PATH, or with the path of one"
        yield Fault("trainable.command", rule, program)
    elif (
        script
        and not (here / script).is_file()
        and (machine or not Path(script).is_absolute())
    ):
        rule = f"must name a script that exists, seen from {here}"
        yield Fault("trainable.command", rule, script)


def _find_metric_faults(
    objective: Objective, metrics: tuple[str, ...]
) -> Iterator[Fault]:
    if objective.metric not in metrics:
        fault = build_unknown_fault(
            "objective.metric", "metric", objective.metric, metrics
        )
        yield Fault(
            fault.key, f"{fault.rule}: the trainable does not report it", None, metrics
        )
    reported = (*metrics, *MEASURED)
    for name in objective.required:
        if name not in reported:
            key = "limits" if name in objective.limited else "others"
            fault = build_unknown_fault(f"objective.{key}", "metric", name, reported)
            yield replace(fault, rule=f"{fault.rule}: the trainable does not report it")
