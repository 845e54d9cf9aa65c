"""One model of the best trials: a soup of their weights, an ensemble, or the best alone.

Wortsman et al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves
accuracy without increasing inference time", algorithm 1: the greedy soup. Averages are useful of
models that began with the same weights; of others the greedy soup is the best trial alone.

The validation split alone decides. A tie goes to the simpler model. Each is measured as its export
predicts, with the temperature that fits the validation split: averaging changes how sure a model
is, and its loss would show that more than its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite, nan
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tuner.errors import UsageError
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_checkpoint
from tuner.spec.sections import Objective
from tuner.trial.gpus import take
from tuner.vision.batches import load_image_set, sample_evenly, split_for_trial
from tuner.vision.datasets._dataset import check_same
from tuner.vision.ensemble import (
    average_weights,
    build_ensemble,
    find_differing_norms,
    join_weights,
)
from tuner.vision.evaluation import Predictor, prepare_device
from tuner.vision.export import interchange
from tuner.vision.export.calibration import MOST_CALIBRATED, fit_calibration
from tuner.vision.export.read import Combined, ImageInput, Member
from tuner.vision.export.write import (
    TrialModel,
    check_target,
    export_model,
    write_export,
)
from tuner.vision.loss import measure_logits
from tuner.vision.metrics import LATENCY

COSTS = ("parameters", LATENCY)  # metrics that add up where models compute together

Kind = Literal["single", "soup", "ensemble"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model, the trials that it is made of, and its metrics on the validation split."""

    kind: Kind
    trials: tuple[str, ...]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Soup:
    """The candidates of a search, single, soup and ensemble, by its objective.

    left_out: of trials among the best that could not take part, why. folder: the export of
    the chosen one, or None.
    """

    name: str
    objective: Objective
    candidates: tuple[Candidate, ...]
    left_out: Mapping[str, str]
    folder: Path | None = None

    @property
    def chosen(self) -> Candidate:
        """The best on the validation split within the limits; of equals, or of none, the first."""
        metric = self.objective.metric
        key = self.objective.compute_loss
        usable = [
            each
            for each in self.candidates
            if isfinite(each.metrics[metric]) and self.is_allowed(each)
        ]
        return min(
            usable or self.candidates[:1], key=lambda each: key(each.metrics[metric])
        )

    def is_allowed(self, candidate: Candidate) -> bool:
        """Whether the candidate can be chosen; it must have every metric of the limits."""
        return self.objective.is_within_limits(candidate.metrics)

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for `soup --json`."""
        return {
            "name": self.name,
            "metric": self.objective.metric,
            "mode": self.objective.mode,
            "models": [
                {
                    "model": each.kind,
                    "trials": list(each.trials),
                    "metrics": dict(each.metrics),
                    "keeps_limits": self.is_allowed(each),
                }
                for each in self.candidates
            ],
            "left_out": dict(self.left_out),
            "chosen": self.chosen.kind,
            "export": str(self.folder) if self.folder else None,
        }


def choose_ingredients(
    count: int, value: Callable[[tuple[int, ...]], float], objective: Objective
) -> tuple[int, ...]:
    """The ingredients of the greedy soup among 0 to `count` - 1, the best first."""
    soup: tuple[int, ...] = (0,)
    best = value(soup)
    for number in range(1, count):
        added = value((*soup, number))
        if isfinite(added) and not objective.is_better(best, than=added):
            soup = (*soup, number)
            best = added
    return soup


def soup(
    results: Results,
    to: Path | str | None = None,
    *,
    top: int = 5,
    formats: Collection[str] = (),
) -> Soup:
    """Combine the `top` best trials, and export the best combination, or the best trial, to `to`.

    Measures on the validation split the best trial, a greedy soup, and the ensemble of all, each as
    the best trial evaluates. Trials of another network or other shapes than the best's cannot be
    averaged; those that take other pixels, or that have trained on images which validate the best,
    cannot be combined at all. A combination must keep the limits of the objective: its parameters
    and its latency are the best's for a soup, and the sum for an ensemble.

    to: a new or empty folder; None to only measure. formats: as for `export_model`. Imports
    networks that the trials name. Raises UsageError for another trainable than the image classifier
    that ships, or an objective that is not measured on the validation split, DataError for missing
    images, and what `export_model` raises.
    """
    to = None if to is None else check_target(to)
    interchange.check_formats(formats)
    spec = results.spec
    if not spec.ships:
        raise UsageError(
            f"{results.name} trains {spec.trainable}; only models of the image classifier that "
            "ships can be combined"
        )
    if spec.training.get("resplit"):
        rule = "has validated each trial on other images (training.resplit)"
        raise UsageError(
            f"{results.name} {rule}: no image is left to compare combinations by"
        )
    if not results.metric.startswith("val_"):
        rule = "must be measured on the validation split"
        raise UsageError(
            f"the objective of {results.name} {rule}, got {results.metric!r}"
        )
    take(spec.resources.gpus)
    models, left_out = _load_leaders(results, top)
    combinations = _Combinations(models, results.metric)
    candidates, weights = combinations.measure_candidates(results.objective)
    left_out |= combinations.not_averaged
    done = Soup(results.name, results.objective, candidates, left_out)
    chosen = done.chosen
    if to is None:
        return done
    if chosen.kind == "single":
        folder = export_model(
            results, to, trial_id=models[0].trial.trial_id, formats=formats
        )
        return replace(done, folder=folder)
    best = models[0]
    best.state = {"model": weights[chosen.kind]}
    members = tuple(
        Member(model=model.entries["model"], **model.origin)
        for model in models
        if model.trial.trial_id in chosen.trials
    )
    combined = Combined(how=chosen.kind, members=members)
    folder = write_export(
        to,
        best,
        search=results,
        formats=formats,
        combined=combined,
        measured=chosen.metrics,
    )
    return replace(done, folder=folder)


def _load_leaders(
    results: Results, top: int
) -> tuple[list[TrialModel], dict[str, str]]:
    """The models of the best trials that can be combined with the best, and why others cannot."""
    results.get_best_trial()  # raises if there is none
    models: list[TrialModel] = []
    left_out = {}
    for trial in results.top(top):
        if models and find_best_checkpoint(trial, results.objective) is None:
            left_out[trial.trial_id] = "not combined: it kept no checkpoint"
            continue
        model = TrialModel(results, trial)
        reason = _describe_conflict(model, models[0]) if models else None
        if reason is None:
            models.append(model)
        else:
            left_out[trial.trial_id] = f"not combined: {reason}"
    return models, left_out


def _describe_conflict(model: TrialModel, best: TrialModel) -> str | None:
    """Why `model` cannot be measured together with the best, or None."""
    fold = model.checkpoint.epoch
    best_fold = best.checkpoint.epoch
    if model.constants.get("folds") and fold != best_fold:
        return f"it is of fold {fold}, and has trained on images that validate fold {best_fold}"
    inputs = _describe_inputs(model)
    best_inputs = _describe_inputs(best)
    differing = [name for name, value in inputs.items() if value != best_inputs[name]]
    return f"other {' and '.join(differing)} than the best's" if differing else None


def _describe_inputs(model: TrialModel) -> dict[str, object]:
    """What must be alike where models are measured together, as the best evaluates."""
    pixels: ImageInput = model.entries["input"]
    return {
        "pixels": pixels.model_copy(update={"mirrored": False, "upside_down": False}),
        "classes": model.entries["classes"],
        "data": model.entries["data"],
    }


class _Combinations:
    """Measures combinations of `models` on the validation split of the best one, the first."""

    def __init__(self, models: list[TrialModel], metric: str) -> None:
        self._models = models
        self._metric = metric
        settings = models[0].settings
        assert settings is not None  # of the classifier that ships
        self._settings = settings
        self._device = prepare_device(models[0].results.spec.resources.cpus)
        images = load_image_set(settings.data, self._device)
        self._images = split_for_trial(
            images, settings, fold=models[0].checkpoint.epoch - 1
        )
        check_same(models[0].entries["data"].content, self._images.info)
        self._pixels: ImageInput = models[0].entries["input"]
        self._weights: list[dict[str, Tensor]] = [
            dict((m.state or {})["model"]) for m in models
        ]
        self._plans = [model.entries["model"] for model in models]
        shapes = [
            {name: w.shape for name, w in weights.items()} for weights in self._weights
        ]
        networks = [*zip(self._plans, shapes, strict=True)]
        self._averaged = [n for n, each in enumerate(networks) if each == networks[0]]
        self.not_averaged = {
            model.trial.trial_id: "not in the soup: another network or other shapes than the best's"
            for number, model in enumerate(models)
            if number not in self._averaged
        }

    def measure_candidates(
        self, objective: Objective
    ) -> tuple[tuple[Candidate, ...], dict[str, dict[str, Tensor]]]:
        """(single, soup and ensemble; the weights of the latter two)."""
        ids = [model.trial.trial_id for model in self._models]
        reported = [model.metrics for model in self._models]
        soups: dict[tuple[int, ...], dict[str, float]] = {}
        weights: dict[tuple[int, ...], dict[str, Tensor]] = {}

        def score_soup(ingredients: tuple[int, ...]) -> float:
            metrics, weights[ingredients] = self._measure_soup(ingredients)
            known = reported[0] if ingredients == (0,) else _sum_costs(reported[:1])
            soups[ingredients] = select_limited(known) | metrics
            allowed = objective.is_within_limits(soups[ingredients])
            return metrics[self._metric] if allowed else nan

        def select_limited(metrics: Mapping[str, float]) -> dict[str, float]:
            return {
                name: metrics[name] for name in objective.limited if name in metrics
            }

        chosen = choose_ingredients(len(self._averaged), score_soup, objective)
        trials = tuple(ids[self._averaged[number]] for number in chosen)
        together = join_weights(self._weights)
        # Of a single trial: measured again, it may differ by rounding
        ensemble = soups[0,]
        if len(ids) > 1:
            ensemble = select_limited(_sum_costs(reported))
            ensemble |= self._measure_network(
                build_ensemble(self._plans, _copy_weights(together))
            )
        candidates = (
            Candidate("single", (ids[0],), soups[0,]),
            Candidate("soup", trials, soups[chosen]),
            Candidate("ensemble", tuple(ids), ensemble),
        )
        return candidates, {"soup": weights[chosen], "ensemble": together}

    def _measure_soup(
        self, ingredients: tuple[int, ...]
    ) -> tuple[dict[str, float], dict[str, Tensor]]:
        """(metrics, weights) of the average of some of the models that can be averaged."""
        members = [self._weights[self._averaged[number]] for number in ingredients]
        weights = average_weights(members)
        norms = find_differing_norms(members)
        network = self._plans[0].build(_copy_weights(weights))
        metrics = self._measure_network(network, renew=norms)
        renewed = network.state_dict()
        for name in weights:
            if name.rpartition(".")[0] in norms:
                weights[name] = renewed[name].to(weights[name])
        return metrics, weights

    def _measure_network(
        self, network: nn.Module, *, renew: Collection[str] = ()
    ) -> dict[str, float]:
        images = self._images
        settings = self._settings
        stats = self._pixels.stats
        predictor = Predictor(network, self._plans[0], settings, self._device, stats)
        if renew:
            predictor.renew_norms(renew, images.rows_NP[images.splits["train"]])
        logits_NK, labels_N = predictor.predict_images(
            images, images.splits["validation"]
        )
        some_N = sample_evenly(torch.arange(len(labels_N)), MOST_CALIBRATED)
        temperature = fit_calibration(logits_NK[some_N], labels_N[some_N]).temperature
        logits_NK = logits_NK.double() / temperature
        classes = images.info.num_classes
        measured = measure_logits(
            logits_NK, labels_N, metrics=settings.metrics, classes=classes
        )
        return {f"val_{name}": value for name, value in measured.metrics.items()}


def _sum_costs(reports: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The sums of what models cost that compute together; without what one has not reported."""
    costs = (name for name in COSTS if all(name in report for report in reports))
    return {name: fsum(report[name] for report in reports) for name in costs}


def _copy_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}
