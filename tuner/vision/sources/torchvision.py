"""`torchvision:NAME`: a classification data set of torchvision, downloaded if it is missing.

It is kept in DATA_DIR/torchvision and verified by torchvision, so that its name identifies its
decoded form. Needs the extra `tuner[torchvision]`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tuner.errors import DataError, build_unknown_fault, translate_error
from tuner.spec.settings import FaultsError
from tuner.trial.failures import format_error
from tuner.vision.sources._images import Images, Source, check_package
from tuner.vision.sources._module import build_images, parse_parts

_require = partial(check_package, "torchvision", "torchvision")


def find(name: str, folder: Path) -> Images:
    """The images of the data set called `name`. Raises FaultsError; DataError of a download."""
    _require(name)
    with translate_error(DataError, format_error):
        # A torchvision that does not fit torch
        from torchvision import datasets

    kind = getattr(datasets, name, None)
    known = [
        each for each in datasets.__all__ if _split_argument(getattr(datasets, each))
    ]
    if kind is None or name not in known:
        raise FaultsError(
            build_unknown_fault("", "data set of torchvision", name, known)
        )
    root = folder / "torchvision"
    root.mkdir(parents=True, exist_ok=True)
    # A download or a missing file may raise any type
    with translate_error(
        DataError, f"torchvision's {name} is not in {root} and cannot be had"
    ):
        parts = dict(_load_splits(kind, root))
    return build_images(
        parse_parts(parts, name),
        location=name,
        title=f"torchvision's {name}",
        fingerprint=f"torchvision {name}",
    )


SOURCE = Source("torchvision:NAME", find, _require)


def _split_argument(kind: Any) -> str | None:
    """The argument for a data set's split, `train` or `split`; None for another class."""
    if not inspect.isclass(kind):
        return None
    names = inspect.signature(kind).parameters
    if "download" not in names:
        return None
    return next((name for name in ("train", "split") if name in names), None)


def _load_splits(kind: Any, root: Path) -> Iterator[tuple[str, Any]]:
    """A data set's splits: train, test, and perhaps val."""
    if _split_argument(kind) == "train":
        yield "train", kind(root, train=True, download=True)
        yield "test", kind(root, train=False, download=True)
        return
    for split in ("train", "val", "test"):
        try:
            yield split, kind(root, split=split, download=True)
        except ValueError:
            if split != "val":
                raise
