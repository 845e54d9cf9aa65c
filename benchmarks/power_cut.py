"""A disk whose power can be cut: an ext4 file system in a file. Linux, and root alone.

ext4 has a call for tests of just this: it stops at once, and writes nothing of what it holds in
memory. After `cut` every access fails; after `restore` the disk has what it would have after a
power cut.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH = struct.pack("I", 2)
_PATIENCE_S = 30.0


class Disk:
    """The disk at the folder `at`; `size` in MiB."""

    def __init__(self, image: Path, at: Path, *, size: int = 256) -> None:
        self.at = at
        self._image = image
        self._size = size

    @contextmanager
    def mounted(self) -> Iterator[Disk]:
        """Within it the disk is there, and empty. Raises OSError where it cannot be mounted."""
        self.at.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(self._size << 20)
        _call("mkfs.ext4", "-q", "-F", self._image)
        self._mount()
        try:
            yield self
        finally:
            _call("umount", "--lazy", self.at)
            self._image.unlink()

    def cut(self) -> None:
        """Cut its power: what was not forced to it is lost."""
        fd = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def restore(self) -> None:
        """Switch it on again; whoever had files open there must have ended."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                _call("umount", self.at)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        # Of its own file: the old one may still be mounted in another namespace, and shut down
        restored = self._image.with_name(f"{self._image.name}+")
        _call("cp", "--sparse=always", self._image, restored)
        self._image.unlink()
        self._image = restored
        self._mount()

    def _mount(self) -> None:
        _call("mount", "-o", "loop", self._image, self.at)


def _call(*command: object) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True
    )
    if done.returncode:
        raise OSError(done.returncode, done.stderr.strip())
