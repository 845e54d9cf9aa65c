"""`hf:NAME`: a data set of the Hugging Face hub, or a folder of its `save_to_disk`.

Needs the extra `tuner[hf]`. The images are in the column of type Image, the labels in that of type
ClassLabel. No script of a data set runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tuner.errors import DataError, translate_error
from tuner.spec.settings import bad_value
from tuner.vision.sources._images import Images, Source, check_package, parse_split
from tuner.vision.sources._module import Part, build_images

_require = partial(check_package, "datasets", "hf")


def find(name: str, folder: Path) -> Images:
    """The images of the data set called `name`, kept in DATA_DIR/hf. Raises FaultsError."""
    _require(name)
    import datasets

    path = Path(name).expanduser()
    # A download or a damaged file may raise any type
    with translate_error(DataError, f"hf:{name} cannot be had"):
        if path.is_dir():
            loaded: Any = datasets.load_from_disk(str(path))
        else:
            loaded = datasets.load_dataset(name, cache_dir=str(folder / "hf"))
    splits = dict(loaded) if isinstance(loaded, Mapping) else {"train": loaded}
    known = {
        parse_split(split): each for split, each in splits.items() if parse_split(split)
    }
    if "train" not in known:
        raise bad_value("must have a split `train`", name, tuple(splits))
    parts = {str(split): _build_part(each, name) for split, each in known.items()}
    prints = [str(getattr(each, "_fingerprint", "")) for each in known.values()]
    return build_images(
        parts,
        location=name,
        title=f"{Path(name).name}, of the Hugging Face hub",
        fingerprint=f"hf {name} {prints}" if all(prints) else None,
    )


SOURCE = Source("hf:NAME", find, _require)


def _build_part(split: Any, name: str) -> Part:
    kinds = {
        column: type(feature).__name__ for column, feature in split.features.items()
    }
    image, label = (
        next((column for column, kind in kinds.items() if kind == wanted), None)
        for wanted in ("Image", "ClassLabel")
    )
    if image is None or label is None:
        listed = ", ".join(f"{column} ({kind})" for column, kind in kinds.items())
        raise bad_value(
            f"must have a column of Image and one of ClassLabel, has {listed}", name
        )
    return Part(
        lambda number: split[number][image],
        list(split[label]),
        tuple(split.features[label].names),
    )
