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
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tuner import process
from tuner.errors import UnreadableImagesError, translate_error
from tuner.settings import FaultsError
from tuner.spec import quotas
from tuner.vision.datasets._archive import folder_made_once, partial_folder
from tuner.vision.sources._images import Images, check_sizes, counts_of
from tuner.vision.sources._pixels import DEEPEST, bits_used, bombs_refused, square
from tuner.wording import some_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 3  # part of every key: what another version has decoded is left alone
INFO = "info.json"
FILES = ("images.npy", "labels.npy", "splits.npy", "moments.npy", "copies.npy", INFO)

_AT_ONCE = 512  # images that are decoded before the next are begun
_SHOWN = 5  # images that cannot be read which a message lists
_KEY_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Decoding:
    """How images are decoded: the settings `image_size`, `image_bits` and `skip_unreadable`."""

    size: int
    bits: int | None = None
    skip_unreadable: bool = False


def decode(images: Images, how: Decoding, *, store: Path, name: str) -> Path:
    """The folder of `images`, decoded as `how` says, below `store`; decoded now where it is not.

    name: what it is called, before a key of what it is made from. Of all processes that share
    the store one decodes, and the others wait for it. Raises UnreadableImagesError for images that
    cannot be read, and OSError of the disk.
    """
    folder = decoded_path(images, how, store=store, name=name)
    if folder is not None:
        folder_made_once(folder, lambda partial: _decode_to(partial, images, how))
        return folder
    # Only their pixels tell whether they have changed
    store.mkdir(parents=True, exist_ok=True)
    with partial_folder(store) as partial:
        content = _decode_to(partial, images, how)
        folder = store / f"{name}-{_key(content, how)}"
        folder_made_once(folder, lambda new: _move(partial, new))
    return folder


def decoded_path(images: Images, how: Decoding, *, store: Path, name: str) -> Path | None:
    """Where `decode` puts them; None where only decoding them can tell."""
    if images.fingerprint is None:
        return None
    return store / f"{name}-{_key(images.fingerprint, how)}"


def _move(partial: Path, new: Path) -> None:
    for name in FILES:
        (partial / name).rename(new / name)


def _key(made_from: str, how: Decoding) -> str:
    text = json.dumps([FORMAT, made_from, *astuple(how)])
    return hashlib.sha256(text.encode()).hexdigest()[:_KEY_LENGTH]


def _decode_to(partial: Path, images: Images, how: Decoding) -> str:
    """Write all FILES to the empty folder `partial`; returns the digest of what they hold.

    All images have one scale. How many bits they use shows when all have been read, so images of
    fewer than 16 are read twice, unless `how` says their bits.
    """
    first = _Writing(images, how, partial)
    content = first.run()
    if first.bits in (how.bits, DEEPEST):
        return content
    return _Writing(images, replace(how, bits=first.bits), partial).run()


@dataclass
class _Writing:
    """One decoding to the folder `partial`. used: the bits that its images use."""

    images: Images
    how: Decoding
    partial: Path
    used: set[int] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)

    @property
    def bits(self) -> int | None:
        """Of a channel, where images have more than 8: as they are set, else as they are used."""
        return self.how.bits or max(self.used, default=None)

    def run(self) -> str:
        """Write all FILES; returns the digest of what they hold."""
        import numpy as np

        images, count, size = self.images, len(self.images.labels_N), self.how.size
        moments = np.zeros((count, 2, images.channels), np.int64)
        digests: list[bytes] = []
        kept: list[int] = []
        with (self.partial / "images.npy").open("wb") as file, bombs_refused():
            _write_header(file, (count, size, size, images.channels))
            for position, pixels in enumerate(self._pixels()):
                if pixels is None:
                    continue
                file.write(pixels.tobytes())
                digests.append(hashlib.blake2b(pixels.tobytes(), digest_size=16).digest())
                moments[len(kept)] = _moments(pixels)
                kept.append(position)
            file.seek(0)  # NumPy leaves room in a header for any number of rows
            _write_header(file, (len(kept), size, size, images.channels))
        labels_N, splits_N = images.labels_N[kept], images.splits_N[kept]
        if self.unreadable:
            self._admit_skipped(labels_N, splits_N)
        np.save(self.partial / "labels.npy", labels_N)
        np.save(self.partial / "splits.npy", splits_N)
        np.save(self.partial / "moments.npy", moments[: len(kept)])
        np.save(self.partial / "copies.npy", _copies(digests))
        content = self._content(labels_N, splits_N, digests)
        info = {
            "format": FORMAT,
            "title": images.title,
            "classes": images.classes,
            "channels": images.channels,
            "image_size": size,
            "bits": self.bits,
            "skipped": sorted(self.unreadable),
            "content": content,
        }
        (self.partial / INFO).write_text(json.dumps(info) + "\n")
        return content

    def _admit_skipped(self, labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8]) -> None:
        """Raise UnreadableImagesError unless they may be skipped, and enough images are left."""
        unreadable, of = sorted(self.unreadable), len(self.images.labels_N)
        if not self.how.skip_unreadable:
            raise UnreadableImagesError(
                f"{self.images.title}: {len(unreadable)} of {of} images cannot be read: "
                f"{some_of(unreadable, _SHOWN)}; training.skip_unreadable=true trains without them"
            )
        classes, title = self.images.classes, self.images.title
        what = f"{title}, without the {len(unreadable)} of {of} images that cannot be read"
        with translate_error(UnreadableImagesError, what, of=FaultsError):
            check_sizes(classes, counts_of(labels_N, splits_N, classes), title)

    def _content(
        self, labels_N: NDArray[np.int64], splits_N: NDArray[np.uint8], digests: list[bytes]
    ) -> str:
        whole = hashlib.sha256(json.dumps([self.images.classes, self.how.size]).encode())
        for part in (labels_N.tobytes(), splits_N.tobytes(), *digests):
            whole.update(part)
        return whole.hexdigest()

    def _pixels(self) -> Iterator[NDArray[np.uint8] | None]:
        """Every image in order; None for each that cannot be read, which is noted."""
        from concurrent.futures import ThreadPoolExecutor

        from rich.progress import Progress

        count, console = len(self.images.labels_N), process.console(sys.stderr)
        bar = Progress(
            *Progress.get_default_columns(), console=console, disable=not console.is_terminal
        )
        threads = ThreadPoolExecutor(max(1, int(quotas.usable_cpus())))
        with threads if self.images.in_threads else nullcontext(), bar:
            task = bar.add_task(f"Decoding {count:,} images", total=count)
            for start in range(0, count, _AT_ONCE):
                part = range(start, min(start + _AT_ONCE, count))
                apply: Any = threads.map if self.images.in_threads else map
                yield from apply(self._one, part)
                bar.advance(task, len(part))

    def _one(self, position: int) -> NDArray[np.uint8] | None:
        channels, bits = self.images.channels, self.how.bits
        try:
            image = self.images.read(position)
            if bits is None and (used := bits_used(image)):
                self.used.add(used)
            return square(image, size=self.how.size, channels=channels, bits=bits or DEEPEST)
        except Exception as error:  # Pillow's decoders raise whatever they stumble over
            name = self.images.name_of(position)
            reason = " ".join(str(error).replace(f" {name!r}", "").split()) or type(error).__name__
            self.unreadable.append(f"{name} ({reason})")
            return None


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
