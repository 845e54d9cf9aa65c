"""Access to Ray: the environment variables of a local Ray, and of a cluster that is joined.

A local Ray listens on the loopback address alone, and needs a token. The token is in a file that
only this user can read, in a folder that is removed at the end. Ray's processes inherit its path.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner import ray_compat
from tuner.trial.context import build_interface_variables

AUTH_MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"

# Ray's sockets lie below it, and a socket's path has at most 107 bytes
TEMPORARY = "/tmp"
PREFIX = "tuner-"  # of our folders there

_TOKEN_FILE = "auth_token"
_SET_IT = f"set {TOKEN_PATH} to its file, or {TOKEN}; `ray get-auth-token` on the head shows it"

Changes = Mapping[str, str | None]  # to environment variables; None: not to be set


def create_local_environment(folder: Path) -> Changes:
    """The environment of a local Ray, with a new token in `folder`.

    A RAY_AUTH_MODE that the user has set stays. Raises FileExistsError if there is a token.
    """
    token = folder / _TOKEN_FILE
    with os.fdopen(
        os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
    ) as file:
        file.write(secrets.token_hex(32))
    loopback = next(
        (name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo"
    )
    return {
        AUTH_MODE: os.environ.get(AUTH_MODE, "token"),
        TOKEN: None,  # it would win over the file, and is another cluster's
        TOKEN_PATH: str(token),
        ray_compat.CLUSTERS: "0",
        **{
            n: os.environ.get(n, name)
            for n, name in build_interface_variables(loopback).items()
        },
    }


def create_join_environment() -> Changes:
    """The environment to join a running cluster: with the token of this user, if there is one."""
    has_token = (
        os.environ.get(TOKEN)
        or os.environ.get(TOKEN_PATH)
        or _find_token_file().is_file()
    )
    return {AUTH_MODE: "token"} if has_token and AUTH_MODE not in os.environ else {}


def find_token_problem() -> str | None:
    """Why the user's token cannot be used, and what to do, or None."""
    if os.environ.get(AUTH_MODE) != "token" or os.environ.get(TOKEN):
        return None
    with suppress(OSError):
        if _find_token_file().read_bytes().strip():
            return None
    return (
        f"{AUTH_MODE}=token, but there is no token in {_find_token_file()}: {_SET_IT}"
    )


def describe_refusal() -> str:
    """Why a cluster refuses this user, and what to do: a clause that follows the cluster's name."""
    if os.environ.get(AUTH_MODE) == "token":
        source = TOKEN if os.environ.get(TOKEN) else _find_token_file()
        return f"has another token than that of {source}: {_SET_IT}"
    return (
        f"asks for a token, and none was shown: {_SET_IT}, and do not set {AUTH_MODE}"
    )


def _find_token_file() -> Path:
    return Path(os.environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")


@contextmanager
def set_environment(changes: Changes) -> Iterator[None]:
    """`os.environ` with `changes` for as long as the context lasts, and Ray's view of it."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(changes: Changes) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    ray_compat.reload_settings()
