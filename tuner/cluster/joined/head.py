"""Asks the head of a running cluster whether this process can join it, before Ray is started here.

Ray itself waits up to a minute for a head that is not there, and then names one of many causes.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tuner.cluster import access
from tuner.errors import UsageError
from tuner.wording import program

PATIENCE_S = 10.0  # for each answer

_METADATA = (b"CLUSTER_METADATA", b"cluster")  # key and namespace of Ray's own record
_PYTHON_LEVEL = "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"  # how far Ray wants Pythons to be equal
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # the type of the frame with which every gRPC server begins its answer
_PORTS = "Ray's head listens on 6379 by default; 8265 is its dashboard's port, 10001 Ray Client's"


def head_of(address: str) -> str:
    """HOST:PORT of the head that `address` means: HOST:PORT, or `auto` for this machine's cluster.

    `auto` takes $RAY_ADDRESS, else the cluster that `ray start` has joined this machine to. Raises
    UsageError for what is no address, and where there is no cluster.
    """
    if address == "auto":
        address = _of_this_machine()
    scheme, separator, _ = address.partition("://")
    if separator:
        what = f"--address takes HOST:PORT of the cluster's head, got {address!r}"
        if scheme == "ray":
            raise UsageError(f"{what}: a search cannot run over Ray Client ({_PORTS})")
        raise UsageError(f"{what}: to send the search there as a job, use `{program()} submit`")
    host, separator, port = address.rpartition(":")
    if not (separator and host and port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"--address takes local, auto or HOST:PORT, got {address!r}: {_PORTS}")
    return address


def _of_this_machine() -> str:
    from ray._private.services import canonicalize_bootstrap_address_or_die

    try:
        return str(canonicalize_bootstrap_address_or_die("auto"))
    except ConnectionError as error:
        several = "multiple" in str(error)
        what = "several Ray clusters run" if several else "no Ray cluster runs"
        do = "give --address HOST:PORT of its head, or set RAY_ADDRESS"
        raise UsageError(f"{what} on this machine, so --address auto means none: {do}") from error


def ask(head: str) -> str:
    """Make sure that this process can join the cluster at `head`; our own address, seen from it.

    To be called with the environment of `access.for_others`. Raises UsageError with what to do
    where nobody answers in time, where it is no Ray, where the token is missing or another one,
    and where Ray or Python is of another version.
    """
    ours = _reach(head)
    fault = access.token_fault() or _fault(head)
    if fault:
        raise UsageError(fault)
    return ours


def _reach(head: str) -> str:
    """Our address on the way to `head`, where a gRPC server answers."""
    host, _, port = head.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S) as connection:
            if os.environ.get("RAY_USE_TLS") != "1" and not _speaks_grpc(connection):
                raise UsageError(f"what listens at {head} is no Ray head: {_PORTS}")
            return str(connection.getsockname()[0])
    except socket.gaierror as error:
        do = "check how it is written, or give its IP address"
        raise UsageError(f"no machine is known as {host!r}: {do}") from error
    except ConnectionRefusedError as error:
        do = f"start the head there (ray start --head), or give its port ({_PORTS})"
        raise UsageError(f"{host} is there, but nothing listens on port {port}: {do}") from error
    except OSError as error:
        reason = error.strerror or f"no answer in {PATIENCE_S:g} s"
        do = (
            "check that it runs and that a firewall or VPN lets you reach it; from outside of its "
            f"network send the search as a job: {program()} submit"
        )
        raise UsageError(f"{head} cannot be reached ({reason}): {do}") from error


def _speaks_grpc(connection: socket.socket) -> bool:
    try:
        connection.sendall(_PREFACE)
        answer = connection.recv(9)
    except OSError:  # it was closed, or nothing came
        return False
    return len(answer) > 3 and answer[3] == _SETTINGS


def _fault(head: str) -> str | None:
    """Why Ray would not let this process join; None where it would."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.exceptions import AuthenticationError, RpcError

    try:
        with _silent_stderr():
            client = GcsClient(head)
            metadata = client.internal_kv_get(*_METADATA, timeout=PATIENCE_S)
    except AuthenticationError:
        return f"the cluster at {head} {access.refusal()}"
    except RpcError as error:
        return f"what listens at {head} does not answer as Ray's head does ({error}): {_PORTS}"
    return version_fault(head, json.loads(metadata or "{}"), versions())


def versions() -> dict[str, str]:
    """The versions that must be the cluster's, under Ray's names for them."""
    import ray

    return {
        "ray_version": ray.__version__,
        "python_version": ".".join(map(str, sys.version_info[:3])),
    }


def version_fault(head: str, theirs: Mapping[str, Any], ours: Mapping[str, str]) -> str | None:
    """Which version differs between the cluster and here, and what to do; None if none does.

    What a cluster does not tell of itself is taken for equal. Of Python, the patch release counts
    unless RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL is "minor", as for Ray.
    """
    ray, python = theirs.get("ray_version"), theirs.get("python_version")
    if ray and ray != ours["ray_version"]:
        return (
            f"the cluster at {head} runs Ray {ray}, and here is {ours['ray_version']}; they must "
            f"be equal: install it here (pip install 'ray[tune]=={ray}'), or start the cluster "
            f"with {ours['ray_version']}"
        )
    parts = 2 if os.environ.get(_PYTHON_LEVEL) == "minor" else 3
    if python and python.split(".")[:parts] != ours["python_version"].split(".")[:parts]:
        return (
            f"the cluster at {head} runs Python {python}, and here is {ours['python_version']}; "
            f"they must be equal: make an environment with Python {python} here (a container of "
            f"the cluster's image has it), or set {_PYTHON_LEVEL}=minor where only the last number "
            "differs"
        )
    return None


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Keep what Ray's C++ says from the user: the exception has it, too."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
