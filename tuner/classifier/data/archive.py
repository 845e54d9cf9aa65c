"""The file that a data set comes as: found in a data folder, downloaded, or got from elsewhere.

Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from tuner.classifier.data.download import download, file_md5, keep
from tuner.errors import DataError

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Archive:
    """What a data folder holds as `name`, and where that comes from.

    title: the data set's name. extracted, decoded: folders beside which it is not needed: what it
    is once unpacked, and what is made of it.
    """

    title: str
    name: str
    url: str
    md5: str
    extracted: str
    decoded: str

    def is_in(self, folder: Path) -> bool:
        """Whether the file itself is in `folder`."""
        return (folder / self.name).is_file()

    def is_lacking(self, folder: Path) -> bool:
        """Whether the data set cannot be read from `folder` as it is."""
        instead = (self.extracted, self.decoded)
        return not self.is_in(folder) and not any((folder / name).is_dir() for name in instead)

    def had(self, folder: Path) -> Path:
        """The file in `folder`, verified; downloaded first where it is not there.

        Raises DataError where it cannot be had, or is another one.
        """
        path = folder / self.name
        if not self.is_in(folder):
            self.fetch(folder)
        elif (got := file_md5(path)) != self.md5:
            raise DataError(
                f"{path} has MD5 {got}, published is {self.md5}: delete it, and it is "
                f"downloaded from {self.url}"
            )
        return path

    def fetch(self, folder: Path) -> None:
        """Download it to `folder`, unless the data set is there by then. Raises DataError."""
        try:
            self._bring(folder, lambda path: download(self.url, to=path, md5=self.md5))
        except OSError as error:
            raise DataError(
                f"{self.title} is not in {folder} and cannot be downloaded from {self.url} "
                f"({error}); put {self.name} or its extracted folder {self.extracted} there"
            ) from error

    def take(self, folder: Path, chunks: Callable[[], Iterable[bytes]], *, origin: str) -> None:
        """Write `chunks()`, which come from `origin`, to `folder`, unless the data set is there.

        Raises DataError where they are not the file, and OSError of the disk.
        """
        self._bring(folder, lambda path: keep(chunks(), to=path, md5=self.md5, origin=origin))

    def chunks(self, folder: Path) -> Iterator[bytes]:
        """The file in `folder`, of which at most CHUNK_BYTES are in memory. Raises OSError."""
        with (folder / self.name).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def _bring(self, folder: Path, write: Callable[[Path], object]) -> None:
        """Have one process of all that share `folder` write the file; the others wait for it."""
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{self.name}.lock"):
            if self.is_lacking(folder):
                write(folder / self.name)
