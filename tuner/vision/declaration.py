"""What the image classifier that ships declares: its settings, their faults, its data, a summary.

Nothing here imports torch but what builds a network, so that a spec is checked in milliseconds.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.errors import DataError, Fault, SpecError
from tuner.spec.code import list_trial_sections
from tuner.spec.declaration import (
    Declaration,
    NodeData,
    PinnedData,
    Values,
    find_config_faults,
)
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schedulers import DEFAULT, SCHEDULERS
from tuner.spec.sections import EPOCHS_TRAINED
from tuner.spec.settings import FaultsError, parse
from tuner.spec.space.domains import Choice, Domain
from tuner.spec.space.extremes import list_extreme_configs
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import merge_config
from tuner.vision import catalog
from tuner.vision.datasets._archive import Archive
from tuner.vision.datasets._dataset import DatasetInfo, resolve_data_folder
from tuner.vision.default_search import build_default_experiment, suggest_weights
from tuner.vision.metrics import LATENCY, METRICS, OPTIONAL_METRICS, REFIT_METRICS
from tuner.vision.model_catalog import (
    MODELS,
    find_model_info,
    is_own_network,
)
from tuner.vision.own_images import (
    describe_dataset,
    find_doubts,
    suggest_pixel_stats,
)
from tuner.vision.settings import (
    COMBINED,
    ClassifierSettings,
    build_own_data_fault,
    check_settings,
)
from tuner.vision.sources._decoded import DecodedSet
from tuner.vision.weights import NeededWeights, choose_weights, find_timm_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# By the names they are reported as
OPTIONAL = {f"val_{name}": name for name in OPTIONAL_METRICS}
FaultsOf = Callable[[Values], list[Fault]]

_BATCH_NORM = (
    "on CPUs each worker's BatchNorm{} sees its own share of a batch, so results change with the "
    "number of workers (on GPUs it is SyncBatchNorm, over the whole batch)."
)


@dataclass(frozen=True, slots=True)
class NeededData:
    """The files of a data set, in the data folder that each node has for this `data_dir`."""

    archive: Archive | DecodedSet
    data_dir: str | None

    @property
    def title(self) -> str:
        return self.archive.title

    def state(self) -> tuple[bool, bool]:
        folder = resolve_data_folder(self.data_dir)
        return self.archive.is_present(folder), self.archive.is_missing(folder)

    def download(self) -> None:
        self.archive.fetch(resolve_data_folder(self.data_dir))

    def load(self) -> list[NDArray[np.uint8]]:
        return self.archive.map_contents(resolve_data_folder(self.data_dir))

    def receive(self, contents: list[NDArray[np.uint8]]) -> None:
        origin = f"the {self.archive.name} of another node"
        folder = resolve_data_folder(self.data_dir)
        self.archive.write(
            folder, lambda: [each.data for each in contents], origin=origin
        )


class ClassifierDeclaration(Declaration):
    """The declaration of `tuner.vision.image_classifier.ImageClassifier`."""

    settings = ClassifierSettings
    combined = COMBINED
    metrics = (*METRICS, LATENCY, *OPTIONAL, EPOCHS_TRAINED)
    refit: ClassVar = {"train_on": "train+validation"}
    final: ClassVar = {"train_on": "all"}
    schemes = catalog.SOURCES.keys()

    def settle(self, spec: ExperimentSpec) -> ExperimentSpec:
        """The spec with the objective's metrics among those that the classifier reports.

        `start_from` becomes absolute: a resume and an export may be in another directory. Epochs
        become folds: see `_convert_to_folds`.
        """
        spec, _ = _convert_to_folds(spec)
        training = dict(spec.training)
        named = training.get("metrics", [])
        named = [named] if isinstance(named, str) else named
        wanted = OPTIONAL.get(spec.objective.metric)
        if wanted and isinstance(named, list) and wanted not in named:
            training["metrics"] = [*named, wanted]
        if LATENCY in (spec.objective.metric, *spec.objective.required):
            training["latency"] = True
        if isinstance(source := training.get("start_from"), str):
            training["start_from"] = os.path.abspath(Path(source).expanduser())
        if training == spec.training:
            return spec
        return spec.model_copy(update={"training": training})

    def check(self, values: Values, spec: ExperimentSpec) -> list[Fault]:
        return check_settings(values, split=spec.resources.split, files=False)

    def find_faults(self, spec: ExperimentSpec, *, here: bool) -> Iterator[Fault]:
        for fault in find_settings_faults(self.settle(spec)):
            added = fault.key == "training.metrics" and "metrics" not in spec.training
            yield replace(fault, key="objective.metric") if added else fault
        yield from _find_objective_faults(spec)
        yield from _convert_to_folds(spec)[1]

    def notes(self, spec: ExperimentSpec) -> Iterator[str]:
        if spec.resources.workers > 1 and not spec.resources.gpus:
            yield from _list_norm_notes(spec)
        yield from self.list_hints(spec)

    def list_hints(self, spec: ExperimentSpec) -> Iterator[str]:
        length = spec.training.get("fold_epochs")
        if isinstance(length, int) and length > 1:
            yield f"each epoch of a trial is a fold, which trains for {length} epochs"
        images = _describe_user_images(spec)
        if images or "start_from" in {**spec.training, **spec.search.space}:
            settings = next(_iterate_extreme_settings(spec))
            hints = [suggest_pixel_stats(settings)]
            hints += [suggest_weights(images, settings)] if images else []
            yield from filter(None, hints)

    def choose_refit(self, training: Values, epoch: int) -> tuple[dict[str, Any], int]:
        """A refit of folds trains as long as one of them, once."""
        if not training.get("folds"):
            return self.refit, epoch
        whole = {"folds": None, "fold_epochs": None, "epochs": training["fold_epochs"]}
        return {**self.refit, **whole}, training["fold_epochs"]

    def choose_confirm_constants(self, training: Values) -> dict[str, Any]:
        """A fresh seed draws another split or other folds, unless the validation split was given.

        The search has chosen by its split. Values on fresh ones say more of new data.
        """
        with suppress(FaultsError, DataError):  # the retraining says what is wrong
            info = catalog.describe(catalog.extract_data_choice(training))
            own = None if info is None else info.own_splits
            if training.get("folds") or (own is not None and "validation" not in own):
                return {"resplit": True}
        return {}

    def has_trial_seeds(self, spec: ExperimentSpec) -> bool:
        return bool(spec.training.get("resplit"))

    def data(self, spec: ExperimentSpec) -> dict[str, Any] | None:
        images = _describe_user_images(spec)
        return describe_dataset(images) if images else None

    def pin_data(
        self, spec: ExperimentSpec, *, download: bool, here: bool
    ) -> PinnedData | None:
        """Decode a user's own images, once for all trials and machines, and check the spec by them.

        Networks that begin with weights or freeze layers are built, to see whether they can.
        """
        choice = catalog.extract_data_choice(spec.constants)
        info: DatasetInfo | None = None
        values: dict[str, Any] = {}
        findings: tuple[str, ...] = ()
        if catalog.is_shipped(choice.dataset):
            info = catalog.load_dataset_info(choice)
        elif download or not catalog.may_download(choice.dataset):
            chosen, findings = catalog.pin_dataset(choice)
            info = catalog.load_dataset_info(chosen)
            values = asdict(chosen)
            findings = (*findings, *find_doubts(info))
        known: Any = spec.training.get("weights_sha256") or {}
        digests: dict[str, str] = dict(known)
        check = build_start_check(here=here, digests=digests)
        # With data that ships, the settings are those that `validate` has checked
        faults = (
            find_settings_faults(spec, values, further=check)
            if values
            else find_config_faults(spec, check)
        )
        if texts := list(dict.fromkeys(map(str, faults))):
            raise SpecError(
                (Fault("", text) for text in texts), f"the spec, for {choice.dataset},"
            )
        if info is None:
            return None
        recorded = {"weights_sha256": digests} if digests else {}
        baseline = {}
        if info.baseline is not None and "dataset" not in spec.search.space:
            images = info.validation + (info.train if spec.training.get("folds") else 0)
            baseline = {"images": images, "baseline": info.baseline}
            if info.copies:
                baseline |= {
                    "copies": info.copies,
                    "measured": info.validation + info.test,
                }
        constants = {**values, **recorded}
        return PinnedData(constants, info.content, baseline, findings, recorded)

    def constants(self, spec: ExperimentSpec, *, here: bool) -> dict[str, Any]:
        """On one machine trials read what the driver has decoded, in any environment."""
        constants = spec.constants
        if here and catalog.parse_decoded(str(constants.get("dataset"))):
            constants["data_dir"] = str(
                resolve_data_folder(constants.get("data_dir")).absolute()
            )
        return constants

    def node_data(self, spec: ExperimentSpec) -> Sequence[NodeData]:
        """The data sets that can be downloaded, pinned images, and initial weights."""
        values = {**spec.constants, **spec.search.space}
        names = _list_extremes(values, "dataset")
        archives = [catalog.find_archive(str(name)) for name in names]
        data_dir = spec.training.get("data_dir")
        folder = None if data_dir is None else str(data_dir)
        data: list[NodeData] = [
            NeededData(archive, folder) for archive in archives if archive
        ]
        return [*data, *_list_needed_weights(values)]

    def summaries(self, spec: ExperimentSpec) -> list[dict[str, Any]]:
        """Of each model, with the first of what else is searched. Raises SpecError."""
        first: dict[str, ClassifierSettings] = {}
        for settings in _iterate_extreme_settings(spec):
            first.setdefault(settings.model, settings)
        from tuner.vision.blueprint import build_blueprint
        from tuner.vision.model_summary import summarize_model

        return [
            {
                "model": plan.name,
                "settings": plan.settings,
                "images": plan.shape,
                "classes": plan.num_classes,
                **summarize_model(plan, frozen=settings.freeze),
            }
            for settings in first.values()
            for plan in [build_blueprint(settings)]
        ]

    def measure_epoch_s(self, spec: ExperimentSpec) -> float | None:
        """Of one rank on a user's images, with the first of the networks; else None.

        None, too, where heads train alone: nearly all of their time goes into features, once.
        """
        images = _describe_user_images(spec)
        resources = spec.resources
        networks = _list_extremes(spec.constants, "model")
        has_own_network = any(map(is_own_network, map(str, networks)))
        if images is None or resources.ranks > 1 or has_own_network:
            return None
        settings = next(_iterate_extreme_settings(spec))
        if settings.train_layers == "head":
            return None
        from tuner.vision.blueprint import build_blueprint
        from tuner.vision.model_summary import measure_step_s

        threads = max(1, int(resources.cpus))
        is_on_gpu = resources.gpus > 0
        seconds = measure_step_s(
            build_blueprint(settings, images), settings, threads=threads, gpu=is_on_gpu
        )
        length = settings.fold_epochs or 1  # below, validation takes a third of a step
        return (
            length
            * seconds
            * (images.train + images.validation / 3)
            / settings.batch_size
        )

    def find_code_paths(self, spec: Values) -> Iterator[tuple[str, str]]:
        """A user's own networks, and functions that return images, each once."""
        for setting, is_code in (
            ("model", is_own_network),
            ("dataset", catalog.is_dotted),
        ):
            sections: dict[str, str] = {}
            for section, values in list_trial_sections(spec):
                texts = _list_texts(values[setting]) if setting in values else []
                for text in filter(is_code, texts):
                    sections.setdefault(text, section)
            yield from (
                (f"{section}.{setting}", text) for text, section in sections.items()
            )

    default_experiment = staticmethod(build_default_experiment)

    def export(
        self, results: Any, to: Path, *, trial_id: str | None, formats: Collection[str]
    ) -> Path:
        from tuner.vision.export.write import export_model

        return export_model(results, to, trial_id=trial_id, formats=formats)

    def describe_settings(
        self,
    ) -> tuple[Mapping[str, str], Mapping[str, tuple[str, Mapping[str, str]]]]:
        defaults: dict[str, list[str]] = {}
        models = {}
        for name, model in MODELS.items():
            for setting, default in model.defaults.items():
                defaults.setdefault(setting, []).append(f"{name} {default}")
            about = (inspect.getdoc(model.build) or "").partition("\n\n")[0].rstrip(".")
            models[name] = f"{' '.join(about.split())}. Takes {model.images}."
        datasets = {
            name: f"{info.title}; {info.num_classes} classes, "
            f"{info.channels}x{info.image_size}x{info.image_size} images: {info.train:,} for "
            f"training, {info.validation:,} and {info.test:,} held out."
            for name, info in catalog.DATASETS.items()
        }
        in_words = {
            setting: f"default of {', '.join(some)}; no other has it"
            for setting, some in defaults.items()
        }
        return in_words, {
            "models": ("Networks that ship", models),
            "datasets": ("Data sets that ship", datasets),
        }


DECLARATION = ClassifierDeclaration()


def find_settings_faults(
    spec: ExperimentSpec,
    pinned: Values | None = None,
    *,
    further: FaultsOf = lambda values: [],
) -> Iterator[Fault]:
    """The faults of training at every extreme of the space; `further` checks sound values."""
    yield from _find_data_faults(spec)
    # A folder is listed once, not for every extreme
    described = cache(catalog.describe)
    settings_check = partial(
        check_settings, split=spec.resources.split, describe=described
    )

    def check(values: Values) -> list[Fault]:
        faults = settings_check(values)
        workers = spec.resources.workers
        [size] = _list_extremes(values, "batch_size")
        if isinstance(size, int) and size % workers:  # every rank takes the same share
            faults.append(
                Fault("batch_size", f"must be divisible by the {workers} workers", size)
            )
        return faults or further(values)

    yield from find_config_faults(spec, check, pinned=pinned)


_OF_START = ("pretrained", "start_from", "freeze", "train_layers", "fit_head")


def build_start_check(*, here: bool, digests: dict[str, str] | None = None) -> FaultsOf:
    """Checks whether networks can begin with weights and freeze layers; each is built once.

    here: whether trials run on this machine, whose pretrained weights they take. digests: gets the
    SHA-256 of each file of weights by its key in `weights_sha256`. Imports torch only for values
    that name weights or layers.
    """
    known: dict[str, list[Fault]] = {}

    def check(values: Values) -> list[Fault]:
        if not any(map(values.get, _OF_START)):
            return []
        settings = ClassifierSettings.model_validate(values)
        if not here:
            settings = settings.model_copy(update={"pretrained": False})
        has_head = settings.train_layers == "head" or settings.fit_head
        start = (settings.pretrained, settings.start_from, settings.freeze, has_head)
        if not any(start) or (data := catalog.describe(settings.data)) is None:
            return []
        from tuner.vision.blueprint import build_blueprint
        from tuner.vision.transfer import find_start_faults
        from tuner.vision.weight_files import (
            choose_weights_key,
            compute_backbone_digest,
        )

        plan = build_blueprint(settings, data)
        key = repr((plan, start))
        if key not in known:
            known[key] = find_start_faults(settings, plan)
            if digests is not None and settings.begins_with_weights and not known[key]:
                digests[choose_weights_key(settings)] = compute_backbone_digest(
                    settings, plan.info
                )
        return known[key]

    return check


def _find_data_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """What cannot be searched: images of the user's own are decoded once, for all trials."""
    space = spec.search.space
    configs = getattr(spec.search, "configs", ())
    names = [
        *_list_extremes(space, "dataset"),
        *(config.get("dataset") for config in configs),
    ]
    for name in names:
        if isinstance(name, str) and not catalog.is_shipped(name):
            yield build_own_data_fault(name).add_prefix("search.space")
    for name in ("image_size", "image_bits", "skip_unreadable"):
        if name in space:
            rule = f"cannot be searched, since images are decoded once: set training.{name}"
            yield Fault(f"search.space.{name}", rule)


def _find_objective_faults(spec: ExperimentSpec) -> Iterator[Fault]:
    """Splits that differ among trials, and an objective that is not reported."""
    for name in ("train_on", "folds", "fold_epochs", "resplit"):
        if name in spec.search.space:
            yield Fault(
                f"search.space.{name}", f"cannot be searched: set training.{name}"
            )
    trains_on = spec.training.get("train_on", "train")
    searching = (*METRICS, *OPTIONAL)
    reported = searching if trains_on == "train" else REFIT_METRICS
    if spec.objective.metric in {*searching, *REFIT_METRICS} - {*reported}:
        rule = f"is not reported with training.train_on {trains_on!r}"
        yield Fault(
            "objective.metric", rule, spec.objective.metric, tuple(sorted(reported))
        )


def _convert_to_folds(spec: ExperimentSpec) -> tuple[ExperimentSpec, list[Fault]]:
    """(the spec with its epochs counted in folds, if it has any; what does not fit).

    Unless `fold_epochs` is set, it is the trials' length. Only a mean over all folds is a trial's
    value: in those over some of them is more luck.
    """
    folds = spec.training.get("folds")
    training = dict(spec.training)
    if type(folds) is not int or spec.epochs is None:
        return spec, []
    given = spec.scheduler or SCHEDULERS.load_settings(DEFAULT).model_validate(
        {"max_t": spec.epochs}
    )
    scheduler = given
    faults = list[Fault]()
    if training.get("fold_epochs") is None:
        training["fold_epochs"] = spec.epochs
        training.pop("epochs", None)
        values = {**given.model_dump(exclude_unset=True), "max_t": folds}
        if spec.scheduler is None or values.get("grace_period") == given.max_t:
            values["grace_period"] = folds  # no trial is stopped
        parsed, faults = parse(type(given), values, "scheduler")
        scheduler = parsed or given
    elif given.max_t != folds:
        rule = f"counts folds: must be training.folds, {folds}"
        faults.append(Fault("scheduler.max_t", rule, given.max_t))
    unused = {
        "training.epochs": training.get("epochs"),
        "search.space.epochs": spec.search.space.get("epochs"),
        "stop.patience_epochs": spec.stop.patience_epochs,
    }
    rule = (
        "cannot be combined with training.folds, each of which trains for fold_epochs"
    )
    faults += [
        Fault(key, rule, value) for key, value in unused.items() if value is not None
    ]
    objective = spec.objective.model_copy(
        update={"from_epoch": spec.objective.from_epoch or folds}
    )
    changes = {"training": training, "scheduler": scheduler, "objective": objective}
    return spec.model_copy(update=changes), faults


def _list_extremes(values: Values, setting: str) -> tuple[Any, ...]:
    """The extremes of a setting's domain, or its constant or default."""
    value = values.get(setting)
    if value is None:
        value = ClassifierSettings.model_fields[setting].default
    return tuple(value.list_extremes()) if isinstance(value, Domain) else (value,)


def _iterate_extreme_settings(spec: ExperimentSpec) -> Iterator[ClassifierSettings]:
    for config in list_extreme_configs(spec.search.space, spec.search.forbid):
        yield ClassifierSettings.model_validate(merge_config(spec.constants, config))


def _describe_user_images(spec: ExperimentSpec) -> DatasetInfo | None:
    """A user's own images that `spec` trains on, as far as known without decoding them now."""
    choice = catalog.extract_data_choice(spec.constants)
    return None if catalog.is_shipped(choice.dataset) else catalog.describe(choice)


def _list_texts(raw: object) -> list[str]:
    """The texts that a setting may have, as a constant or as a choice."""
    try:
        [value] = parse_space({"setting": raw}).values()
    except FaultsError:  # such a spec is refused
        return []
    options = value.values if isinstance(value, Choice) else (value,)
    return [option for option in options if isinstance(option, str)]


def _list_needed_weights(values: Values) -> Iterator[NeededWeights]:
    recorded = values.get("weights_sha256") or {}
    for source in _list_extremes(values, "start_from"):
        if isinstance(source, str):
            yield NeededWeights(source=str(Path(source).expanduser().absolute()))
    if True in _list_extremes(values, "pretrained"):
        for model in _list_extremes(values, "model"):
            library, _, network = str(model).partition(":")
            if parts := library == model and find_model_info(str(model)).parts:
                yield from (NeededWeights(choose_weights(part)) for part in parts)
            elif weights := choose_weights(str(model), recorded.get(model)):
                yield NeededWeights(weights)
            elif library == "timm" and (file := find_timm_files().get(network)):
                yield NeededWeights(source=str(file))


def _list_norm_notes(spec: ExperimentSpec) -> Iterator[str]:
    """What there is to say where any config trains, or may train, a model with BatchNorm."""
    values = {**spec.training, **spec.search.space}
    norms = _list_extremes(values, "norm")
    models = {name: find_model_info(name) for name in _list_extremes(values, "model")}
    usual = [info.defaults.get("norm") for info in models.values()]
    if any((norm or own) == "batch" for own in usual if own for norm in norms):
        alike = "training.norm=group gives the same with any number."
        yield f"{_BATCH_NORM.format('')} {alike}"
    foreign = [
        name for name, info in models.items() if info.foreign or info.has_pretrained
    ]
    if foreign:
        yield _BATCH_NORM.format(f", if there is any in {', '.join(foreign)},")
