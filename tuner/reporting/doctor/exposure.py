"""What of Ray runs here, what is left over, and what lets others in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from tuner.cluster import access
from tuner.cluster.sessions import Listener, Session, forgotten_folders, listeners, sessions
from tuner.reporting.doctor.finding import Finding


def check() -> Iterator[Finding]:
    """The sessions of ours, what the next one would let in, and what those that run do."""
    known = sessions()
    yield from of_sessions(known, forgotten_folders(known))
    yield _next_session()
    yield from of_listeners(listeners(known))


def of_node(listening: list[Listener]) -> Iterator[Finding]:
    """What of Ray listens on this machine, a node of a cluster.

    Ports that ask for a token are counted; of those that do not, the processes are named.
    """
    yield from of_listeners([each for each in listening if not each.token])
    reached = sum(each.token and each.is_open for each in listening)
    yield Finding("open", "ports", f"{reached} of Ray open to its network, with a token")


def of_sessions(known: list[Session], forgotten: list[Path]) -> Iterator[Finding]:
    """What runs, and what is left over: sessions without a driver, and forgotten folders."""
    if not known:
        yield Finding("Ray", "ours", "none is running")
    for session in sorted(known, key=lambda session: session.driver is None):
        processes = f"{len(session.pids)} processes"
        if session.driver:
            yield Finding("Ray", "running", f"{processes} of the driver {session.driver}")
        else:
            advice = f"end them: kill {' '.join(map(str, session.pids))}"
            found = f"{processes} whose driver is gone"
            yield Finding("Ray", "left over", found, "warning", advice)
    if forgotten:
        advice = f"remove them: rm -r {shlex.join(map(str, forgotten))}"
        found = f"{len(forgotten)} temporary folders whose driver is gone"
        yield Finding("Ray", "left over", found, "warning", advice)


def _next_session() -> Finding:
    """What the Ray that we would start lets in."""
    token = os.environ.get(access.AUTH_MODE, "token") == "token"
    found = f"would listen on 127.0.0.1 alone, on ports that are free then, {_who(token)}"
    advice = f"unset {access.AUTH_MODE}, so that each Ray of ours has a token of its own"
    return Finding("open", "our Ray", found, *(() if token else ("warning", advice)))


def of_listeners(listening: list[Listener]) -> Iterator[Finding]:
    """What those of one kind of process, on one address, let in."""
    alike: dict[tuple[str, str, bool], list[Listener]] = {}
    for each in listening:
        alike.setdefault((each.reach, each.process, each.token), []).append(each)
    yield from map(_open_to, alike.values())


def _open_to(alike: list[Listener]) -> Finding:
    one = alike[0]
    found = f"{one.process}, {_who(one.token)}: {', '.join(str(each.port) for each in alike)}"
    if one.token:
        return Finding("open", one.reach, found)
    who = "every machine that reaches it" if one.is_open else "every user of this machine"
    advice = f"{who} can run code in it: start it with {access.AUTH_MODE}=token"
    return Finding("open", one.reach, found, "warning", advice)


def _who(token: bool) -> str:
    return "with a token" if token else "without a token"
