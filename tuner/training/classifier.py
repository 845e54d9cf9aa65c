"""The Learner that ships with tuner: an image classifier trained from `ClassifierSettings`.

In a plain Python process:

    learner = ImageClassifier({"lr": 0.3}, {"model": "cnn", "dataset": "digits", "epochs": 10})
    metrics = learner.step()
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import time
from collections.abc import Mapping
from copy import deepcopy
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuner.errors import SpecError
from tuner.training.catalog import METRICS, ClassifierSettings, check_settings
from tuner.training.data.augment import Augmentation
from tuner.training.data.batches import Batcher, plan_epoch, shards
from tuner.training.data.image_set import ImageSet, image_set
from tuner.training.models.build import build_model
from tuner.training.optimizer import build_lr_schedule, build_optimizer, next_lr

EVALUATION_BATCH = 500


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
        self._device, self._rank, self._world_size = torch.device(device), rank, world_size
        if world_size > 1 and not dist.is_initialized():
            raise RuntimeError("world_size > 1 needs torch.distributed's process group")
        self._settings = settings
        self._data = image_set(
            settings.dataset,
            data_dir=settings.data_dir,
            split_seed=settings.split_seed,
            device=self._device,
        )
        self._augmentation = Augmentation(settings.crop_padding, settings.flip, settings.cutout)
        dtype: torch.dtype = getattr(torch, settings.dtype)
        self._batcher = Batcher(self._data, dtype=dtype, augmentation=self._augmentation)
        self._model = _seeded_model(settings, self._data).to(self._device, dtype)
        # torch has the argument, its stubs do not.
        self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._network = self._distributed()
        self._optimizer = build_optimizer(settings, self._model)
        batches = ceil(len(self._data.splits["train"]) / settings.batch_size)
        self._steps = settings.epochs * batches
        self._lr_schedule = build_lr_schedule(settings, self._optimizer, steps=self._steps)
        self._epoch = 0

    def step(self) -> dict[str, float]:
        """Train one epoch and validate.

        train_loss is the mean over the epoch of what was minimised (with label smoothing), lr
        that of the epoch's last batch, images_per_s the training throughput over all ranks,
        epoch_s the seconds of training and validation. Steps beyond `epochs` keep the last lr.
        """
        started = time.perf_counter()
        loss_sum, lr = self._train_epoch()
        trained_s = time.perf_counter() - started
        val_loss, val_accuracy = self._evaluate("validation")
        self._epoch += 1
        slowest = [trained_s, time.perf_counter() - started]
        trained_s, epoch_s = self._reduced(slowest, dist.ReduceOp.MAX)
        images = len(self._data.splits["train"])
        values = (loss_sum / images, val_loss, val_accuracy, lr, images / trained_s, epoch_s)
        return dict(zip(METRICS, values, strict=True))

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
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to `state`; raises RuntimeError where it is another model's."""
        self._model.load_state_dict(state["model"])
        # Both keep what they are given, and an optimizer then updates it in place.
        self._optimizer.load_state_dict(deepcopy(state["optimizer"]))
        self._lr_schedule.load_state_dict(deepcopy(state["lr_schedule"]))
        self._epoch = state["epoch"]

    def _train_epoch(self) -> tuple[float, float]:
        """(sum of the loss over all images and ranks, lr of the last batch)."""
        epoch = plan_epoch(
            self._data.splits["train"],
            seed=self._settings.seed,
            epoch=self._epoch,
            image_size=self._data.info.image_size,
            augmentation=self._augmentation,
            device=self._device,
        )
        self._network.train()
        lr = 0.0
        # Summed on the device: reading it at every batch would wait for the device every time.
        loss_sum = torch.zeros((), dtype=torch.float64, device=self._device)
        for shard in shards(len(epoch.order_N), **self._share(self._settings.batch_size)):
            x_NCHW, labels_N = self._batcher.training_batch(epoch, shard.positions)
            loss = self._loss_sum(self._network(x_NCHW), labels_N, self._settings.label_smoothing)
            # DDP averages gradients over ranks: the world size makes of that the mean over the
            # global batch, also where ranks have unequal shares. No images: a weight of 0.
            weight = self._world_size / shard.global_count if shard.count else 0.0
            self._optimizer.zero_grad()
            (loss * weight).backward()
            self._optimizer.step()
            lr = next_lr(self._lr_schedule, steps=self._steps)
            if shard.count:
                loss_sum += loss.detach()
        self._share_buffers()
        return self._reduced([loss_sum.item()])[0], lr

    @torch.inference_mode()
    def _evaluate(self, split: str) -> tuple[float, float]:
        """(mean loss, accuracy) on a split; each image counts once, on one rank."""
        self._model.eval()
        rows_N = self._data.splits[split].to(self._device)
        # (sum of the loss, number right)
        sums = torch.zeros(2, dtype=torch.float64, device=self._device)
        for shard in shards(len(rows_N), **self._share(EVALUATION_BATCH * self._world_size)):
            if shard.count:
                x_NCHW, labels_N = self._batcher.batch(rows_N[shard.positions])
                logits_NK = self._model(x_NCHW)
                sums[0] += self._loss_sum(logits_NK, labels_N)
                sums[1] += (logits_NK.argmax(1) == labels_N).sum()
        loss, right = self._reduced(sums.tolist())
        return loss / len(rows_N), right / len(rows_N)

    def _loss_sum(self, logits_NK: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(logits_NK, labels_N, reduction="sum", label_smoothing=smoothing)

    def _share(self, batch_size: int) -> dict[str, int]:
        return {"batch_size": batch_size, "rank": self._rank, "world_size": self._world_size}

    def _distributed(self) -> nn.Module:
        """What a training step calls: the model, wrapped where there are several ranks."""
        if self._world_size == 1:
            return self._model
        if self._device.type != "cuda":
            return DistributedDataParallel(self._model)
        self._model = nn.SyncBatchNorm.convert_sync_batchnorm(self._model)
        return DistributedDataParallel(self._model, device_ids=[self._device])

    def _share_buffers(self) -> None:
        """Give every rank rank 0's BatchNorm statistics, so that all evaluate one model."""
        if self._world_size > 1:
            for buffer in self._model.buffers():
                dist.broadcast(buffer, src=0)

    def _reduced(self, values: list[float], how: Any = dist.ReduceOp.SUM) -> list[float]:
        """`values` reduced over all ranks."""
        if self._world_size == 1:
            return values
        shared = torch.tensor(values, dtype=torch.float64, device=self._device)
        dist.all_reduce(shared, how)
        reduced: list[float] = shared.tolist()
        return reduced


def _settings(values: Mapping[str, Any]) -> ClassifierSettings:
    faults = check_settings(values)
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
