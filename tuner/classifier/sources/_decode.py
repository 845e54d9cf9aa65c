"""Decodes images once, to arrays of one size in a folder that every process of the node maps.

    DATA_DIR/decoded/NAME-KEY/   images.npy, labels.npy, splits.npy, moments.npy, copies.npy
                                 and info.json, which says what they are

Rows are written one after the other and never to a map: on a full disk that would end the process.
"""

# N images, H W pixels, C channels, P = H * W * C bytes of one image

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tuner import quotas, streams
from tuner.classifier.datasets._once import folder_made_once, partial_folder
from tuner.classifier.sources._images import Images
from tuner.classifier.sources._pixels import bombs_refused, square
from tuner.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 2  # part of every key: what another version has decoded is left alone
INFO = "info.json"
FILES = ("images.npy", "labels.npy", "splits.npy", "moments.npy", "copies.npy", INFO)

_AT_ONCE = 512  # images that are decoded before the next are begun
_SHOWN = 5  # images that cannot be read
_KEY_LENGTH = 12


def decode(images: Images, *, size: int, store: Path, name: str) -> Path:
    """The folder of `images` at `size` px, below `store`; decoded where that is not done yet.

    name: what it is called, before a key of what it is made from. Of all processes that share
    the store one decodes, and the others wait for it. Raises DataError for images that cannot be
    read, and OSError of the disk.
    """
    folder = decoded_path(images, size=size, store=store, name=name)
    if folder is not None:
        folder_made_once(folder, lambda partial: _Writing(images, size, partial).run())
        return folder
    # Only their pixels tell whether they have changed
    store.mkdir(parents=True, exist_ok=True)
    with partial_folder(store) as partial:
        content = _Writing(images, size, partial).run()
        folder = store / f"{name}-{_key(content, size)}"
        folder_made_once(folder, lambda new: _move(partial, new))
    return folder


def decoded_path(images: Images, *, size: int, store: Path, name: str) -> Path | None:
    """Where `decode` puts them; None where only decoding them can tell."""
    if images.fingerprint is None:
        return None
    return store / f"{name}-{_key(images.fingerprint, size)}"


def _move(partial: Path, new: Path) -> None:
    for name in FILES:
        (partial / name).rename(new / name)


def _key(made_from: str, size: int) -> str:
    text = json.dumps([FORMAT, made_from, size])
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]


@dataclass
class _Writing:
    """One decoding to the empty folder `partial`."""

    images: Images
    size: int
    partial: Path
    unreadable: list[str] = field(default_factory=list)

    def run(self) -> str:
        """Write all FILES; returns the digest of what they hold."""
        import numpy as np

        images, count = self.images, len(self.images.labels_N)
        moments = np.zeros((count, 2, images.channels), np.int64)
        digests: list[bytes] = []
        shape_NHWC = (count, self.size, self.size, images.channels)
        with (self.partial / "images.npy").open("wb") as file, bombs_refused():
            _write_header(file, shape_NHWC)
            for position, pixels in enumerate(self._pixels()):
                file.write(pixels.tobytes())
                digests.append(hashlib.blake2b(pixels.tobytes(), digest_size=16).digest())
                moments[position] = _moments(pixels)
        if self.unreadable:
            raise DataError(self._told())
        np.save(self.partial / "labels.npy", images.labels_N)
        np.save(self.partial / "splits.npy", images.splits_N)
        np.save(self.partial / "moments.npy", moments)
        np.save(self.partial / "copies.npy", _copies(digests))
        content = self._content(digests)
        info = {
            "format": FORMAT,
            "title": images.title,
            "classes": images.classes,
            "channels": images.channels,
            "image_size": self.size,
            "content": content,
        }
        (self.partial / INFO).write_text(json.dumps(info) + "\n")
        return content

    def _content(self, digests: list[bytes]) -> str:
        images = self.images
        whole = hashlib.sha256(json.dumps([images.classes, self.size]).encode())
        for part in (images.labels_N.tobytes(), images.splits_N.tobytes(), *digests):
            whole.update(part)
        return whole.hexdigest()

    def _pixels(self) -> Iterator[NDArray[np.uint8]]:
        """Every image in order; a black one for each that cannot be read, which is noted."""
        from concurrent.futures import ThreadPoolExecutor

        from rich.progress import Progress

        count, console = len(self.images.labels_N), streams.console(sys.stderr)
        bar = Progress(
            *Progress.get_default_columns(), console=console, disable=not console.is_terminal
        )
        threads = ThreadPoolExecutor(max(1, int(quotas.usable_cpus())))
        with threads if self.images.in_threads else nullcontext(), bar:
            task = bar.add_task(f"Decoding {count:,} images, once", total=count)
            for start in range(0, count, _AT_ONCE):
                part = range(start, min(start + _AT_ONCE, count))
                apply: Any = threads.map if self.images.in_threads else map
                yield from apply(self._one, part)
                bar.advance(task, len(part))

    def _one(self, position: int) -> NDArray[np.uint8]:
        import numpy as np

        channels = self.images.channels
        try:
            return square(self.images.read(position), size=self.size, channels=channels)
        except Exception as error:  # Pillow's decoders raise whatever they stumble over
            reason = " ".join(str(error).split()) or type(error).__name__
            self.unreadable.append(f"{self.images.name_of(position)} ({reason})")
            return np.zeros((self.size, self.size, channels), np.uint8)

    def _told(self) -> str:
        count, of = len(self.unreadable), len(self.images.labels_N)
        more = f", and {count - _SHOWN} more" if count > _SHOWN else ""
        listed = ", ".join(sorted(self.unreadable)[:_SHOWN]) + more
        return f"{self.images.title}: {count} of {of} images cannot be read: {listed}"


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    import numpy as np

    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def _moments(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The sums of an image's bytes and of their squares, of each channel: exact."""
    import numpy as np

    pixels_PC = pixels.reshape(-1, pixels.shape[-1]).astype(np.int64)
    return np.stack([pixels_PC.sum(0), (pixels_PC**2).sum(0)])


def _copies(digests: list[bytes]) -> NDArray[np.int64]:
    """(position, group) of each image that there is more than once."""
    import numpy as np

    groups: dict[bytes, list[int]] = {}
    for position, digest in enumerate(digests):
        groups.setdefault(digest, []).append(position)
    several = [group for group in groups.values() if len(group) > 1]
    rows = [(position, number) for number, group in enumerate(several) for position in group]
    return np.array(rows, np.int64).reshape(-1, 2)
