"""Features of a frozen network, computed once for all trials of a machine.

    DATA_DIR/features/KEY/   features.npy, and info.json with the name of the head

A feature is an input of the network's last linear layer. Of a network that can show its head all
levels all are computed, and a head without them takes the first ones. The key covers the images,
the weights, the preprocessing and the precision. Kumar et al. 2022, "Fine-Tuning can Distort
Pretrained Features and Underperform Out-of-Distribution", begin fine-tuning with the head that fits
such features best.
"""

# N images, C channels, H W pixels, K classes, F features, V views: all of U upright, upside
# down and M as it is, mirrored; after them random crops

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tuner.errors import Fault
from tuner.spec.quotas import count_usable_cpus
from tuner.trial.torch_compat import use_single_thread
from tuner.vision.augment import build_views, draw
from tuner.vision.batches import Batcher, ImageSet, choose_device
from tuner.vision.blueprint import Blueprint
from tuner.vision.datasets._dataset import resolve_data_folder
from tuner.vision.epochs import Epoch, seed_generators
from tuner.vision.micro_batch import MicroBatch
from tuner.vision.network_head import check_head, find_head
from tuner.vision.new_model import set_layout
from tuner.vision.precision import Precision, cast_weights, choose_dtype
from tuner.vision.progress import show_progress
from tuner.vision.recipe import Augmentation
from tuner.vision.replica import choose_evaluation_batch
from tuner.vision.settings import ClassifierSettings, build_settings_error
from tuner.vision.shared_folders import ensure_folder
from tuner.vision.transfer import build_initial_network
from tuner.vision.weight_files import compute_backbone_digest

FORMAT = 2  # part of every key
STORE = "features"  # the folder of all features, in the data folder
_KEY_LENGTH = 16
_MOST_KEPT = 4  # features of other images or networks that a process keeps
_FEW = 5000  # images of which all levels are kept, a hundred megabytes


Computed = tuple[np.ndarray, str]  # of views or crops, NVF, and the name of the head


@dataclass(frozen=True, slots=True)
class Features:
    """Of all images, in float32; fitted: heads by the splits that they have seen.

    views_NUMF: of an image as it is and, if used, upside down; of each, if used, its mirror image.
    crops_NVF: of random crops.
    """

    views_NUMF: Tensor
    head: str
    crops_NVF: Tensor | None = None
    fitted: dict[tuple[str, bytes], tuple[Tensor, Tensor]] = field(default_factory=dict)

    def select(
        self,
        rows_N: Tensor,
        *,
        mirrored: bool = True,
        upside_down: bool = True,
        crops: bool = False,
    ) -> Tensor:
        """views_NVF of the images `rows_N`, on the CPU, and after them the `crops`.

        mirrored, upside_down: whether these views are among them, where they are used.
        """
        views_NUMF = self.views_NUMF[:, : 1 + upside_down, : 1 + mirrored]
        parts = [views_NUMF.flatten(1, 2)]
        if crops and self.crops_NVF is not None:
            parts.append(self.crops_NVF)
        return torch.cat(
            [part.index_select(0, rows_N.to(part.device)).cpu() for part in parts], 1
        )


def load_features(
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
    frozen = _Frozen(settings, plan, images, precision, device)
    own = json.dumps([_describe_sources(frozen), _describe_kinds(settings)])
    if own not in _kept:
        if len(_kept) == _MOST_KEPT:
            del _kept[next(iter(_kept))]
        parts = [
            _load_network_features(frozen.select_part(name)) for name in plan.info.parts
        ]
        _kept[own] = (
            _join_features(parts, _describe_head(plan)[0])
            if parts
            else _load_network_features(frozen)
        )
    return _kept[own]


_kept: dict[str, Features] = {}


class _Frozen(NamedTuple):
    """A network with its initial weights, and the images that it sees."""

    settings: ClassifierSettings
    plan: Blueprint
    images: ImageSet
    precision: Precision
    device: torch.device

    def create_batcher(self, augmentation: Augmentation) -> Batcher:
        return Batcher(
            self.images,
            dtype=choose_dtype(self.settings),
            augmentation=augmentation,
            device=self.device,
        )

    def select_part(self, name: str) -> _Frozen:
        """One of the networks that are side by side in this one."""
        settings = self.settings.model_copy(update={"model": name})
        return self._replace(
            settings=settings, plan=self.plan.model_copy(update={"name": name})
        )


def _describe_kinds(settings: ClassifierSettings) -> dict[str, list[float]]:
    """What is computed of an image. Views come first: crops may never be needed."""
    kinds: dict[str, list[float]] = {"views": [_count_views(settings)]}
    if settings.vertical_flip:
        kinds["upside_down"] = kinds["views"]
    if settings.crops_per_image:
        kinds["crops"] = [settings.crops_per_image, settings.crop_scale]
    return kinds


def _describe_sources(frozen: _Frozen) -> dict[str, Any]:
    """All that decides the features."""
    settings, plan, images, precision, device = frozen
    return {
        "format": FORMAT,
        "images": images.info.content or settings.dataset,
        "stats": [images.info.mean, images.info.std],
        "weights": compute_backbone_digest(settings, plan.info),
        "network": plan.model_dump(mode="json", exclude={"num_classes"}),
        "precision": [device.type, precision.name, settings.dtype],
        "torch": torch.__version__,
    }


def _load_network_features(frozen: _Frozen) -> Features:
    """The features of one network, from the disk or computed."""
    settings, plan, images, _, device = frozen
    complete = _add_levels(plan) if len(images.rows_NP) <= _FEW else plan
    width = None if complete == plan else _describe_head(plan)[1]
    frozen = frozen._replace(plan=complete)
    arrays: dict[str, np.ndarray] = {}
    for kind, values in _describe_kinds(settings).items():
        source = json.dumps({**_describe_sources(frozen), kind: values})
        key = hashlib.sha256(source.encode()).hexdigest()[:_KEY_LENGTH]
        compute = partial(_compute_features, frozen, kind)
        folder = resolve_data_folder(settings.data_dir) / STORE / key
        arrays[kind], head = (
            _load_or_compute(folder, compute) if plan.code is None else compute()
        )

    def move(array: np.ndarray) -> Tensor:
        home = choose_device(array.nbytes, device)
        return torch.from_numpy(array).to(home)[..., :width]

    views = arrays["views"][:, None]
    if settings.vertical_flip:
        both = (arrays["views"], arrays["upside_down"])
        views = np.stack([array[..., :width] for array in both], 1)
    crops = arrays.get("crops")
    return Features(move(views), head, None if crops is None else move(crops))


def _join_features(parts: Sequence[Features], head: str) -> Features:
    """The features of all `parts`, for the layer `head` that takes them."""
    crops = [part.crops_NVF for part in parts if part.crops_NVF is not None]
    views_NUMF = torch.cat([part.views_NUMF for part in parts], 3)
    return Features(views_NUMF, head, torch.cat(crops, 2) if crops else None)


def _add_levels(plan: Blueprint) -> Blueprint:
    """The network of `plan` whose head sees every level, if it can; its other layers are equal."""
    if "levels" not in plan.settings:
        return plan
    return plan.model_copy(update={"settings": {**plan.settings, "levels": True}})


def _describe_head(plan: Blueprint) -> tuple[str, int]:
    """The name of the head of `plan`, and the number of features that it takes."""
    with torch.device("meta"):
        network = plan.initialize_model()
    name = find_head(network)
    return name, network.get_parameter(f"{name}.weight").shape[1]


def _count_views(settings: ClassifierSettings) -> int:
    shows_both = (
        settings.flip or settings.test_time_flip or settings.optimizer == "lbfgs"
    )
    return 2 if shows_both else 1


def _load_or_compute(folder: Path, compute: Callable[[], Computed]) -> Computed:
    """As `_compute_features`, from files in `folder`, which are written first if missing."""

    def write(folder: Path) -> None:
        array, head = compute()
        np.save(folder / "features.npy", array)
        (folder / "info.json").write_text(json.dumps({"head": head}))

    ensure_folder(folder, write, what="the features")
    # copy-on-write: torch warns of arrays that cannot be written
    array = np.load(folder / "features.npy", mmap_mode="c", allow_pickle=False)
    return np.asarray(array), json.loads((folder / "info.json").read_text())["head"]


def _compute_features(frozen: _Frozen, kind: str) -> Computed:
    """The features of a `kind`: views, upside_down or crops.

    The other trials of the machine wait for them, so that all its cores compute: each takes a few
    images at a time, whose activations its cache holds.
    """
    settings, plan, images, precision, device = frozen
    model = build_initial_network(settings, plan)
    name = find_head(model)
    dtype = choose_dtype(settings)
    set_layout(cast_weights(model, dtype).to(device).eval(), plan, precision)
    model.eval()
    check_head(model, plan)
    count = len(images.rows_NP)
    rows_N = torch.arange(count, device=images.rows_NP.device)
    shown = (
        _create_crop_loader(frozen, rows_N)
        if kind == "crops"
        else _create_view_loader(frozen, is_upside_down=kind == "upside_down")
    )
    size = choose_evaluation_batch(device, plan.image_size)
    # A user's own network need not run in several threads
    workers = count_usable_cpus() if device.type == "cpu" and plan.code is None else 1
    free = SimpleQueue[tuple[nn.Module, MicroBatch]]()
    for number in range(workers):
        micro = MicroBatch(size, device=device, purpose="features")
        free.put((deepcopy(model) if number else model, micro))

    def compute(some_N: Tensor) -> Tensor:
        network, micro = free.get()

        def collect_inputs(some_N: Tensor) -> Tensor:
            return torch.stack(
                [
                    _compute_layer_inputs(name, network, x_NCHW)
                    for x_NCHW in shown(some_N)
                ],
                1,
            )

        try:
            with torch.inference_mode(), precision.apply_autocast():
                # Both are a thread's own
                return micro.compute(some_N, collect_inputs).cpu()
        finally:  # else threads that wait for a network would wait for good
            free.put((network, micro))

    message = f"computing the features of {count:,} images by {plan.name}, once for all trials"
    print(message, file=sys.stderr, flush=True)
    parts: list[Tensor] = []
    with (
        precision.apply(),
        seed_generators(0, device),
        use_single_thread() if workers > 1 else nullcontext(),
        ThreadPoolExecutor(workers) as pool,
        show_progress("computing features", count) as advance,
    ):
        batches = rows_N.split(size)
        for done_NVF in (
            pool.map(compute, batches) if workers > 1 else map(compute, batches)
        ):
            parts.append(done_NVF)
            advance(len(done_NVF))
    return torch.cat(parts).numpy(), name


def _create_view_loader(
    frozen: _Frozen, *, is_upside_down: bool
) -> Callable[[Tensor], list[Tensor]]:
    """Makes the views, each an x_NCHW, of some rows: the images, and their mirror images."""
    is_mirrored = _count_views(frozen.settings) == 2
    batcher = frozen.create_batcher(Augmentation())

    def load_views(some_N: Tensor) -> list[Tensor]:
        x_NCHW, _ = batcher.build_batch(some_N)
        if is_upside_down:
            x_NCHW = x_NCHW.flip(2)
        return build_views(x_NCHW, mirrored=is_mirrored, upside_down=False)

    return load_views


def _create_crop_loader(
    frozen: _Frozen, rows_N: Tensor
) -> Callable[[Tensor], list[Tensor]]:
    """Makes random crops, each an x_NCHW, of rows that follow each other; none is mirrored."""
    settings, _, images, _, device = frozen
    crops = Augmentation(crop_scale=settings.crop_scale)
    batcher = frozen.create_batcher(crops)
    size = images.info.image_size

    def draw_epoch(number: int) -> Epoch:
        generator = torch.Generator().manual_seed(number)
        draws = draw(
            len(rows_N), image_size=size, augmentation=crops, generator=generator
        )
        return Epoch(rows_N, draws.to(device))

    epochs = [draw_epoch(number) for number in range(settings.crops_per_image)]

    def load_crops(some_N: Tensor) -> list[Tensor]:
        positions = slice(int(some_N[0]), int(some_N[-1]) + 1)
        return [batcher.build_training_batch(epoch, positions)[0] for epoch in epochs]

    return load_crops


def _compute_layer_inputs(name: str, model: nn.Module, x_NCHW: Tensor) -> Tensor:
    """The input, in float32, of the last call of the layer `name` for these images."""
    inputs: list[Tensor] = []
    layer = model.get_submodule(name)
    with layer.register_forward_pre_hook(lambda _, given: inputs.append(given[0])):
        model(x_NCHW)
    inputs_NF = inputs[-1]
    if inputs_NF.shape[:-1] != (len(x_NCHW),):
        rule = f"needs a head that takes N x F features, and it takes {tuple(inputs_NF.shape)}"
        raise build_settings_error(Fault("train_layers", rule))
    return inputs_NF.float()
