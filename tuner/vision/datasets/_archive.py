"""The archive file of a data set: verified, downloaded once, or copied from another machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import DataError, describe_error, translate_error
from tuner.experiment.files import replace_file
from tuner.vision.progress import build_progress_bar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHUNK_BYTES = 4 << 20
TIMEOUT_S = 30.0


def download_chunks(url: str, name: str) -> Iterator[bytes]:
    """The bytes at `url` in chunks, with a progress bar for the file `name`; raises OSError."""
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import urlopen

    with (
        translate_error(
            ConnectionError, _describe_failure, of=(HTTPException, URLError)
        ),
        urlopen(url, timeout=TIMEOUT_S) as response,
        build_progress_bar() as bar,
    ):
        length = response.headers.get("Content-Length")
        task = bar.add_task(
            f"Downloading {name}", total=int(length) if length else None
        )
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
            bar.advance(task, len(chunk))


def _describe_failure(error: Exception) -> str:
    cause = getattr(error, "reason", None)  # urllib hides the system's message in it
    return describe_error(cause if isinstance(cause, Exception) else error)


@dataclass(frozen=True, slots=True)
class Archive:
    """The file `name` of a data folder. extracted, decoded: folders that make it unnecessary."""

    title: str
    name: str
    url: str
    md5: str
    extracted: str
    decoded: str

    def is_present(self, folder: Path) -> bool:
        """Whether the file itself is in `folder`."""
        return (folder / self.name).is_file()

    def is_missing(self, folder: Path) -> bool:
        """Whether the data set cannot be read from `folder` as it is."""
        instead = (self.extracted, self.decoded)
        return not self.is_present(folder) and not any(
            (folder / name).is_dir() for name in instead
        )

    def ensure_verified(self, folder: Path) -> Path:
        """The path of the file in `folder`, downloaded if it is missing. Raises DataError."""
        path = folder / self.name
        if not self.is_present(folder):
            self.fetch(folder)
            return path
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, _create_md5).hexdigest()
        if digest != self.md5:
            raise DataError(
                f"{path} has MD5 {digest}, published is {self.md5}: delete it, and it is "
                f"downloaded from {self.url}"
            )
        return path

    def fetch(self, folder: Path) -> None:
        """Download the file to `folder` unless the data set is there; raises DataError."""
        try:
            self.write(
                folder, lambda: download_chunks(self.url, self.name), origin=self.url
            )
        except OSError as error:
            raise DataError(
                f"{self.title} is not in {folder} and cannot be downloaded from {self.url} "
                f"({error}); put {self.name} or its extracted folder {self.extracted} there"
            ) from error

    def write(
        self,
        folder: Path,
        chunks: Callable[[], Iterable[bytes | memoryview]],
        *,
        origin: str,
    ) -> None:
        """Write `chunks()`, which come from `origin`, to `folder`, unless the data set is there.

        One of all processes that share the folder writes, and the others wait. The file appears
        only when it is complete. Raises DataError for a wrong MD5, and OSError of the disk.
        """
        from filelock import FileLock

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{self.name}.lock"):
            if self.is_missing(folder):
                path = folder / self.name
                replace_file(
                    path, lambda new: self._write(new, chunks(), origin), lasting=True
                )

    def map_contents(self, folder: Path) -> list[NDArray[np.uint8]]:
        """The bytes of the file in `folder`, mapped. Raises OSError."""
        return [map_file(folder / self.name)]

    def _write(
        self, path: Path, chunks: Iterable[bytes | memoryview], origin: str
    ) -> None:
        digest = _create_md5()
        with path.open("wb") as out:
            for chunk in chunks:
                out.write(chunk)
                digest.update(chunk)
        if (md5 := digest.hexdigest()) != self.md5:
            raise DataError(
                f"{origin} has MD5 {md5}, published is {self.md5}: nothing was kept"
            )


def map_file(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, mapped; an array that Ray can send without a copy. Raises OSError."""
    import numpy as np

    return np.asarray(np.memmap(path, np.uint8, "r"))


def _create_md5() -> hashlib._Hash:
    # Not for security: it is the checksum that CIFAR's page publishes
    return hashlib.md5(usedforsecurity=False)
