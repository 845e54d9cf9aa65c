"""The Learner that ships with tuner: an image classifier trained from `ClassifierSettings`.

In a plain Python process:

    learner = ImageClassifier({"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 10})
    metrics = learner.step()
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from math import ceil, fsum
from statistics import stdev
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from tuner.errors import UsageError
from tuner.experiment.results.split_details import LEARNING_CURVE
from tuner.spec.sections import EPOCHS_TRAINED
from tuner.trial.torch_compat import bypass_compiler
from tuner.vision.averages import WeightAverage
from tuner.vision.batches import Batcher, load_image_set, split_for_trial
from tuner.vision.blueprint import build_blueprint
from tuner.vision.catalog import list_image_names, wait_for_copy
from tuner.vision.collectives import Ranks
from tuner.vision.datasets._dataset import DATA, check_same, encode_info
from tuner.vision.epochs import compute_seed, iterate_shards, seed_generators
from tuner.vision.evaluation import (
    Likeliest,
    evaluate,
    find_doubtful_labels,
    list_mistakes,
    measure_latency_ms,
)
from tuner.vision.feature_heads import FeatureBatcher, Head, fit_head, regress_head
from tuner.vision.features import Features, load_features
from tuner.vision.freezing import freeze, match_parameters
from tuner.vision.learning_curve import compute_learning_curve
from tuner.vision.loss import Measured, build_training_loss
from tuner.vision.metrics import LATENCY, METRICS, REFIT_METRICS
from tuner.vision.new_model import create_model
from tuner.vision.optimizer import LRSchedule, build_optimizer
from tuner.vision.pixel_stats import replace_pixel_stats
from tuner.vision.precision import choose_dtype, choose_precision, read_precision
from tuner.vision.replica import Replica, Setup
from tuner.vision.settings import build_trial_settings
from tuner.vision.transfer import BACKBONE, begin
from tuner.vision.weight_files import compute_backbone_digest
from tuner.wording import summarize_names

if TYPE_CHECKING:
    from tuner.vision.pipeline import Stage

_LBFGS_RATE = 1.0  # its line search begins with the whole step
_TRAINING, _EVALUATION = range(2)  # streams of what a model draws by itself


class ImageClassifier:
    """Trains the model, data set and recipe that its settings name; a `Learner`.

    All randomness, a network's Dropout included, follows from the setting `seed`, the epoch and the
    rank, so trials in one process do not affect each other. On a CPU a run that was saved and
    loaded continues bit for bit. On several ranks gradients equal one process's, except that
    BatchNorm on CPU ranks sees only each rank's share of a batch: use norm="group" there.
    split: the number of stages of the model, one on each rank; 1 if every rank has all of it.
    """

    metrics: tuple[str, ...] = METRICS
    stays_in_start_dir = True  # it writes nothing, and its data may have relative paths

    def __init__(
        self,
        config: Mapping[str, Any],
        constants: Mapping[str, Any],
        *,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world_size: int = 1,
        split: int = 1,
    ) -> None:
        """Raises SpecError for settings that cannot work, and DataError for missing data."""
        wait_for_copy(constants)
        settings = build_trial_settings(constants, config, split=split)
        assert split in (1, world_size)
        self._device = device = torch.device(device)
        self._ranks = Ranks(rank, world_size, self._device)
        self._validates = settings.train_on == "train"
        optional = (f"val_{name}" for name in settings.metrics)
        self.metrics = (*METRICS, *optional) if self._validates else REFIT_METRICS
        if settings.latency:
            self.metrics += (LATENCY,)
        self._trial_settings = settings
        self._split = split
        self._folds: list[dict[str, float]] = []  # the validation of each finished fold
        self._build()

    def _build(self, *, fold: int = 0) -> None:
        """Make all that trains, of an epoch or of the fold number `fold`."""
        of_all = self._trial_settings
        self._settings = settings = of_all.select_fold(fold)
        split = self._split
        device = self._device
        images = load_image_set(settings.data, self._device)
        data = replace(images, info=replace_pixel_stats(images.info, settings))
        self._data = split_for_trial(data, of_all, fold=fold)
        # Its validation split chooses the initial head
        searching = of_all.model_copy(update={"train_on": "train"})
        self._searched_on = split_for_trial(data, searching, fold=fold)
        # A data set that ships and keeps its own mean and std needs no description in a checkpoint
        self._is_described = (
            bool(images.info.content) or self._data.info is not images.info
        )
        self._precision = choose_precision(settings, self._device, split=split)
        self._dtype = choose_dtype(settings)
        self._trained_in = self._precision
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._precision.scaled)
        self._images = len(self._data.splits["train"])
        self._plan = build_blueprint(settings, self._data.info)
        self._batching: Any = {
            "dtype": self._dtype,
            "augmentation": settings,
            "device": device,
        }
        if settings.train_layers == "head":
            model = self._build_head()
            with seed_generators(settings.seed):
                complete = self._plan.initialize_model()
        else:
            self._batcher = Batcher(self._data, **self._batching)
            model = complete = create_model(
                settings,
                self._plan,
                self._precision,
                self._ranks,
                images=self._images,
                split=split,
            )
        self._parameters = sum(parameter.numel() for parameter in complete.parameters())
        self._model = model = self._ranks.sync_norms(model)
        self._frozen = match_parameters(self._model, settings.freeze)
        freeze(self._model, self._frozen)
        self._loss = build_training_loss(settings, self._data, self._device)
        setup = Setup(
            model, settings, self._ranks, self._batcher, self._loss, self._precision
        )
        self._part: Replica | Stage
        if split > 1:
            from tuner.vision.pipeline import Stage  # its imports take a second

            self._part = Stage(setup)
        else:
            self._part = Replica(setup, self._scaler)
        self._average = WeightAverage(self._part.list_tensors, decay=settings.ema_decay)
        self._batches = ceil(self._images / settings.batch_size)
        steps = settings.epochs * self._batches
        with self._build_optimizer_context():
            self._optimizer = build_optimizer(
                settings, self._model, frozen=self._frozen
            )
            self._lr_schedule = LRSchedule(settings, self._optimizer, steps=steps)
        self._epoch = 0

    def _build_head(self) -> nn.Module:
        """The head alone, and `_batcher` of features in place of images."""
        features = self._load_features()
        digest = compute_backbone_digest(self._settings, self._plan.info)
        self._backbone = {BACKBONE: digest}
        self._batcher = FeatureBatcher(features, self._data, **self._batching)
        with seed_generators(self._settings.seed):
            head = Head(
                features.head, features.views_NUMF.shape[3], self._plan.num_classes
            )
        return head.to(self._device, self._dtype)

    def _load_features(self) -> Features:
        return load_features(
            self._settings, self._plan, self._data, self._precision, self._device
        )

    def _begin(self) -> None:
        """Give the model its initial weights, before its first step."""
        settings = self._settings
        if settings.train_layers == "all":
            print(begin(self._model, settings, self._plan.info))
        if settings.fit_head:
            features = self._load_features()
            splits = self._searched_on.splits
            key = settings.train_on, splits["validation"].numpy().tobytes()
            if key not in features.fitted:  # once for all trials of this process
                rows = splits["train"], splits["validation"]
                fits_N = None if self._validates else self._data.splits["train"]
                features.fitted[key] = fit_head(
                    features, self._searched_on, *rows, fits_N=fits_N
                )
            weight_KF, bias_K = features.fitted[key]
            head = self._model.get_submodule(features.head)
            with torch.no_grad():
                head.get_parameter("weight").copy_(weight_KF)
                head.get_parameter("bias").copy_(bias_K)
            self._ranks.broadcast(head.parameters())
        self._average.begin()

    @property
    def model(self) -> nn.Module:
        """The model that trains, for inspection and hooks."""
        return self._model

    def step(self) -> dict[str, float]:
        """Train one epoch and validate; with the setting `folds` train one complete fold.

        train_loss is the mean over the epoch of the minimised loss (with label smoothing), lr that
        of the last batch, micro_batch_size the images that a rank computes at once, images_per_s
        the training throughput over all ranks, epoch_s the seconds of training and validation, and
        parameters how many all layers have. Epochs beyond `epochs` keep the last lr. The settings
        `metrics` and `latency` add others. Where the
        validation images train, epochs_trained replaces the metrics of the validation.

        Of folds, val_NAME is the mean over the folds so far, each at its last epoch, val_NAME_std
        their standard deviation, from the second fold on, and epoch_s of the complete fold.
        """
        return self._train_fold() if self._settings.folds else self._run_epoch()

    def _train_fold(self) -> dict[str, float]:
        number = len(self._folds)
        if number == self._settings.folds:
            raise UsageError(f"all {number} folds are trained")
        if self._epoch:
            self._build(fold=number)
        reports = [self._run_epoch() for _ in range(self._settings.epochs)]
        report = reports[-1]
        self._folds.append(
            {n: value for n, value in report.items() if n.startswith("val_")}
        )
        report["epoch_s"] = fsum(each["epoch_s"] for each in reports)
        for name in self._folds[0]:
            values = [fold[name] for fold in self._folds]
            report[name] = fsum(values) / len(values)
            if number:
                report[f"{name}_std"] = stdev(values)
        return report

    def _run_epoch(self) -> dict[str, float]:
        started = time.perf_counter()
        if self._epoch == 0 and self._settings.begins_with_weights:
            self._begin()
        with (
            self._precision.apply(),
            self._build_optimizer_context(),
            self._seed_generators(_TRAINING),
        ):
            loss_sum, lr = self._train_epoch()
        self._trained_in = self._precision
        trained_s = time.perf_counter() - started
        validated = self._validate()
        self._epoch += 1
        slowest = [trained_s, time.perf_counter() - started]
        trained_s, epoch_s = self._ranks.reduce(slowest, dist.ReduceOp.MAX)
        return {
            "train_loss": loss_sum / self._images,
            **validated,
            "lr": lr,
            "micro_batch_size": self._part.micro_batch_size,
            "images_per_s": self._images / trained_s,
            "epoch_s": epoch_s,
            "parameters": self._parameters,
            **self._latency,
        }

    @cached_property
    def _latency(self) -> dict[str, float]:
        """`latency_ms`, measured once by the first rank, if requested."""
        if not self._settings.latency:
            return {}
        is_first = self._ranks.rank == 0
        measured = (
            measure_latency_ms(self._settings, self._plan, self._device)
            if is_first
            else 0.0
        )
        return {LATENCY: self._ranks.reduce([measured], dist.ReduceOp.MAX)[0]}

    def _validate(self) -> dict[str, float]:
        """The metrics of the validation split, or epochs_trained if that split trains."""
        if self._validates:
            metrics = self._evaluate_split("validation").metrics
            return {f"val_{name}": value for name, value in metrics.items()}
        self._part.eval()  # ranks share their statistics, as before a validation
        with self._average.apply_averages():
            self._part.eval()
        return {EPOCHS_TRAINED: self._epoch + 1}

    # Of the last `test`: the confusion matrix of at most 100 classes, and `evaluation`'s list
    confusion: dict[str, Any] | None = None
    mistakes: list[dict[str, Any]] | None = None

    def test(self) -> dict[str, float]:
        """The loss, the accuracy (0 to 1) and the chosen metrics on the held-out test split.

        `images` is its size, and `baseline` the share of its largest class.
        """
        if skipped := self._data.info.skipped:
            message = (
                f"warning: without {summarize_names(skipped)}, which cannot be read"
            )
            print(message, file=sys.stderr)
        names = () if self._ranks.several else list_image_names(self._settings.data)
        batches: list[Likeliest] = []
        measured = self._evaluate_split("test", batches if names else None)
        self.confusion = measured.describe_confusion(self._data.info.classes)
        if names:
            rows_N = self._data.splits["test"]
            self.mistakes = list_mistakes(
                Likeliest.join(batches), self._data, rows_N, names
            )
        return {**measured.list_test_metrics(), **self._data.describe_split("test")}

    def examine_images(self) -> dict[str, Any]:
        """Labels of all splits that may be wrong, and the learning curve of heads.

        As a test split's record has them. Empty without features, or for images without names.
        """
        names = list_image_names(self._settings.data)
        if not names or not (
            self._settings.fit_head or self._settings.train_layers == "head"
        ):
            return {}
        features = self._load_features()
        curve = compute_learning_curve(features, self._data)
        return {
            **find_doubtful_labels(features, self._data, names),
            LEARNING_CURVE: curve,
        }

    copies_state = True

    def state_dict(self) -> dict[str, Any]:
        """Copies, on the CPU, of the model, the optimizer and the epoch.

        With `ema_decay` "model" is the average, which is evaluated, and "raw_model" the one that
        trains. No random state: an epoch's randomness follows from its number.
        """
        with self._build_optimizer_context():
            trained = self._part.build_state(self._optimizer)
        if self._settings.ema_decay:
            trained |= {
                "raw_model": trained["model"],
                "ema_updates": self._average.updates,
            }
            with self._average.apply_averages():
                trained["model"] = self._part.copy_weights()
        return {
            **trained,
            "epoch": self._epoch,
            "scaler": self._scaler.state_dict(),
            **self._trained_in.describe_state(),
            **({DATA: encode_info(self._data.info)} if self._is_described else {}),
            **(self._backbone if self._settings.train_layers == "head" else {}),
            **({"folds": deepcopy(self._folds)} if self._folds else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to `state`; raises RuntimeError if it is another model's.

        The setting `epochs` may have changed: the schedule follows it. Until the next step it
        evaluates in the precision that the state was trained in. Raises DataError if the images
        have changed. Of folds, the model is that of the latest one.
        """
        if self._settings.folds:
            self._folds = deepcopy(state.get("folds", []))
            self._build(fold=max(len(self._folds) - 1, 0))
        data = state.get(DATA)
        if data is not None:
            check_same(data.get("content"), self._data.info)
            self._batcher.set_pixel_stats((data["mean"], data["std"]))
        if self._settings.ema_decay:
            self._model.load_state_dict(state.get("raw_model", state["model"]))
            self._average.updates = state.get("ema_updates", 0)
        with self._average.apply_averages():
            self._model.load_state_dict(state["model"])
        # Both keep the tensors that they load, and an optimizer then updates them in place
        with self._build_optimizer_context():
            self._optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self._epoch = state["epoch"]
        self._trained_in = read_precision(state, self._device)
        self._part.load(state)
        if state.get("scaler"):
            self._scaler.load_state_dict(state["scaler"])

    def _build_optimizer_context(self) -> AbstractContextManager[None]:
        """The context of all calls of the optimizer."""
        return nullcontext() if self._settings.compile else bypass_compiler()

    def _seed_generators(self, purpose: int) -> AbstractContextManager[None]:
        """The context of an epoch's forward passes: seeded by seed, epoch and rank."""
        seed = compute_seed(self._settings.seed, self._epoch, self._ranks.rank, purpose)
        return seed_generators(seed, self._device)

    def _train_epoch(self) -> tuple[float, float]:
        """(sum of the loss over all images and ranks, lr of the last batch)."""
        settings = self._settings
        if settings.optimizer == "lbfgs":
            return self._regress_head(), _LBFGS_RATE
        epoch = self._batcher.plan_epoch(self._epoch, seed=settings.seed)
        until = settings.unfreeze_epoch
        still_frozen = until is None or self._epoch < until
        freeze(self._model, self._frozen if still_frozen else ())
        self._part.train(self._optimizer)
        lr = 0.0
        # Summed on the device: to read it at every batch would wait for the device every time
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._device)
        before = self._epoch * self._batches
        parts = iterate_shards(
            self._images, batch_size=settings.batch_size, **self._part.share
        )
        for number, shard in enumerate(parts):
            loss_sum += self._part.backward(epoch, shard)
            if most := settings.clip_grad_norm:  # Pascanu et al. 2013, section 3.2
                self._scaler.unscale_(self._optimizer)
                norm = self._part.compute_gradient_norm()
                nn.utils.clip_grads_with_norm_(self._model.parameters(), most, norm)
            lr = self._lr_schedule.apply(before + number)
            self._scaler.step(self._optimizer)
            self._scaler.update()
            self._average.update()
        return self._ranks.reduce([loss_sum.item()])[0], lr

    def _regress_head(self) -> float:
        """Go on with the fit of the head; the sum of the loss over all images in the end."""
        features = self._load_features()
        head = self._model.get_submodule(features.head)
        assert isinstance(head, nn.Linear)
        loss = self._loss.compute_training_loss
        mean_loss = regress_head(head, features, self._data, self._settings, loss)
        self._ranks.broadcast(head.parameters())
        return mean_loss * self._images

    def _evaluate_split(
        self, split: str, likeliest: list[Likeliest] | None = None
    ) -> Measured:
        """What `evaluate` measures of a split, of the averaged weights if there are any."""
        if self._settings.ema_decay:
            # So that ranks share the statistics of the raw weights, too
            self._part.eval()
        rows_N = self._data.splits[split].to(self._batcher.home)
        with self._average.apply_averages(), self._seed_generators(_EVALUATION):
            return evaluate(
                self._part, rows_N, precision=self._trained_in, likeliest=likeliest
            )
