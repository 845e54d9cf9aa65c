"""What an exported model says of image files, in batches: memory does not grow with their number.

for photo in tuner.predict("best_model", ["photos", "photo.jpg"]):
    print(photo.file, photo.label, photo.probability)
"""

# P = H * W * C bytes of one image

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import UsageError, describe_error
from tuner.spec import quotas
from tuner.vision.export.read import Export, read_export
from tuner.vision.sources.folder import SUFFIXES
from tuner.vision.weights import CONFIG

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tuner.vision.evaluation import Predictor

Top = tuple[tuple[str, float], ...]

_BATCH_BYTES = 64 << 20  # of pixels that are decoded before the network takes them


@dataclass(frozen=True, slots=True)
class Prediction:
    """The classes of one image file.

    top: (label, probability) of the likeliest classes, the likeliest first; empty if the file
    cannot be read. fault: why it cannot, or None.
    """

    file: str
    top: Top = ()
    fault: str | None = None

    @property
    def label(self) -> str | None:
        return self.top[0][0] if self.top else None

    @property
    def probability(self) -> float | None:
        """Of the likeliest class, 0 to 1."""
        return self.top[0][1] if self.top else None


def predict(
    folder: Path | str,
    paths: Path | str | Iterable[Path | str],
    *,
    top: int | None = None,
    trust_code: bool = False,
) -> Iterator[Prediction]:
    """The predictions of an exported folder's model, one for each image file, in their order.

    paths: image files, and folders that are searched for them (`find_image_files`). Files are
    decoded as `load_image` does, by as many threads as there are CPUs; probabilities are those that
    `tuner evaluate` measures. A file that cannot be read gets a prediction with a `fault`. top: the
    number of classes in each prediction, default all. trust_code: as of `load_model`.

    Computes on a GPU if there is one. Raises as `load_model` and `load_image` do for the folder.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    return predict_files(
        read_export(folder), find_image_files(several), top=top, trust_code=trust_code
    )


def predict_files(
    export: Export,
    files: Sequence[str],
    *,
    top: int | None = None,
    trust_code: bool = False,
) -> Iterator[Prediction]:
    """`predict` of an open export, for `find_image_files`."""
    from tuner.vision.evaluation import prepare_device

    plan, _ = export.require_input()
    if len(export.config.classes) != plan.num_classes:
        named = len(export.config.classes)
        made = plan.num_classes
        raise UsageError(
            f"{export.folder}: {CONFIG} names {named} classes of its model's {made}"
        )
    settings = export.parse_settings()
    predictor = export.build_predictor(
        settings, prepare_device(), trust_code=trust_code
    )
    return _predict_batches(export, predictor, files, top)


def find_image_files(paths: Iterable[Path | str]) -> list[str]:
    """Each path that is a file, and the image files in and below each that is a folder, by name.

    Below a folder, files are chosen by their suffix; names that begin with a dot are ignored, and
    links to folders are not followed. A folder without images, or that cannot be listed, stays in
    the list, as does a missing file: reading it tells why.
    """
    files: list[str] = []

    def append_filename(error: OSError) -> None:
        files.append(os.fspath(error.filename))

    for path in [os.fspath(path) for path in paths]:
        before = len(files)
        for folder, folders, names in os.walk(path, onerror=append_filename):
            folders[:] = sorted(name for name in folders if name[0] != ".")
            images = (
                n for n in sorted(names) if n[0] != "." and n.lower().endswith(SUFFIXES)
            )
            files += (os.path.join(folder, name) for name in images)
        if len(files) == before:
            files.append(path)
    return files


def _predict_batches(
    export: Export, predictor: Predictor, files: Sequence[str], most: int | None
) -> Iterator[Prediction]:
    plan = export.require_input()[0]
    classes = export.config.classes
    pixels = plan.in_channels * plan.image_size**2
    size = max(1, min(predictor.batch, _BATCH_BYTES // pixels))
    with ThreadPoolExecutor(quotas.count_usable_cpus()) as threads:
        for start in range(0, len(files), size):
            batch = files[start : start + size]
            rows = [*threads.map(partial(_read_row, export), batch)]
            readable = [row_P for row_P in rows if not isinstance(row_P, str)]
            tops = iter(
                _rank_classes(predictor, readable, classes, most or len(classes))
            )
            for file, row in zip(batch, rows, strict=True):
                if isinstance(row, str):
                    yield Prediction(file, fault=row)
                else:
                    yield Prediction(file, next(tops))


def _rank_classes(
    predictor: Predictor,
    rows: Sequence[NDArray[np.uint8]],
    classes: Sequence[str],
    most: int,
) -> list[Top]:
    """(label, probability) of the `most` likeliest classes of each image."""
    import torch

    if not rows:
        return []
    rows_NP = torch.stack([torch.from_numpy(row_P) for row_P in rows])
    likeliest = (
        predictor.predict_logits(rows_NP).softmax(1).topk(min(most, len(classes)))
    )
    pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    return [
        tuple((classes[k], p) for k, p in zip(*pair, strict=True)) for pair in pairs
    ]


def _read_row(export: Export, file: str) -> NDArray[np.uint8] | str:
    """The bytes of an image, or why it cannot be read."""
    try:
        mode = os.stat(file).st_mode
        if stat.S_ISDIR(mode):
            os.listdir(file)
            return "it is a folder without images"
        if not stat.S_ISREG(mode):  # a pipe might never end
            return "it is no regular file"
        return export.read_pixels(file).reshape(-1).copy()
    except Exception as error:  # Pillow's decoders raise any type
        return describe_error(error).replace(f" {file!r}", "")
