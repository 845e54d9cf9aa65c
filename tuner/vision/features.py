"""Features of a frozen network, computed once for all trials of a machine, and heads on them.

    DATA_DIR/features/KEY/   features.npy, and info.json with the name of the head

A feature is an input of the network's last linear layer. The key covers the images, the weights,
the preprocessing and the precision. Kumar et al. 2022, "Fine-Tuning can Distort Pretrained Features
and Underperform Out-of-Distribution", begin fine-tuning with the head that fits such features best.
"""

# N images, C channels, H W pixels, K classes, F features, V views: an image, and its mirror image

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tuner.errors import Fault, SpecError
from tuner.trial.torch_compat import single_thread, without_compiler
from tuner.vision.batches import Batcher, ImageSet, home_of, sample_evenly
from tuner.vision.blueprint import Blueprint
from tuner.vision.datasets._archive import folder_made_once, progress_of
from tuner.vision.datasets._dataset import data_folder
from tuner.vision.epochs import Epoch, seeded
from tuner.vision.micro_batch import MicroBatch
from tuner.vision.new_model import set_layout
from tuner.vision.precision import Precision, cast_weights, dtype_of
from tuner.vision.recipe import Augmentation
from tuner.vision.replica import evaluation_batch
from tuner.vision.settings import ClassifierSettings
from tuner.vision.transfer import backbone_digest, check_head, head_of, initial_network

FORMAT = 1  # part of every key
STORE = "features"  # the folder of all features, in the data folder
_KEY_LENGTH = 16
_MOST_KEPT = 4  # features of other images or networks that a process keeps
MOST_FITTED = 20_000  # images that a head is fitted to
# Of the weights' squared sum beside the mean loss, for features of variance 1; strongest first
_STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)
_STEPS = 100  # of L-BFGS for each strength
# Of the mean standard deviation of a feature, by which one that hardly varies is scaled. By its own
# it would get so large a weight that the first steps of fine-tuning throw the logits far away
_LEAST_STD = 0.3


Computed = tuple[np.ndarray, str]  # views_NVF, and the name of the head


@dataclass(frozen=True, slots=True)
class Features:
    """views_NVF of all images, in float32; fitted: heads by the splits that they have seen."""

    views_NVF: Tensor
    head: str
    fitted: dict[tuple[str, bytes], tuple[Tensor, Tensor]] = field(default_factory=dict)


def features_of(
    settings: ClassifierSettings,
    plan: Blueprint,
    images: ImageSet,
    precision: Precision,
    device: torch.device,
) -> Features:
    """The features of `images` by the network and the initial weights that `settings` name.

    The images of `images.info` are normalised by its mean and std. The first process of a machine
    that needs them computes them, and the others wait; those of a user's own network, whose code
    may change, are only kept by the process. Raises SpecError for a network without a linear head,
    CheckpointError for weights that cannot be read, and OSError of the disk.
    """
    compute = partial(_computed, settings, plan, images, precision, device)
    made_from = {
        "format": FORMAT,
        "images": images.info.content or settings.dataset,
        "stats": [images.info.mean, images.info.std],
        "weights": backbone_digest(settings, plan.info),
        "network": plan.model_dump(mode="json", exclude={"num_classes"}),
        "precision": [device.type, precision.name, settings.dtype],
        "views": _views(settings),
        "torch": torch.__version__,
    }
    key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:_KEY_LENGTH]
    if key not in _kept:
        if len(_kept) == _MOST_KEPT:
            del _kept[next(iter(_kept))]
        folder = data_folder(settings.data_dir) / STORE / key
        array, head = _stored(folder, compute) if plan.code is None else compute()
        views_NVF = torch.from_numpy(array).to(home_of(array.nbytes, device))
        _kept[key] = Features(views_NVF, head)
    return _kept[key]


_kept: dict[str, Features] = {}


def _views(settings: ClassifierSettings) -> int:
    return 2 if settings.flip or settings.test_time_flip else 1


def _stored(folder: Path, compute: Callable[[], Computed]) -> Computed:
    """As `_computed`, from files in `folder`, which are written first if they are missing."""

    def write(folder: Path) -> None:
        array, head = compute()
        np.save(folder / "features.npy", array)
        (folder / "info.json").write_text(json.dumps({"head": head}))

    folder_made_once(folder, write)
    # copy-on-write: torch warns of arrays that cannot be written
    array = np.load(folder / "features.npy", mmap_mode="c", allow_pickle=False)
    return np.asarray(array), json.loads((folder / "info.json").read_text())["head"]


def _computed(
    settings: ClassifierSettings,
    plan: Blueprint,
    images: ImageSet,
    precision: Precision,
    device: torch.device,
) -> Computed:
    model = initial_network(settings, plan)
    name = head_of(model)
    dtype = dtype_of(settings)
    set_layout(cast_weights(model, dtype).to(device).eval(), plan, precision)
    model.eval()
    check_head(model, plan)
    batcher = Batcher(images, dtype=dtype, augmentation=Augmentation(), device=device)
    micro = MicroBatch(evaluation_batch(device), device=device, purpose="features")
    count = len(images.rows_NP)
    message = f"computing the features of {count:,} images, once for all trials"
    print(message, file=sys.stderr, flush=True)
    parts: list[Tensor] = []
    with (
        torch.inference_mode(),
        precision.applied(),
        precision.forward(),
        seeded(0, device),
        progress_of("computing features", count) as advance,
    ):

        def compute(rows_N: Tensor) -> Tensor:
            x_NCHW, _ = batcher.batch(rows_N)
            views = [x_NCHW, x_NCHW.flip(3)][: _views(settings)]
            return torch.stack([_inputs_of(name, model, view) for view in views], 1)

        rows_N = torch.arange(count, device=images.rows_NP.device)
        for some_N in rows_N.split(micro.size):
            parts.append(micro.compute(some_N, compute).cpu())
            advance(len(some_N))
    return torch.cat(parts).numpy(), name


def _inputs_of(name: str, model: nn.Module, x_NCHW: Tensor) -> Tensor:
    """The input, in float32, of the last call of the layer `name` for these images."""
    inputs: list[Tensor] = []
    layer = model.get_submodule(name)
    with layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0])):
        model(x_NCHW)
    inputs_NF = inputs[-1]
    if inputs_NF.shape[:-1] != (len(x_NCHW),):
        rule = f"needs a head that takes N x F features, and it takes {tuple(inputs_NF.shape)}"
        raise SpecError([Fault("train_layers", rule)], "the image classifier")
    return inputs_NF.float()


class Head(nn.Module):
    """The head of a network alone: from x_NF1V of a `FeatureBatcher` to logits_NK, of view 1."""

    def __init__(self, name: str, features: int, num_classes: int) -> None:
        super().__init__()
        *parents, last = name.split(".")
        module: nn.Module = self
        for parent in parents:
            module.add_module(parent, nn.Module())
            module = module.get_submodule(parent)
        module.add_module(last, nn.Linear(features, num_classes))
        self._name = name

    def forward(self, x_NF1V: Tensor) -> Tensor:
        logits_NK: Tensor = self.get_submodule(self._name)(x_NF1V[:, :, 0, 0])
        return logits_NK


class FeatureBatcher(Batcher):
    """Batches of features in place of images: x_NF1V, so that a mirror image is a flip of V."""

    def __init__(
        self, features: Features, images: ImageSet, *, augmentation: Augmentation, **how: Any
    ) -> None:
        self._shape = features.views_NVF.shape[1:]
        flips = Augmentation(flip=augmentation.flip)
        views_NP = features.views_NVF.flatten(1)
        rows = replace(images, rows_NP=views_NP, labels_N=images.labels_N.to(views_NP.device))
        super().__init__(rows, augmentation=flips, **how)

    def normalise_by(self, stats: object) -> None:
        """Features are of images that are normalised already."""

    def batch(self, rows_N: Tensor) -> tuple[Tensor, Tensor]:
        """(x_NF1V, labels_N) of the images `rows_N`."""
        rows_NP, labels_N = self._select(rows_N)
        x_NVF = rows_NP.view(-1, *self._shape).to(self._dtype)
        return x_NVF.transpose(1, 2).unsqueeze(2), labels_N

    def _augmented(self, epoch: Epoch, positions: slice) -> tuple[Tensor, Tensor]:
        x_NF1V, labels_N = self.batch(epoch.order_N[positions])
        if self._augmentation.flip:
            flip_N = epoch.draws.at(positions).flip_N[:, None, None, None]
            x_NF1V = torch.where(flip_N, x_NF1V.flip(3), x_NF1V)
        return x_NF1V, labels_N


def fit_head(
    features: Features,
    images: ImageSet,
    train_N: Tensor,
    held_out_N: Tensor,
    *,
    fits_all: bool = False,
) -> tuple[Tensor, Tensor]:
    """(weight_KF, bias_K), in float32, of the linear head with the least loss of `held_out_N`.

    Multinomial logistic regression on the images `train_N`, all views, by L-BFGS; its L2 penalty is
    the best of a path from strong to weak. fits_all: the images `held_out_N`, which have chosen the
    penalty, are fitted, too.
    """
    labels_N = images.labels_N.cpu()

    def views_of(rows_N: Tensor) -> Tensor:
        return features.views_NVF.index_select(0, rows_N.to(features.views_NVF.device)).cpu()

    def fitted(rows_N: Tensor) -> tuple[Tensor, Tensor]:
        rows_N = sample_evenly(rows_N, MOST_FITTED)
        views_NVF = views_of(rows_N)
        return views_NVF.flatten(0, 1), labels_N[rows_N].repeat_interleave(views_NVF.shape[1])

    x_NF, y_N = fitted(train_N)
    # A linear head's logits for the mean of the views are the mean of their logits
    x_val_NF, y_val_N = views_of(held_out_N).mean(1), labels_N[held_out_N]
    mean_F, std_F = x_NF.mean(0), x_NF.std(0)
    least_std = _LEAST_STD * std_F.mean()
    std_F = std_F.clamp_min(least_std if least_std > 0 else 1.0)
    x_NF, x_val_NF = (x_NF - mean_F) / std_F, (x_val_NF - mean_F) / std_F
    head = nn.Linear(x_NF.shape[1], images.info.num_classes)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    least, best, chosen = float("inf"), head.state_dict(), _STRENGTHS[0]
    for strength in _STRENGTHS:
        _regress(head, x_NF, y_N, strength=strength)
        with torch.no_grad():
            loss = float(F.cross_entropy(head(x_val_NF), y_val_N))
        if not loss < least:
            break
        least, chosen = loss, strength
        best = {name: w.clone() for name, w in head.state_dict().items()}
    if fits_all:
        head.load_state_dict(best)
        x_NF, y_N = fitted(torch.cat([train_N, held_out_N]))
        _regress(head, (x_NF - mean_F) / std_F, y_N, strength=chosen)
        best = head.state_dict()
    weight_KF = best["weight"].detach() / std_F
    return weight_KF, best["bias"].detach() - weight_KF @ mean_F


def _regress(head: nn.Linear, x_NF: Tensor, labels_N: Tensor, *, strength: float) -> None:
    def loss() -> Tensor:
        optimizer.zero_grad()
        penalty = strength / 2 * head.weight.square().sum()
        total: Tensor = F.cross_entropy(head(x_NF), labels_N) + penalty
        total.backward()
        return total

    with without_compiler(), single_thread():
        optimizer = torch.optim.LBFGS(
            head.parameters(), max_iter=_STEPS, line_search_fn="strong_wolfe"
        )
        optimizer.step(loss)
