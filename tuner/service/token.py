"""The token of `tuner serve`: a new one each time, unless the user sets or keeps one."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from tuner.errors import UsageError, translate_error
from tuner.experiment.files import create_file, open_plain
from tuner.places import state_folder

VARIABLE = "TUNER_SERVE_TOKEN"  # in the environment
LEAST, MOST = 32, 200  # characters

_PLAIN = re.compile(r"[A-Za-z0-9._~-]+")  # stands as it is in a URL, in a header and in a cookie
_RULE = f"must have {LEAST} to {MOST} characters, each a letter, a digit or one of - . _ ~"
_FILE = "serve-token"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BYTES = 32  # of a new one


def token_of(*, is_kept: bool) -> str:
    """That of the environment, else the one that is kept in a file of the user's, else a new one.

    is_kept: keep it in that file. What the environment has is taken out of it, so that no command
    that this process starts has it. Raises UsageError, which does not show it, where it could be
    guessed or is not the user's alone.
    """
    if given := os.environ.pop(VARIABLE, ""):
        return _checked(given, f"${VARIABLE}")
    return _kept(state_folder() / _FILE) if is_kept else _new()


def _new() -> str:
    return secrets.token_urlsafe(_BYTES)


def _kept(path: Path) -> str:
    """The token in the file at `path`, which is made where there is none."""
    with translate_error(UsageError, f"the token cannot be kept in {path}", of=OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            with suppress(FileExistsError):  # made by another server a moment ago
                create_file(path, _new().encode(), mode=0o600)
        with os.fdopen(open_plain(path), "rb") as file:
            found, data = os.fstat(file.fileno()), file.read(MOST + 2)
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        raise UsageError(
            f"{path} holds the token of `tuner serve`, and is not yours alone: remove it, and the "
            "next start makes a new one"
        )
    return _checked(data.decode("ascii", "replace").strip(), str(path))


def _checked(token: str, source: str) -> str:
    if LEAST <= len(token) <= MOST and _PLAIN.fullmatch(token):
        return token
    has = str(len(token)) if _PLAIN.fullmatch(token) else "others"
    make = "`openssl rand -hex 32` makes one"
    raise UsageError(f"the token in {source} {_RULE}; it has {has}: {make}")
