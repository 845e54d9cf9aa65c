"""The Learner that ships with tuner: an image classifier trained from `ClassifierSettings`.

In a plain Python process:

    learner = ImageClassifier({"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 10})
    metrics = learner.step()
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from math import ceil
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.errors import SpecError
from tuner.training.catalog import METRICS, ClassifierSettings, check_settings
from tuner.training.data.augment import Augmentation
from tuner.training.data.batches import Batcher, Epoch, Shard, micro_shards, plan_epoch, shards
from tuner.training.data.image_set import ImageSet, image_set
from tuner.training.micro_batch import MicroBatch
from tuner.training.models.build import build_model
from tuner.training.optimizer import build_lr_schedule, build_optimizer, next_lr
from tuner.training.precision import choose, hardware
from tuner.training.ranks import Ranks
from tuner.training.transfer import freeze, load_weights, matching, rest_frozen_norms, start_from

EVALUATION_BATCH = 125  # images that a rank evaluates at once on a CPU: more only takes memory
CUDA_EVALUATION_BATCH = 1000  # on a GPU, where memory allows
PREPARING = 1000  # training images that a model may learn something from before it trains
OVERLAPPING = ("cuda",)  # where ranks exchange gradients while they still compute


class ImageClassifier:
    """Trains the model, data set and recipe that its settings name; a `Learner`.

    Everything random comes from the setting `seed`, and of that from (seed, epoch) alone, so two
    trials in one process do not meet. On a CPU a run that was saved and loaded continues bit for
    bit. On several ranks gradients equal one process's, except that BatchNorm on CPU ranks sees
    each rank's share of a batch only: use norm="group" there.
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
    ) -> None:
        """Raises SpecError for settings that cannot work, DataError for data that is not there."""
        settings = _settings({**constants, **config})
        self._device = torch.device(device)
        self._ranks = Ranks(rank, world_size, self._device)
        self._settings = settings
        self._data = image_set(
            settings.dataset,
            data_dir=settings.data_dir,
            split_seed=settings.split_seed,
            device=self._device,
        )
        self._augmentation = Augmentation(
            settings.crop_padding, settings.flip, settings.cutout, settings.alternating_flip
        )
        self._dtype: torch.dtype = getattr(torch, settings.dtype)
        precision = settings.precision if settings.dtype == "float32" else "float32"
        self._precision = choose(precision, hardware(self._device))
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=self._precision.scaled)
        self._batcher = Batcher(
            self._data, dtype=self._dtype, augmentation=self._augmentation, device=self._device
        )
        model = _seeded_model(settings, self._data).to(self._device, self._dtype)
        # torch has the argument, its stubs do not.
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._prepare(model)
        self._model = self._ranks.synchronised(model)
        self._frozen = matching(self._model, settings.freeze)
        freeze(self._model, self._frozen)
        self._network = self._ranks.wrapped(self._model, self._compiled())
        self._optimizer = build_optimizer(settings, self._model, frozen=self._frozen)
        batches = ceil(len(self._data.splits["train"]) / settings.batch_size)
        self._steps = settings.epochs * batches
        self._lr_schedule = build_lr_schedule(settings, self._optimizer, steps=self._steps)
        self._micro = MicroBatch(
            ceil(settings.batch_size / world_size),
            device=self._device,
            buffers=self._model.buffers(),
            of="training",
        )
        self._evaluation_batch = (
            CUDA_EVALUATION_BATCH if self._device.type == "cuda" else EVALUATION_BATCH
        )
        self._evaluation_micro = MicroBatch(
            self._evaluation_batch, device=self._device, of="evaluation"
        )
        self._rehearsed = 0  # the micro-batch that every rank is known to have the memory for
        self._epoch = 0

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
        with self._precision.applied():
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
            "micro_batch_size": self._micro.size,
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
        return {
            "model": {name: _cpu_copy(value) for name, value in self._model.state_dict().items()},
            "optimizer": _copied(self._optimizer.state_dict()),
            "lr_schedule": _copied(self._lr_schedule.state_dict()),
            "epoch": self._epoch,
            "micro_batch_size": self._micro.size,
            "scaler": self._scaler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to `state`; raises RuntimeError where it is another model's."""
        self._model.load_state_dict(state["model"])
        # Both keep what they are given, and an optimizer then updates it in place.
        self._optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self._lr_schedule.load_state_dict(deepcopy(state["lr_schedule"]))
        self._epoch = state["epoch"]
        # States that were saved before either existed lack them.
        self._micro.size = state.get("micro_batch_size", self._micro.size)
        if state.get("scaler"):
            self._scaler.load_state_dict(state["scaler"])

    def _prepare(self, model: nn.Module) -> None:
        """Let a model that learns something from the images before it trains do so."""
        prepare: Callable[[Tensor], None] | None = getattr(model, "prepare", None)
        if prepare is not None:
            rows_N = self._data.splits["train"][:PREPARING].to(self._data.rows_NP.device)
            prepare(self._batcher.batch(rows_N)[0])

    def _start(self) -> None:
        """What comes before the first epoch."""
        source = self._settings.start_from
        if source is not None:
            new = start_from(self._model, load_weights(source), source=source)
            print(f"started from {source}; new: {', '.join(new) or 'nothing'}")

    def _thaw(self) -> None:
        """Let train, or hold, what the epoch that begins asks for."""
        until = self._settings.unfreeze_epoch
        held = until is None or self._epoch < until
        if freeze(self._model, self._frozen if held else ()):
            self._network = self._ranks.wrapped(self._model, self._compiled())
            self._rehearsed = 0  # more gradients, more memory

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
        self._thaw()
        self._network.train()
        rest_frozen_norms(self._model)
        lr = 0.0
        # Summed on the device: reading it at every batch would wait for the device every time.
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._device)
        for shard in shards(len(epoch.order_N), **self._ranks.share(self._settings.batch_size)):
            loss_sum += self._train_batch(epoch, shard)
            lr = next_lr(self._lr_schedule, steps=self._steps)
        self._ranks.share_buffers(self._model)
        return self._ranks.reduced([loss_sum.item()])[0], lr

    def _train_batch(self, epoch: Epoch, shard: Shard) -> Tensor:
        """One optimizer step; the sum of the loss over this rank's images of it."""
        # Ranks that already exchange gradients cannot go back because one of them is out of
        # memory. So they agree first, and on CUDA, once that has shown that a size fits, overlap
        # the exchange with computing.
        if self._rehearsed == self._micro.size:
            loss = self._accumulate(epoch, shard, self._micro.size, overlap=True)
        else:
            attempt = partial(self._accumulate, epoch, shard)
            loss = self._micro.run(attempt, agree=self._ranks.smallest)
            if self._ranks.several:
                self._ranks.average_gradients(self._model.parameters())
                if self._device.type in OVERLAPPING:
                    self._rehearsed = self._micro.size
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss

    def _accumulate(
        self, epoch: Epoch, shard: Shard, size: int, *, overlap: bool = False
    ) -> Tensor:
        """Gradients of a global batch, `size` images at a time; the sum of this rank's loss."""
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._device)
        self._optimizer.zero_grad()
        parts = micro_shards(shard, size=size, world_size=self._ranks.world_size)
        for number, part in enumerate(parts, 1):
            exchange = overlap and number == len(parts)
            x_NCHW, labels_N = self._batcher.training_batch(epoch, part.positions)
            with self._ranks.gradients_stay(self._network, stay=not exchange):
                with self._precision.forward():
                    logits_NK = self._network(x_NCHW)
                    loss = self._loss_sum(logits_NK, labels_N, self._settings.label_smoothing)
                # The ranks' gradients are averaged: the world size makes of that the mean over
                # the global batch, also where ranks have unequal shares. No images: weight 0.
                weight = self._ranks.world_size / part.global_count if part.count else 0.0
                self._scaler.scale(loss * weight).backward()
            if part.count:
                loss_sum += loss.detach()
        return loss_sum

    @torch.inference_mode()
    def _evaluate(self, split: str) -> tuple[float, float]:
        """(mean loss, accuracy) on a split; each image counts once, on one rank."""
        self._model.eval()
        rows_N = self._data.splits[split].to(self._data.rows_NP.device)
        # (sum of the loss, number right)
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        batch_size = self._evaluation_batch * self._ranks.world_size
        for shard in shards(len(rows_N), **self._ranks.share(batch_size)):
            if shard.count:
                attempt = partial(self._measure, rows_N[shard.positions])
                with self._precision.applied(), self._precision.forward():
                    sums += self._evaluation_micro.run(attempt)
        loss, right = self._ranks.reduced(sums.tolist())
        return loss / len(rows_N), right / len(rows_N)

    def _measure(self, rows_N: Tensor, size: int) -> Tensor:
        """(sum of the loss, number right) of the images `rows_N`, `size` at a time."""
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        for part_N in rows_N.split(size):
            x_NCHW, labels_N = self._batcher.batch(part_N)
            logits_NK = self._model(x_NCHW)
            if self._settings.test_time_flip:
                logits_NK = (logits_NK + self._model(x_NCHW.flip(3))) / 2
            sums[0] += self._loss_sum(logits_NK, labels_N)
            sums[1] += (logits_NK.argmax(1) == labels_N).sum()
        return sums

    def _loss_sum(self, logits_NK: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
        # Not in the half precision that autocast may give: a sum needs the digits.
        logits_NK = logits_NK.to(self._dtype)
        return F.cross_entropy(logits_NK, labels_N, reduction="sum", label_smoothing=smoothing)

    def _compiled(self) -> nn.Module:
        if not self._settings.compile:
            return self._model
        return cast(nn.Module, torch.compile(self._model))


def _settings(values: Mapping[str, Any]) -> ClassifierSettings:
    faults = check_settings(values, files=False)  # a later epoch needs none of them
    if faults:
        raise SpecError(faults, "the image classifier")
    return ClassifierSettings.model_validate(values)


def _seeded_model(settings: ClassifierSettings, data: ImageSet) -> nn.Module:
    """The initial model; leaves torch's global random state as it found it."""
    info = data.info
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)
        return build_model(
            settings,
            in_channels=info.channels,
            image_size=info.image_size,
            num_classes=info.num_classes,
        )


def _cpu_copy(value: Tensor) -> Tensor:
    return value.detach().to("cpu", copy=True)


def _copied(value: Any) -> Any:
    """`value`, plain or nested, with every tensor in it copied to the CPU."""
    if isinstance(value, Tensor):
        return _cpu_copy(value)
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(item) for item in value]
    return value
