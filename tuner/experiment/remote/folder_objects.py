"""The same objects in a folder: of this machine, or one that machines share."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import fsspec

from tuner.experiment.files import create_file, replace_file
from tuner.experiment.remote.objects import Objects
from tuner.places import is_url


class FolderObjects(Objects):
    """What lies below a folder, as `Objects` names it; files appear whole or not at all.

    Of several processes that create the same one, on any machine that shares the folder, one wins.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.url = self._base = str(self._folder)
        self._system = fsspec.filesystem("file")

    def write(self, name: str, data: bytes) -> None:
        path = self._made(name)
        replace_file(path, lambda partial: partial.write_bytes(data))

    def create(self, name: str, data: bytes) -> bool:
        try:
            create_file(self._made(name), data)
        except FileExistsError:
            return False
        return True

    def sizes(self, prefix: str = "") -> dict[str, int]:
        found = {}
        for root, _, names in os.walk(self._folder / prefix):
            for path in (Path(root, name) for name in names):
                with suppress(FileNotFoundError):  # another process has removed it meanwhile
                    found[path.relative_to(self._folder).as_posix()] = path.lstat().st_size
        return found

    def check_create(self) -> None:
        """Does nothing: a file system has links, which do not overwrite."""

    def _made(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def objects_in(place: str | Path) -> Objects:
    """The objects below a URL, or below a folder."""
    return Objects(str(place)) if is_url(place) else FolderObjects(Path(place).expanduser())
