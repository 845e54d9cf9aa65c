"""Fetch a file once, whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from tuner.errors import DataError

CHUNK_BYTES = 1 << 20
TIMEOUT_S = 30.0


def download(url: str, *, to: Path, md5: str) -> None:
    """Download `url` to the file `to`, with a progress bar on stderr.

    `to` appears only when it is complete and its MD5 is `md5`; otherwise nothing is left behind.
    Raises DataError for a wrong MD5 and OSError for the network and the disk.
    """
    keep(_received(url, to.name), to=to, md5=md5, origin=url)


def keep(chunks: Iterable[bytes], *, to: Path, md5: str, origin: str) -> None:
    """Write `chunks` to the file `to`, as `download` does what it gets; `origin` names them."""
    handle, name = tempfile.mkstemp(dir=to.parent, prefix=f".{to.name}.")
    partial = Path(name)
    digest = _md5()
    try:
        with os.fdopen(handle, "wb") as out:
            for chunk in chunks:
                out.write(chunk)
                digest.update(chunk)
            out.flush()
            os.fsync(out.fileno())
        if (got := digest.hexdigest()) != md5:
            raise DataError(f"{origin} has MD5 {got}, published is {md5}: nothing was kept")
        partial.replace(to)
    finally:
        partial.unlink(missing_ok=True)


def file_md5(path: Path) -> str:
    """The MD5 of the file at `path`, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, _md5).hexdigest()


def _md5() -> hashlib._Hash:
    # Not for security: it is the checksum that CIFAR's page publishes.
    return hashlib.md5(usedforsecurity=False)


def _received(url: str, label: str) -> Iterator[bytes]:
    """What comes from `url`, in chunks."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, bar:
        length = response.headers.get("Content-Length")
        task = bar.add_task(f"Downloading {label}", total=int(length) if length else None)
        while chunk := response.read(CHUNK_BYTES):
            yield chunk
            bar.advance(task, len(chunk))
