"""Who may talk to Ray: what is set in the environment of the Ray that we start, or join.

The Ray that we start listens on the loopback address alone, and takes requests only from those who
know its token: a file that only this user can read, in a folder that is removed with it. Ray's
processes and workers inherit where it lies.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

AUTH_MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # where off, as on these two, Ray stays on loopback

TEMPORARY = "/tmp"  # Ray's sockets lie below it, and a socket's path has at most 107 bytes
PREFIX = "tuner-"  # of our folders there

_TOKEN_FILE = "auth_token"
_ASK = "`ray get-auth-token` on its head shows the right one"
_GIVE = f"set {TOKEN_PATH} to its file, or {TOKEN}; {_ASK}"
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # over which a trial's ranks meet


def new_folder() -> str:
    """A new folder of ours for what a Ray has, that only this user can enter."""
    return tempfile.mkdtemp(prefix=PREFIX, dir=TEMPORARY)


def for_our_own(folder: Path) -> dict[str, str | None]:
    """The environment of a Ray that is ours, with a new token in `folder`; None: not to be set.

    A RAY_AUTH_MODE that the user has set stays.
    """
    token = folder / _TOKEN_FILE
    with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return {
        AUTH_MODE: os.environ.get(AUTH_MODE, "token"),
        TOKEN: None,  # it would win over the file, and is another cluster's
        TOKEN_PATH: str(token),
        CLUSTERS: "0",
        **{name: os.environ.get(name, _loopback()) for name in _INTERFACES},
    }


def has_token(folder: Path) -> bool:
    """Whether `folder` is one of a Ray that is, or was, ours."""
    return (folder / _TOKEN_FILE).is_file()


def for_others() -> dict[str, str | None]:
    """The environment to join a running cluster: a token that this user has is shown to it."""
    has = _told() is not None or _users_file().is_file()
    return {AUTH_MODE: "token"} if has and AUTH_MODE not in os.environ else {}


def token_fault() -> str | None:
    """Why the token that the user has set cannot be shown, and what to do; None if it can."""
    path = os.environ.get(TOKEN_PATH)
    if os.environ.get(AUTH_MODE) != "token" or os.environ.get(TOKEN):
        return None
    if path:
        try:
            empty = not Path(path).read_bytes().strip()
        except OSError as error:
            return f"{TOKEN_PATH} names {path}, which cannot be read: {error.strerror}; {_ASK}"
        return f"{TOKEN_PATH} names {path}, which is empty; {_ASK}" if empty else None
    if _users_file().is_file():
        return None
    return f"{AUTH_MODE}=token, but there is no token: {_GIVE}"


def refusal() -> str:
    """What it means that a cluster has not let us in, and what to do, to be put behind its name."""
    if os.environ.get(AUTH_MODE) == "token":
        source = _told() or f"{_users_file()}"
        return f"has another token than that of {source}: {_ASK}"
    if _told() or _users_file().is_file():
        return f"asks for a token, and {AUTH_MODE}={os.environ.get(AUTH_MODE)}: unset {AUTH_MODE}"
    return f"asks for a token, and none was shown: {_GIVE}"


def _told() -> str | None:
    """The variable with which the user has set a token."""
    return next((name for name in (TOKEN, TOKEN_PATH) if os.environ.get(name)), None)


def _users_file() -> Path:
    """Where Ray looks for a token if no variable tells."""
    return Path.home() / ".ray" / "auth_token"


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """`os.environ` with `changes` for as long as the context lasts, and Ray's view of it."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _tell_ray()


def _tell_ray() -> None:
    """Let Ray read again what it had read when it was imported."""
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    default = "0" if ray_constants.IS_WINDOWS_OR_OSX else "1"
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(CLUSTERS, default).lower() in ("1", "true")
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _loopback() -> str:
    """The name of the loopback interface: lo, or lo0 on macOS."""
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
