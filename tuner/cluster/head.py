"""The head of a running cluster: whether this process can join it, and whether it still answers.

Ray itself waits up to a minute for a missing head, and then names one of many causes. It ends a
driver whose head has been gone for a minute, without saying how to resume.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tuner import ray_compat
from tuner.cluster import access
from tuner.errors import UsageError, describe_error, translate_error
from tuner.wording import find_program

PATIENCE_S = 10.0  # for each answer

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # the type of the frame with which every gRPC server begins its answer
_PORTS = "Ray's head listens on 6379 by default; 8265 is its dashboard's port, 10001 Ray Client's"

_POLL_S = 1.0
_ANSWER_S = 5.0
# Its machine is there, Ray is not: time for a head that is being restarted
_REFUSED_S = 10.0
_SILENT_S = 45.0  # nothing is there: a network may come back


def resolve_head(address: str) -> str:
    """HOST:PORT of the head that `address` means: HOST:PORT, or `auto` for this machine's cluster.

    `auto` is $RAY_ADDRESS, else the cluster that `ray start` has joined this machine to. Raises
    UsageError for what is no address, and unless there is exactly one cluster here.
    """
    if address == "auto":
        no_auto = "--address auto needs one Ray cluster that runs on this machine, or RAY_ADDRESS"
        with translate_error(UsageError, no_auto, of=ConnectionError):
            address = ray_compat.find_cluster() or os.environ.get("RAY_ADDRESS", "")
        if not address:
            raise UsageError(no_auto)
    host, separator, port = address.rpartition(":")
    if (
        not (separator and host and port.isdecimal() and 0 < int(port) < 65536)
        or "://" in address
    ):
        raise UsageError(
            f"--address takes local, auto or HOST:PORT of the cluster's head, got {address!r}: "
            f"{_PORTS}; to send the search there as a job, use `{find_program()} submit`"
        )
    return address


def check_head(head: str, internals: Any = ray_compat) -> None:
    """Make sure that this process can join the cluster at `head`.

    Call it in the environment of `access.create_join_environment`. internals: those of Ray, for
    tests. Raises UsageError with what to do if nothing answers in time, it is no Ray head, the
    token is missing or wrong, or this machine is not a node of the cluster. Ray itself compares
    the versions.
    """
    _check_reachable(head)
    if problem := access.find_token_problem() or _find_problem(head, internals):
        raise UsageError(problem)


def _open_connection(head: str, limit_s: float) -> socket.socket:
    host, _, port = head.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), limit_s)


def _check_reachable(head: str) -> None:
    try:
        with _open_connection(head, PATIENCE_S) as connection:
            if os.environ.get("RAY_USE_TLS") != "1" and not _is_grpc_server(connection):
                raise UsageError(f"what listens at {head} is no Ray head: {_PORTS}")
    except OSError as error:
        raise UsageError(
            f"{head} cannot be reached ({describe_error(error)}): check the address, that the "
            "head runs (ray start --head), and that a firewall or VPN lets you reach it. "
            f"{_PORTS}. From outside of its network send the search as a job: {find_program()} "
            "submit"
        ) from error


def _is_grpc_server(connection: socket.socket) -> bool:
    try:
        connection.sendall(_PREFACE)
        answer = connection.recv(9)
    except OSError:  # it was closed, or nothing came
        return False
    return len(answer) > 3 and answer[3] == _SETTINGS


def _find_problem(head: str, internals: Any) -> str | None:
    from ray.exceptions import AuthenticationError, RpcError

    try:
        with _hide_stderr():
            is_node = internals.has_node_here(head, PATIENCE_S)
    except AuthenticationError:
        return f"the cluster at {head} {access.describe_refusal()}"
    except RpcError as error:
        return f"what listens at {head} does not answer as Ray's head does ({error}): {_PORTS}"
    if is_node:
        return None
    return (
        f"this machine is no node of the cluster at {head}: start the search on a node, send it as "
        f"a job (`{find_program()} submit`), or add this machine as a node that runs no trials: "
        f"ray start --address {head} --num-cpus 0 --num-gpus 0"
    )


@contextmanager
def _hide_stderr() -> Iterator[None]:
    """Hide what Ray's C++ writes to stderr: the exception has it, too."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def watch_head(
    head: str,
    on_loss: Callable[[], object],
    over: threading.Event,
    *,
    poll_s: float = _POLL_S,
    refused_s: float = _REFUSED_S,
    silent_s: float = _SILENT_S,
    connect: Callable[[str, float], socket.socket] = _open_connection,
) -> None:
    """Connect to the head again and again until it is lost, or the watch is over."""
    missing_since: float | None = None
    while not over.wait(poll_s):
        try:
            connect(head, _ANSWER_S).close()
            missing_since = None
        except OSError as error:
            now = time.monotonic()
            missing_since = now if missing_since is None else missing_since
            patience_s = (
                refused_s if isinstance(error, ConnectionRefusedError) else silent_s
            )
            if now - missing_since >= patience_s:
                on_loss()
                return
