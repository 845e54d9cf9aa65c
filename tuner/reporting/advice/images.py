"""Findings on a user's own images: weights, pixels, copies, labels, classes, and their number.

They usually save more errors than any hyperparameter.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from math import sqrt

from tuner.experiment.results.accuracy import build_test_accuracy
from tuner.experiment.results.split_details import (
    LEARNING_CURVE,
    compute_macro_recall,
    count_doubtful_pairs,
)
from tuner.experiment.results.statistics import wilson
from tuner.reporting.advice.finding import Finding, format_share
from tuner.reporting.advice.record import SearchRecord
from tuner.spec.declaration import load_declaration
from tuner.wording import format_number, summarize_names

_FEW = 0.01
_MANY = 0.05  # copies, of the images of validation and test
_TINY = 16  # px up to which pretrained networks are of little use
_SIZE = 224  # px that they have usually seen
_WEIGHTS = ("training.model=efficientnet_lite0", "training.pretrained=true")
_BALANCED = (
    "objective.metric=val_balanced_accuracy",
    "objective.mode=max",
    "training.class_weights=balanced",
)
_SHOWN = 6  # pairs of classes
_SAVED = 0.1  # of the errors, which are worth twice the images


def check_images(record: SearchRecord) -> Iterator[Finding]:
    """The findings on the images, in the order of what they usually save."""
    if record.has_own_images:
        yield from _check_pretraining(record)
    yield from _check_copies(record)
    if record.has_own_images:
        yield from _check_labels(record)
        yield from _check_class_balance(record)
        yield from _check_image_count(record)


def _check_pretraining(record: SearchRecord) -> Iterator[Finding]:
    """Whether no network begins with pretrained weights, or sees fewer pixels than is usual."""
    training = record.spec.training
    space = record.spec.search.space
    dataset = str(training["dataset"])
    size = int(str(training.get("image_size") or _SIZE))
    if any(
        training.get(name) or name in space for name in ("pretrained", "start_from")
    ):
        if size < _SIZE:
            yield Finding(
                "few_pixels",
                "medium",
                f"The images have {size} px a side; pretrained networks have mostly seen {_SIZE}.",
                f"More pixels often save errors, for {(_SIZE / size) ** 2:.1f} times the time.",
                record.format_run_command(f"training.image_size={_SIZE}"),
                {"image_size": size},
            )
    elif size > _TINY:
        is_source = (
            dataset.partition(":")[0] in load_declaration(record.spec.trainable).schemes
        )
        anew = f"tuner run {shlex.quote(dataset)} {shlex.join(_WEIGHTS)}"
        yield Finding(
            "random_weights",
            "high",
            "Every network of this search began with random weights.",
            "Pretrained weights save about a third of the errors on most photos.",
            anew if is_source else record.format_run_command(*_WEIGHTS),
            {},
        )


def _check_copies(record: SearchRecord) -> Iterator[Finding]:
    """Whether many images of the validation and test splits are copies of images elsewhere."""
    counted = record.validation or {}
    copies = int(counted.get("copies", 0))
    n = int(counted.get("measured", 0))
    low, high = wilson(min(copies / n, 1.0), n) if n else (0.0, 0.0)
    if low < _FEW:
        return
    source, _, path = str(record.spec.training.get("dataset")).partition(":")
    find = (
        f"find {shlex.quote(path)} -type f -exec sha256sum {{}} + | sort | uniq -w64 -D"
    )
    yield Finding(
        "copies",
        "high" if low > _MANY else "medium",
        f"{copies:,} of {n:,} images of the validation and test splits "
        f"({format_share(low, high)}) are exact copies of images of another split.",
        "Accuracies on them show memory: keep one of each, and search anew.",
        find if source == "folder" else f"tuner run --like {record.name} --dry-run",
        {"copies": copies, "n": n, "share": copies / n, "interval": [low, high]},
    )


def _check_labels(record: SearchRecord) -> Iterator[Finding]:
    """The classes of labels that are probably wrong."""
    pairs = dict(count_doubtful_pairs(record.test))
    if pairs:
        shown = summarize_names(
            [f"{pair}: {count}" for pair, count in pairs.items()], _SHOWN
        )
        yield Finding(
            "doubtful_labels",
            "medium",
            f"Labels that may be wrong, by label / likelier class: {shown}.",
            "A wrong label spoils the training, and counts a right answer as an error.",
            f"tuner evaluate {record.name} --labels labels.csv",
            {"n": sum(pairs.values()), "pairs": pairs},
        )


def _check_class_balance(record: SearchRecord) -> Iterator[Finding]:
    """Whether the accuracy hides that the small ones of uneven classes are seldom right."""
    accuracy = build_test_accuracy(record.test)
    recall = compute_macro_recall(record.test)
    is_balanced = record.objective.metric == "val_balanced_accuracy"
    if (
        accuracy is None
        or recall is None
        or recall >= accuracy.interval[0]
        or is_balanced
    ):
        return
    low, high = map(format_number, accuracy.interval)
    # Of heads on frozen features a weighted loss gave no higher mean recall
    is_head_alone = record.spec.training.get("train_layers") == "head"
    yield Finding(
        "uneven_classes",
        "medium",
        f"The classes are uneven: test_accuracy is {format_number(accuracy.value)} ({low} to "
        f"{high}), and the mean recall of the classes {format_number(recall)}.",
        "The large classes decide. If all count alike, add images to the small ones"
        + ("." if is_head_alone else ", or weigh all alike."),
        f"tuner evaluate {record.name}"
        if is_head_alone
        else record.format_run_command("warm_start=null", *_BALANCED),
        {
            "accuracy": accuracy.value,
            "interval": [*accuracy.interval],
            "macro_recall": recall,
        },
    )


def _check_image_count(record: SearchRecord) -> Iterator[Finding]:
    """Whether twice the images would save many errors, by a power law through the learning curve.

    See Hestness et al. 2017, "Deep Learning Scaling is Predictable, Empirically". A line of least
    squares through three errors, each of twice the images, is as steep as that from the first to
    the last. Silent where the last doubling has saved none beyond chance.
    """
    match (record.test or {}).get(LEARNING_CURVE):
        case [
            {"errors": float(first)},
            _,
            {
                "images": int(n),
                "errors": float(last),
                "gain": [float(low), float(high)],
            },
        ] if low > 0 and first > last:
            saved = 1 - sqrt(last / first)
        case _:
            return
    if saved >= _SAVED:
        yield Finding(
            "few_images",
            "medium",
            f"Heads fitted to {n // 4:,} images get {100 * first:.0f} % of the others wrong, those "
            f"fitted to {n:,} get {100 * last:.0f} %; the last doubling gets "
            f"{format_share(low, high)} "
            "more of them right.",
            f"Twice as many images would save about {100 * saved:.0f} % of the errors.",
            f"tuner run --like {record.name}",
            {"n": n, "errors": [first, last], "interval": [low, high], "saved": saved},
        )
