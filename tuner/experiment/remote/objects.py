"""Objects below a URL, by fsspec (S3, Google Cloud Storage, Azure, ...), or in a folder.

Objects appear atomically, and of several writers `create` lets one win. Every failure is an
OSError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from tuner.errors import UsageError, describe_error, translate_error
from tuner.experiment.files import create_file, replace_file, walk_files
from tuner.places import is_url

T = TypeVar("T")

PATIENCE_S = 60.0  # with a store that fails
_PAUSE_S = 0.5  # before the next try; doubled each time
_CHECKED: set[str] = set()  # the URLs whose store creates what is new alone
_FOLDERS = ("file", "local")  # fsspec cannot create a file there atomically
_INSTALL = {
    "s3": "tuner[s3]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
}


class Objects:
    """What lies below `url`, by relative POSIX paths. Raises UsageError for an unknown scheme."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._system, self._base = _open_system(self.url)

    @contextmanager
    def translate_errors(self) -> Iterator[Self]:
        """These objects; what the store refuses is a UsageError."""
        with translate_error(UsageError, f"cannot reach {self.url}", of=OSError):
            yield self

    def read(self, name: str) -> bytes:
        """The bytes of an object; FileNotFoundError if there is none."""
        with _convert_errors():
            data: bytes = self._system.cat_file(self._resolve_path(name))
        return data

    def write(self, name: str, data: bytes) -> None:
        with _convert_errors():
            self._system.pipe_file(self._resolve_path(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; False if it exists. The store decides (S3: a conditional put).

        The name or `data` has a nonce. A client that gets no answer writes again, so an object that
        holds `data` is this writer's.
        """
        with _convert_errors():
            try:
                self._system.pipe_file(self._resolve_path(name), data, mode="create")
            except FileExistsError:
                return self._has_content(name, data)
            except OSError:  # not every store says that a condition failed
                if not self.has(name):
                    raise
                return self._has_content(name, data)
        return True

    def _has_content(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name) == data
        except FileNotFoundError:  # its writer has removed it since
            return False

    def check_create(self) -> None:
        """Raise UsageError if `create` overwrites, checked once a process."""
        if self.url in _CHECKED:
            return
        name = f".probe-{uuid4().hex}"
        self.create(name, b"1")
        overwritten = self.create(name, b"2")
        self.remove(name)
        if overwritten:
            raise UsageError(
                f"{self.url}: this store writes over an object that must be new (it does not heed "
                f"If-None-Match), so that two drivers would not notice each other; take another"
            )
        _CHECKED.add(self.url)

    def has(self, name: str) -> bool:
        with _convert_errors():
            try:  # fsspec's own `isfile` is False if the store fails, too
                return bool(
                    self._system.info(self._resolve_path(name))["type"] == "file"
                )
            except FileNotFoundError:
                return False

    def list_names(self, prefix: str = "") -> list[str]:
        return sorted(self.list_sizes(prefix))

    def list_sizes(self, prefix: str = "") -> dict[str, int]:
        """The size in bytes of each object below the folder `prefix`, by name."""
        with _convert_errors():
            try:
                entries = self._system.find(self._resolve_path(prefix), detail=True)
            except FileNotFoundError:
                return {}
        start = len(self._resolve_path("")) + 1
        return {
            path[start:]: entry["size"]
            for path, entry in entries.items()
            if path[start:]
        }

    def list_folders(self) -> list[str]:
        """The names of the folders right below the URL, in order."""
        with _convert_errors():
            try:
                entries = self._system.ls(self._resolve_path(""), detail=True)
            except FileNotFoundError:
                return []
        kinds = [entry for entry in entries if entry["type"] == "directory"]
        return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in kinds)

    def upload(self, path: Path, name: str) -> None:
        with _convert_errors():
            self._system.put_file(str(path), self._resolve_path(name))

    def download(self, name: str, path: Path) -> None:
        """Write an object to `path`, whole or not at all; FileNotFoundError if there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with _convert_errors():
            replace_file(
                path,
                lambda new: self._system.get_file(self._resolve_path(name), str(new)),
            )

    def remove(self, name: str) -> None:
        """Remove an object, or all below a folder of that name; it may be missing."""
        with _convert_errors(), suppress(FileNotFoundError):
            self._system.rm(self._resolve_path(name), recursive=True)

    def _resolve_path(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base


def retry(
    ask: Callable[[], T],
    *,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """The result of `ask`, retried for `patience_s` if the store fails.

    Raises the last OSError; FileNotFoundError and PermissionError at once.
    """
    pause = _PAUSE_S
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:
            if time.monotonic() + pause > deadline:
                raise
        sleep(pause)
        pause *= 2


@lru_cache(maxsize=64)
def _open_system(url: str) -> tuple[Any, str]:
    import fsspec

    scheme = url.partition(":")[0]
    if scheme in _FOLDERS:
        raise UsageError(
            f"a storage that is a folder is given by its path, got {url!r}"
        )
    try:
        system, base = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = _INSTALL.get(scheme)
        do = f"pip install '{package}'" if package else str(error)
        raise UsageError(f"a storage of {scheme}:// needs a package: {do}") from None
    except ValueError as error:
        forms = "a folder, s3://bucket/folder, gs://..., az://..."
        raise UsageError(f"no storage {url!r}: {error}; forms: {forms}") from None
    except OSError as error:  # a library of the system is missing
        reason = describe_error(error).partition("\n")[0]
        raise UsageError(
            f"a storage of {scheme}:// does not work here: {reason}"
        ) from None
    return system, base.rstrip("/")


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Turn every error into an OSError with a `strerror`: stores have errors of many kinds."""
    try:
        yield
    except OSError as error:
        if error.strerror:
            raise
        raise type(error)(error.errno or 0, describe_error(error)) from error
    except Exception as error:
        raise OSError(0, describe_error(error)) from error


class FolderObjects(Objects):
    """Objects in a folder, also one that machines share; `create` lets one writer win."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.url = self._base = str(self._folder)
        import fsspec

        self._system = fsspec.filesystem("file", auto_mkdir=True)

    def write(self, name: str, data: bytes) -> None:
        path = self._create_parents(name)
        replace_file(path, lambda partial: partial.write_bytes(data))

    def create(self, name: str, data: bytes) -> bool:
        try:
            create_file(self._create_parents(name), data)
        except FileExistsError:
            return False
        return True

    def list_sizes(self, prefix: str = "") -> dict[str, int]:
        sizes = {}
        for name, path in walk_files(self._folder, prefix):
            with suppress(FileNotFoundError):
                # Another process has removed it meanwhile
                sizes[name] = path.lstat().st_size
        return sizes

    def check_create(self) -> None:
        """Does nothing: a file system has links, which do not overwrite."""

    def _create_parents(self, name: str) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def open_objects(storage: str | Path) -> Objects:
    return (
        Objects(str(storage))
        if is_url(storage)
        else FolderObjects(Path(storage).expanduser())
    )
