"""The Learner that ships with tuner: an image classifier trained from `ClassifierSettings`.

In a plain Python process:

    learner = ImageClassifier({"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 10})
    metrics = learner.step()
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from math import ceil
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from tuner.classifier.augment import Augmentation
from tuner.classifier.batches import Batcher, image_set, plan_epoch, shards
from tuner.classifier.blueprint import blueprint_of
from tuner.classifier.catalog import METRICS, MODELS, await_copy, ships
from tuner.classifier.collectives import Ranks
from tuner.classifier.datasets._dataset import DatasetInfo
from tuner.classifier.optimizer import build_lr_schedule, build_optimizer, next_lr
from tuner.classifier.precision import Precision, choose, hardware
from tuner.classifier.replica import CrossEntropy, Replica, Setup
from tuner.classifier.settings import ClassifierSettings, check_settings, own_data_searched
from tuner.classifier.trained_on import DATA, check_same, described
from tuner.classifier.transfer import freeze, load_weights, matching, start_from
from tuner.errors import SpecError
from tuner.trial.state import host_copy
from tuner.trial.torch_compat import without_compiler

if TYPE_CHECKING:
    from tuner.classifier.pipeline import Stage

PREPARING = 1000  # training images that a model may learn something from before it trains


class ImageClassifier:
    """Trains the model, data set and recipe that its settings name; a `Learner`.

    Everything random follows from the setting `seed` and the epoch, so trials in one process do
    not affect each other. On a CPU a run that was saved and loaded continues bit for bit. On
    several ranks gradients equal one process's, except that BatchNorm on CPU ranks sees only each
    rank's share of a batch: use norm="group" there. split: the number of stages of the model, one
    on each rank; 1 where every rank has all of it.
    """

    metrics = METRICS

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
        """Raises SpecError for settings that cannot work, DataError for data that is not there."""
        _refuse_own_data(config)
        await_copy(constants)
        settings = _settings({**constants, **config}, split)
        assert split in (1, world_size)
        self._device = torch.device(device)
        self._ranks = Ranks(rank, world_size, self._device)
        self._settings = settings
        self._data = image_set(
            settings.dataset,
            data_dir=settings.data_dir,
            split_seed=settings.split_seed,
            device=self._device,
            image_size=settings.image_size,
        )
        self._augmentation = Augmentation(
            settings.crop_padding, settings.flip, settings.cutout, settings.alternating_flip
        )
        self._dtype: torch.dtype = getattr(torch, settings.dtype)
        self._precision = _precision(settings, self._device, split=split)
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=self._precision.scaled)
        self._batcher = Batcher(
            self._data, dtype=self._dtype, augmentation=self._augmentation, device=self._device
        )
        model = _seeded_model(settings, self._data.info).to(self._dtype)
        if split == 1:
            model.to(self._device)
        # torch has the argument, its stubs do not
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._prepare(model)
        self._model = self._ranks.synchronised(model)
        self._frozen = matching(self._model, settings.freeze)
        freeze(self._model, self._frozen)
        self._part = self._built_part(split)
        batches = ceil(len(self._data.splits["train"]) / settings.batch_size)
        self._steps = settings.epochs * batches
        with self._optimizing():
            self._optimizer = build_optimizer(settings, self._model, frozen=self._frozen)
            self._lr_schedule = build_lr_schedule(settings, self._optimizer, steps=self._steps)
        self._epoch = 0

    @property
    def model(self) -> nn.Module:
        """The model that trains, to look at or to hang hooks on."""
        return self._model

    def step(self) -> dict[str, float]:
        """Train one epoch and validate.

        train_loss is the mean over the epoch of what was minimised (with label smoothing), lr
        that of the epoch's last batch, micro_batch_size the images that a rank computes at once,
        images_per_s the training throughput over all ranks, epoch_s the seconds of training and
        validation. Steps beyond `epochs` keep the last lr.
        """
        started = time.perf_counter()
        if self._epoch == 0:
            self._start()
        with self._precision.applied(), self._optimizing():
            loss_sum, lr = self._train_epoch()
        trained_s = time.perf_counter() - started
        val_loss, val_accuracy = self._evaluate("validation")
        self._epoch += 1
        slowest = [trained_s, time.perf_counter() - started]
        trained_s, epoch_s = self._ranks.reduced(slowest, dist.ReduceOp.MAX)
        images = len(self._data.splits["train"])
        return {
            "train_loss": loss_sum / images,
            "val_loss": val_loss,
            "val_accuracy": val_accuracy,
            "lr": lr,
            "micro_batch_size": self._part.micro_batch_size,
            "images_per_s": images / trained_s,
            "epoch_s": epoch_s,
        }

    def test(self) -> dict[str, float]:
        """The loss and the accuracy (0 to 1) on the held-out test split."""
        loss, accuracy = self._evaluate("test")
        return {"test_loss": loss, "test_accuracy": accuracy}

    def state_dict(self) -> dict[str, Any]:
        """Copies, on the CPU, of the model, the optimizer, the schedule and the epoch.

        No state of a random number generator: an epoch's randomness follows from its number.
        """
        with self._optimizing():
            trained = self._part.state(self._optimizer)
        return {
            **trained,
            "lr_schedule": host_copy(self._lr_schedule.state_dict()),
            "epoch": self._epoch,
            "scaler": self._scaler.state_dict(),
            **({DATA: described(self._data.info)} if self._data.info.content else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to `state`; raises RuntimeError where it is another model's.

        Raises DataError where it was trained on other images than there are now.
        """
        said = state.get(DATA)
        if said is not None:
            check_same(said, self._data.info)
            self._batcher.normalise_by(said["mean"], said["std"])
        self._model.load_state_dict(state["model"])
        # Both hold on to what they load, and an optimizer then updates it in place
        with self._optimizing():
            self._optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self._lr_schedule.load_state_dict(deepcopy(state["lr_schedule"]))
        self._epoch = state["epoch"]
        self._part.load(state)
        if state.get("scaler"):
            self._scaler.load_state_dict(state["scaler"])

    def _built_part(self, split: int) -> Replica | Stage:
        settings = self._settings
        setup = Setup(
            self._model,
            settings,
            self._ranks,
            self._batcher,
            CrossEntropy(self._dtype, settings.label_smoothing, settings.test_time_flip),
            self._precision,
        )
        if split > 1:
            from tuner.classifier.pipeline import Stage  # what it imports takes a second

            return Stage(setup)
        return Replica(setup, self._scaler)

    def _optimizing(self) -> AbstractContextManager[None]:
        """For whatever the optimizer does."""
        return nullcontext() if self._settings.compile else without_compiler()

    def _prepare(self, model: nn.Module) -> None:
        """Let a model that learns something from the images before it trains do so."""
        prepare = MODELS[self._settings.model].prepare
        if prepare is not None:
            rows_N = self._data.splits["train"][:PREPARING].to(self._data.rows_NP.device)
            prepare(model, self._batcher.batch(rows_N)[0])

    def _start(self) -> None:
        """What comes before the first epoch."""
        source = self._settings.start_from
        if source is not None:
            new = start_from(self._model, load_weights(source), source=source)
            print(f"started from {source}; new: {', '.join(new) or 'nothing'}")

    def _train_epoch(self) -> tuple[float, float]:
        """(sum of the loss over all images and ranks, lr of the last batch)."""
        epoch = plan_epoch(
            self._data.splits["train"],
            seed=self._settings.seed,
            epoch=self._epoch,
            image_size=self._data.info.image_size,
            augmentation=self._augmentation,
            device=self._device,
            home=self._data.rows_NP.device,
        )
        until = self._settings.unfreeze_epoch
        still_frozen = until is None or self._epoch < until
        freeze(self._model, self._frozen if still_frozen else ())
        self._part.train()
        lr = 0.0
        # Summed on the device: to read it at every batch would wait for the device every time
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._device)
        for shard in shards(len(epoch.order_N), **self._part.share(self._settings.batch_size)):
            loss_sum += self._part.backward(epoch, shard)
            self._scaler.step(self._optimizer)
            self._scaler.update()
            lr = next_lr(self._lr_schedule, steps=self._steps)
        return self._ranks.reduced([loss_sum.item()])[0], lr

    @torch.inference_mode()
    def _evaluate(self, split: str) -> tuple[float, float]:
        """(mean loss, accuracy) on a split; each image counts once, on one rank."""
        self._part.eval()
        rows_N = self._data.splits[split].to(self._data.rows_NP.device)
        # (sum of the loss, number right)
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        with self._precision.applied():
            for shard in shards(len(rows_N), **self._part.share(self._part.evaluation_batch)):
                if shard.count:
                    sums += self._part.measure(rows_N[shard.positions])
        loss, right = self._ranks.reduced(sums.tolist())
        return loss / len(rows_N), right / len(rows_N)


def _refuse_own_data(config: Mapping[str, Any]) -> None:
    """A config may come from a folder that someone else made: it names no code and no files."""
    name = config.get("dataset")
    if isinstance(name, str) and not ships(name):
        raise SpecError([own_data_searched(name)], "the config")


def _settings(values: Mapping[str, Any], split: int) -> ClassifierSettings:
    faults = check_settings(values, split=split, files=False)  # a later epoch needs none of them
    if faults:
        raise SpecError(faults, "the image classifier")
    return ClassifierSettings.model_validate(values)


def _precision(settings: ClassifierSettings, device: torch.device, *, split: int) -> Precision:
    setting = settings.precision if settings.dtype == "float32" else "float32"
    precision = choose(setting, hardware(device))
    if split > 1 and precision.scaled:  # each stage would detect overflows of its own
        return choose("float32", hardware(device))
    return precision


def _seeded_model(settings: ClassifierSettings, data: DatasetInfo) -> nn.Module:
    """The initial model; leaves torch's global random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)
        return blueprint_of(settings, data).initial()
