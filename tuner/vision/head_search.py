"""A search of heads on frozen features: what fits into the time of a search on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tuner.spec.quotas import count_usable_cpus
from tuner.vision.datasets._dataset import DatasetInfo
from tuner.vision.model_catalog import (
    find_model_info,
)

# The packaged network and larger ones, whose weights come in packages, too
SIDE_BY_SIDE = "efficientnet_lites"
# Heads on a CPU. The largest of these sizes, in px, whose features take no more than a part of the
# time; then larger networks beside it, random crops of each image and views upside down, as far as
# larger parts allow. More pixels than the weights are made for gain less than other networks do
_HEAD_SIZES = (224, 160, 128, 96, 64)
_SIZE_SHARE = 0.2
_WIDE_SHARE = 0.42
_CROPS_SHARE = 0.42
_UPSIDE_DOWN_SHARE = 0.55
_MOST_CROPS = 4  # more gain nothing
_MOST_ROWS = 20_000  # features of images and crops, half a gigabyte
_MOST_TURNED = 30_000  # with those of views upside down
_PIXEL_S = 7e-7  # of the packaged network, on one core while the others compute, too
_WIDE = 3.5  # times as many seconds and features of all networks side by side
_WIDE_DECAY = 3  # times as much, for so many features
_VIEWS = 2  # an image, and its mirror image; upside down as many again
_FOLDS = 5
# Images up to which heads are cross-validated; the validation split of more tells
_FOLDED = 3000
_FITTED_FIRST = {"weight_decay": 0.3, "flip": True, "test_time_flip": True}


class Search(NamedTuple):
    """What is searched, beside constant `settings`.

    steps: that the best trials train: few images make many short epochs.
    """

    trials: int
    steps: int
    least_epochs: int
    space: dict[str, str]
    points: tuple[dict[str, Any], ...]
    settings: Mapping[str, Any]
    strategy: str = "mixed"
    refit: bool = False


_HEADS = Search(
    trials=12,  # more would choose the luckiest on few images
    steps=0,
    least_epochs=1,
    space={
        # Least for images unlike photos, as digits
        "weight_decay": "loguniform(1e-3, 3)",
        "flip": "choice([True, False])",
        "test_time_flip": "choice([True, False])",
    },
    points=(
        _FITTED_FIRST,
        {**_FITTED_FIRST, "flip": False, "test_time_flip": False},
        *({**_FITTED_FIRST, "weight_decay": decay} for decay in (1.0, 0.1, 0.01)),
    ),
    settings={"train_layers": "head", "optimizer": "lbfgs"},
    refit=True,  # takes seconds
)


class _HeadPlan(NamedTuple):
    """What the features of a search of heads are computed of.

    crops: of each image. is_wide: whether larger networks stand beside the packaged one.
    is_turned: whether views upside down are tried.
    """

    image_size: int
    crops: int = 0
    is_wide: bool = False
    is_turned: bool = False


def choose_head_search(
    start: Mapping[str, Any],
    info: DatasetInfo,
    training: Mapping[str, Any],
    space: Mapping[str, Any],
    *,
    budget_s: float | None,
    has_wider: bool,
) -> Search:
    """The search of heads on the network and the pixels of `start`.

    budget_s: within which the features of all cores are planned; None: one pass as `start` says.
    training, space: what the user sets. has_wider: whether larger networks are here.
    """
    plan = _HeadPlan(start["image_size"])
    if budget_s is not None:
        plan = _choose_head_plan(info, budget_s, training, space, has_wider=has_wider)
    search = _build_head_search(start["model"], plan)
    settings = {**search.settings, "image_size": plan.image_size}
    if plan.crops:
        settings["crop_scale"] = 0.4
    keeps_validation = "resplit" in {*training, *space} or "validation" in (
        info.own_splits or ()
    )
    if info.train + info.validation <= _FOLDED and not keeps_validation:
        settings["folds"] = _FOLDS  # each of few images tells
    return search._replace(settings=settings)


def _build_head_search(model: object, plan: _HeadPlan) -> Search:
    """The search of heads of `model`, the fastest first.

    Features without crops, and of one network, take less time. Of a network that can show its head
    all levels, with them and without.
    """
    space = dict(_HEADS.space)
    points = list(_HEADS.points)
    if plan.crops:
        space["crops_per_image"] = f"choice([0, {plan.crops}])"
        first, upright, *others = ({**point, "crops_per_image": 0} for point in points)
        cropped = (
            {**point, "crops_per_image": plan.crops} for point in (first, *others)
        )
        points = [first, upright, *cropped]
    if plan.is_turned:
        space["vertical_flip"] = "choice([True, False])"
        points = [{**point, "vertical_flip": False} for point in points]
        # More views of an image need less decay
        points.append({**points[0], "weight_decay": 0.1, "vertical_flip": True})
    if "levels" in find_model_info(str(model)).defaults:
        space["levels"] = "choice([True, False])"
        points = [{**point, "levels": True} for point in points]
        points.append({**points[0], "levels": False})
    if plan.is_wide:
        space["model"] = f"choice(['{model}', '{SIDE_BY_SIDE}'])"
        wide = (
            {**point, "weight_decay": round(_WIDE_DECAY * point["weight_decay"], 2)}
            for point in points
        )
        points = [
            {**points[0], "model": model},
            *({**point, "model": SIDE_BY_SIDE} for point in wide),
        ]
    return _HEADS._replace(space=space, points=tuple(points))


def _choose_head_plan(
    info: DatasetInfo,
    budget_s: float,
    training: Mapping[str, Any],
    space: Mapping[str, Any],
    *,
    has_wider: bool,
) -> _HeadPlan:
    """The pixels, networks, crops and views of an image whose features take their shares of time.

    training, space: what the user sets. has_wider: whether larger networks are here.
    """
    images = info.train + info.validation + info.test
    size = training.get("image_size")
    sizes = (size,) if isinstance(size, int) else _HEAD_SIZES
    always_turns = training.get("vertical_flip") or "vertical_flip" in space
    views = 2 * _VIEWS if always_turns else _VIEWS
    passes_s = {
        size: images * size**2 * _PIXEL_S / count_usable_cpus() for size in sizes
    }
    fast = (size for size in sizes if views * passes_s[size] <= _SIZE_SHARE * budget_s)
    size = next(fast, sizes[-1])
    pass_s = passes_s[size]
    is_wide = (
        has_wider
        and _WIDE * images * views <= _MOST_ROWS
        and _WIDE * views * pass_s <= _WIDE_SHARE * budget_s
    )
    cost = _WIDE if is_wide else 1.0
    affordable = min(_MOST_ROWS / images, _CROPS_SHARE * budget_s / pass_s) / cost
    crops = max(0, min(_MOST_CROPS, int(affordable) - views))
    turned = cost * (views + crops + _VIEWS)
    is_turned = (
        # Images that must not be mirrored have an up and down, too
        training.get("flip") is not False
        and "vertical_flip" not in {*training, *space}
        and turned * images <= _MOST_TURNED
        and turned * pass_s <= _UPSIDE_DOWN_SHARE * budget_s
    )
    return _HeadPlan(size, crops, is_wide, is_turned)
