"""The spec of an experiment: frozen, checked completely, and lossless as JSON and YAML.

`tuner.spec.validation` checks what needs the trainable or the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    PlainSerializer,
    ValidationInfo,
    WrapValidator,
    model_validator,
)

from tuner.errors import Fault, SpecError
from tuner.places import find_default_storage, find_local_folder, find_url
from tuner.plugins import TRACKERS
from tuner.spec import sections
from tuner.spec.by_value import ByValue, is_by_value, is_importable
from tuner.spec.code import CLASSIFIER_BEFORE, ELSEWHERE, IMAGE_CLASSIFIER, find_code
from tuner.spec.command import Command
from tuner.spec.notify import check_target, hide_secrets
from tuner.spec.plain_values import convert_values, flatten
from tuner.spec.retired import RECORDED
from tuner.spec.schedulers import Scheduler
from tuner.spec.settings import (
    MAX_COUNT,
    Count,
    FaultsError,
    Settings,
    bad_value,
    parse,
    parse_names,
    parse_texts,
)
from tuner.spec.space.constraints import as_list
from tuner.spec.space.parsing import CALLS, extract_call_name
from tuner.spec.space.spaces import walk
from tuner.spec.strategies import GridSettings, Search, choose_strategy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_name(text: str) -> bool:
    """Whether `text` can be the name of an experiment, and so is no path."""
    return bool(_NAME.fullmatch(text)) and ".." not in text and len(text) <= 100


def _parse_name(raw: object) -> str:
    name = "" if raw is None else str(raw)
    if not is_name(name):
        rule = "must be letters, digits, '-', '_' and single '.', at most 100, no path"
        raise bad_value(rule, name)
    return name


COMPLETE_STORAGE = "."  # in place of a name
FINAL = "final"  # of `refit`: on the test images, too


def _check_path(text: str) -> str:
    if not text or "\0" in text or not text.isprintable():
        raise bad_value("must be a path of printable characters", text)
    if re.match(r"[a-z0-9]{2,}:/(?!/)", text):
        raise bad_value("must be a folder, or a URL such as s3://BUCKET/FOLDER", text)
    return text


def _check_storage(text: str) -> str:
    rule = "must be a folder, or the URL of an object store with a bucket, as s3://BUCKET/FOLDER"
    if re.match(r"[a-z0-9]{2,}:/*$|https?:", text):
        raise bad_value(rule, text)
    if re.search(r"\$\w|\$\{", text):
        raise bad_value("must hold no variable, since none is filled in here", text)
    return _check_path(text)


def _parse_warm_start(raw: object) -> str | tuple[str, ...]:
    names = parse_texts(raw, "must be a name, or a list of names")
    if not names:
        raise bad_value("must not be empty", raw)
    unique = tuple(dict.fromkeys(map(_check_path, names)))
    return unique[0] if len(unique) == 1 else unique


def parse_trainable(raw: Any) -> str:
    """`module:name`, a ByValue, a Command, or ELSEWHERE. Raises FaultsError."""
    if isinstance(raw, ByValue | Command):
        return raw
    if isinstance(raw, Mapping):
        return Command.read(raw)
    if raw == ELSEWHERE:
        return ELSEWHERE
    if raw == CLASSIFIER_BEFORE:
        return IMAGE_CLASSIFIER
    if isinstance(raw, str) and is_by_value(raw):
        return _check_path(raw)
    if isinstance(raw, str):
        module, _, name = raw.partition(":") if ":" in raw else raw.rpartition(".")
        parts = [*module.split("."), *name.split(".")]
        is_file = "py" in (name, parts[-2])  # train.py, or train.py:main
        if not module or is_file or not all(part.isidentifier() for part in parts):
            raise bad_value("must be a dotted path, as in 'package.module:Name'", raw)
        return f"{module}:{name}"
    if not callable(raw):
        raise bad_value("must be a class, a function, or the dotted path of one", raw)
    return (
        f"{raw.__module__}:{raw.__qualname__}" if is_importable(raw) else ByValue(raw)
    )


# Wrapped, since pydantic's own check of a str would make a plain one of a ByValue
_Trainable = Annotated[
    str,
    WrapValidator(lambda raw, _: parse_trainable(raw)),
    PlainSerializer(
        lambda text: text.plain if isinstance(text, Command) else str(text)
    ),
]


def _parse_trackers(raw: object, info: ValidationInfo) -> object:
    """The names of trackers; recorded ones may be of packages that this machine lacks."""
    if info.context == RECORDED:
        return parse_texts(raw, "must be a list of names")
    return parse_names(raw, TRACKERS.list_names(), "log")


def _parse_constants(raw: object) -> object:
    """The constants, with a network that is an object replaced by its dotted path."""
    if isinstance(raw, Mapping) and callable(network := raw.get("model")):
        path = parse_trainable(network)
        if isinstance(path, ByValue) or path.startswith("__main__:"):
            rule = "must be at the top level of a module that trials can import"
            raise FaultsError(Fault("model", rule, str(path)))
        return convert_values({**raw, "model": path})
    return {} if raw is None else convert_values(raw)


class ExperimentSpec(Settings):
    """One experiment: what trains, what is searched, what decides, what it may use."""

    name: Annotated[str, BeforeValidator(_parse_name)] = Field(
        "experiment",
        description="the name of the experiment, and of its folder in `storage`",
    )
    trainable: _Trainable = Field(
        IMAGE_CLASSIFIER,
        description="what trains, as a Learner class, a function or a class of Ray Tune's, itself "
        'or by its dotted path; {command: ...} for any script; "elsewhere" if trials '
        "run elsewhere and ask for their configs",
    )
    training: Annotated[dict[str, JsonValue], BeforeValidator(_parse_constants)] = (
        Field(default_factory=dict, description="the trainable's constants")
    )
    search: Search
    objective: sections.Objective = sections.Objective()
    # Its name follows from `search`
    scheduler: Scheduler = Field({}, validate_default=True)
    resources: sections.Resources = sections.Resources()
    timeouts: sections.Timeouts = sections.Timeouts()
    checkpoints: sections.Checkpoints = sections.Checkpoints()
    stop: sections.Stop = sections.Stop()
    num_samples: Count | None = Field(
        None,
        description="how many trials to run; a grid, or a search with a time budget, may leave it "
        "out",
    )
    max_concurrent: Count | None = Field(
        None, description="how many trials may run at a time; default as many as fit"
    )
    time_budget_s: float | None = Field(
        None, gt=0, description="the seconds after which the search ends"
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**32,
        description="the seed of all configs and of each trial's training",
    )
    storage: Annotated[str, AfterValidator(_check_storage)] = Field(
        default_factory=find_default_storage,
        description="a folder, relative to where the run is started, or the URL of an object store "
        "(s3://bucket/folder); default $TUNER_STORAGE, else ./results",
    )
    log: Annotated[tuple[str, ...], BeforeValidator(_parse_trackers)] = Field(
        (),
        description=f"trackers to log to, beside TensorBoard: {', '.join(TRACKERS.built_in)}, or "
        "those of packages.",
    )
    notify: Annotated[
        tuple[Annotated[str, AfterValidator(check_target)], ...],
        as_list,
        AfterValidator(lambda targets: tuple(dict.fromkeys(targets))),
        PlainSerializer(
            lambda targets: [*map(hide_secrets, targets)], list[str], when_used="json"
        ),
    ] = Field(
        (),
        description="where to report the end, the first failure and a new best: https://HOST/PATH, "
        "which gets JSON, or a URL of apprise's or of a package. ${NAME} in place of a URL, or of "
        "a part of it, is a variable of the environment.",
    )
    refit: Literal[False, True, "final"] = Field(
        False,
        description="whether `tuner run` and `resume` train the best config on training and "
        "validation images at the end, as the experiment NAME-refit, which is then the model that "
        "is exported; the search leaves time for it in its budget. final: on the test images, "
        "too, so that nothing measures that model",
    )
    confirms: sections.Confirms | None = Field(
        None,
        description="what `tuner confirm` says of the search that it retrains the leaders of",
    )
    refits: sections.Refits | None = Field(
        None,
        description="what `tuner refit` says of the trial that it trains on more images",
    )
    warm_start: (
        Annotated[str | tuple[str, ...], BeforeValidator(_parse_warm_start)] | None
    ) = Field(
        None,
        description="an earlier experiment, by name or folder, whose trials the strategy learns "
        'from; grid and random skip its configs. Of a list, or of ".", all experiments in the '
        "storage, the best configs are tried first",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_strategy(cls, raw: Any) -> Any:
        search = raw.get("search") if isinstance(raw, Mapping) else None
        if not isinstance(search, Mapping) or "strategy" in search:
            return raw
        return {**raw, "search": {**search, "strategy": choose_strategy(raw)}}

    @model_validator(mode="before")
    @classmethod
    def _split_objectives(cls, raw: Any) -> Any:
        """`objectives` as the objective, which is the first, and its `others`."""
        match raw:
            case {"objectives": [dict() as first, *others], **values}:
                shared = values.get("objective") or {}
                if isinstance(shared, Mapping) and not {"metric", "mode", "others"} & {
                    *shared
                }:
                    return {
                        **values,
                        "objective": {**shared, **first, "others": others},
                    }
            case {"objectives": objectives}:
                rule = "must be a list of mappings with a metric"
                raise FaultsError(Fault("objectives", rule, objectives))
            case _:
                return raw
        rule = "must not name a metric or mode beside objectives"
        raise FaultsError(Fault("objective", rule, raw["objective"]))

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        faults = []
        if (
            self.search.strategy != "grid"
            and self.num_samples is None
            and not self.time_budget_s
        ):
            faults.append(
                Fault("num_samples", "is required, unless the search is grid")
            )
        elif self.num_samples is None and (self.trials or 0) > MAX_COUNT:
            rule = f"is required: there are more than {MAX_COUNT:,} configs"
            faults.append(Fault("num_samples", rule))
        for name in sorted(self._find_shared_keys(self.training, self.search.space)):
            faults.append(
                Fault(
                    f"training.{name}",
                    f"is also searched: set search.space.{name} instead",
                )
            )
        faults += [
            Fault(f"training.{name}", "is a domain: write it in search.space", text)
            for name, text in flatten(self.training, ".").items()
            if isinstance(text, str) and extract_call_name(text) in CALLS
        ]
        if isinstance(self.trainable, Command):
            names = [
                *self.search.space,
                *(where.path for where, _ in walk(self.search.space)),
            ]
            faults += [
                fault.add_prefix("trainable")
                for fault in self.trainable.find_faults(names)
            ]
        if self.warm_start and not (self.search.learns or self.search.skips):
            rule = "(--from) needs a search that learns from trials, or leaves out what was tried"
            faults.append(Fault("warm_start", rule, self.search.strategy))
        faults += self._find_goal_faults()
        first = self.objective.from_epoch
        if first and self.epochs and first > self.epochs:
            rule = f"must be at most the epochs of a trial, {self.epochs}"
            faults.append(Fault("objective.from_epoch", rule, first))
        if self.confirms:
            configs = (
                self.search.configs if isinstance(self.search, GridSettings) else ()
            )
            counts = {
                len(each)
                for each in (configs, self.confirms.trials, self.confirms.values)
            }
            if len(counts) > 1 or not getattr(self.search, "seeds", ()):
                rule = "needs a grid of search.seeds and as many search.configs, trials and values"
                faults.append(Fault("confirms", rule))
        if faults:
            raise FaultsError(*faults)
        return self

    def _find_goal_faults(self) -> Iterator[Fault]:
        if not self.objective.others:
            return
        if self.scheduler and self.scheduler.name != "asha":
            rule = "must be asha or none where there are several objectives"
            yield Fault("scheduler.name", rule, self.scheduler.name)
        if self.warm_start and self.search.learns:
            yield Fault("warm_start", "is of one objective, and there are several here")

    def _find_shared_keys(
        self, constants: Mapping[str, Any], space: Mapping[str, Any]
    ) -> Iterator[str]:
        """The keys that are constants and searched; the classifier merges mappings of both."""
        for name in constants.keys() & space.keys():
            both = constants[name], space[name]
            if self.ships and all(isinstance(value, Mapping) for value in both):
                yield from (
                    f"{name}.{inner}" for inner in self._find_shared_keys(*both)
                )
            else:
                yield name

    @property
    def folder(self) -> Path:
        """The experiment's folder, STORAGE/NAME; of a storage that is a URL, its mirror here."""
        return find_local_folder(self.storage) / self.name

    @property
    def location(self) -> str:
        """The experiment's folder for every machine: an absolute path, or a URL."""
        return find_url(self.folder) or str(self.folder.resolve())

    @property
    def ships(self) -> bool:
        """Whether the trainable is the image classifier that ships with tuner."""
        return self.trainable == IMAGE_CLASSIFIER

    @property
    def is_elsewhere(self) -> bool:
        """Whether clients run its trials."""
        return self.trainable == ELSEWHERE

    @property
    def needs_code(self) -> bool:
        """Whether trials import what does not ship with tuner, a network of the user's own, too."""
        fields = ("space", "configs", "points_to_evaluate")
        search = {name: getattr(self.search, name, None) for name in fields}
        return not self.ships or bool(
            find_code({"training": self.training, "search": search})
        )

    @property
    def trials(self) -> int | None:
        """How many trials there will be; None where only the time budget ends the search."""
        return self.count_trials()

    def count_trials(self, skipped: int = 0) -> int | None:
        """`trials` of a search that skips this many configs of its space.

        A negative number counts more, of an earlier space.
        """
        configs = self.search.trials(None) if skipped else None
        if configs is None:
            return self.search.trials(self.num_samples)
        left = configs - skipped
        return min(left, self.num_samples or left)

    @property
    def epochs(self) -> int | None:
        """The length of a complete trial in epochs, or None if the trainable ends by itself."""
        epochs = self.training.get("epochs")
        lengths = [self.scheduler.max_t] if self.scheduler else []
        if isinstance(epochs, int):
            lengths.append(epochs)
        return min(lengths, default=None)

    @property
    def brackets(self) -> int:
        """How many brackets the scheduler has; 1 where there is no scheduler."""
        return (
            self.scheduler.count_brackets(self.search.brackets) if self.scheduler else 1
        )

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of every Learner, with `seed`, and `epochs` if known."""
        length = {} if self.epochs is None else {"epochs": self.epochs}
        return {**length, "seed": self.seed, **self.training}

    def replace(self, **changes: Any) -> ExperimentSpec:
        """This spec with the given fields changed, validated anew. Raises SpecError."""
        return build_spec({**self.dump_values(), **changes})

    def dump_values(self, *, exclude_unset: bool = False) -> dict[str, Any]:
        """The values that build it again: plain, but with secrets, code by value, and domains."""
        values = self.model_dump(
            mode="json", exclude_unset=exclude_unset, exclude={"search": {"space"}}
        )
        values["search"]["space"] = dict(self.search.space)
        complete = {"trainable": self.trainable, "notify": self.notify}
        return {
            **values,
            **{name: value for name, value in complete.items() if name in values},
        }

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def to_yaml(self) -> str:
        import yaml

        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=100)

    @classmethod
    def from_text(cls, text: str) -> ExperimentSpec:
        """The spec that YAML or JSON `text` holds. Raises SpecError with every fault."""
        from tuner.spec.text import read_mapping  # yaml

        return build_spec(read_mapping(text))


def build_spec(
    raw: Mapping[str, Any], source: str = "the spec", *, recorded: bool = False
) -> ExperimentSpec:
    """The spec of a mapping. Raises SpecError that lists every fault, headed by `source`.

    recorded: it may have settings that only earlier versions had.
    """
    spec, faults = parse(ExperimentSpec, raw, context=RECORDED if recorded else None)
    if spec is None:
        raise SpecError(faults, source)
    return spec
