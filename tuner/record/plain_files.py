"""Files of an experiment's folder, which may be someone else's: only plain ones are opened.

A link could lead a writer to any file of the user's; a pipe, a device, or a file that is said to be
huge could hold a reader for ever. So a file is opened only where it is a plain one, and before
anything is written into a folder that is there already, all that lies in it is looked at.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tuner.errors import UsageError

LARGEST = 64 << 20  # bytes of a document


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the file at `path`. Raises OSError, for what is not a plain file as well."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return fd


def read_plain(path: Path) -> bytes:
    """The bytes of a document. Raises OSError, for what is no plain file or too large as well."""
    with os.fdopen(open_plain(path), "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST >> 20} MiB", str(path))
    return data


def check_folder(folder: Path) -> None:
    """Raise UsageError where anything within `folder` is neither a plain file nor a folder.

    `folder` itself may be reached through links. To be called before writing into a folder that
    may be another's.
    """
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(Path(entry.path))
                    elif not entry.is_file(follow_symlinks=False):
                        what = "a symbolic link" if entry.is_symlink() else "no plain file"
                        raise UsageError(
                            f"{entry.path} is {what}: in an experiment's folder only plain files "
                            f"and folders are written to; nothing was changed"
                        )
        except FileNotFoundError:
            continue  # a driver that runs has removed it meanwhile
        except OSError as error:
            raise UsageError(f"cannot look through {error.filename}: {error.strerror}") from error
