"""What of Ray runs here, what is left over, and what lets others in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from tuner.cluster import access
from tuner.cluster.sessions import Listener, Session, forgotten_folders, listeners, sessions
from tuner.doctor.finding import Finding


def check() -> Iterator[Finding]:
    """The sessions of ours, what the next one would let in, and what those that run do."""
    known = sessions()
    yield from _our_rays(known)
    yield from _open_ports(known)


def _our_rays(known: list[Session]) -> Iterator[Finding]:
    running = [session for session in known if session.driver]
    if not known:
        yield Finding("Ray", "ours", "none is running")
    for session in running:
        found = f"{len(session.pids)} processes of the driver {session.driver}"
        yield Finding("Ray", "running", found)
    for session in known:
        if session not in running:
            advice = f"end them: kill {' '.join(map(str, session.pids))}"
            found = f"{len(session.pids)} processes whose driver is gone"
            yield Finding("Ray", "left over", found, "warning", advice)
    if folders := forgotten_folders(known):
        advice = f"remove them: rm -r {' '.join(map(str, folders))}"
        found = f"{len(folders)} temporary folders whose driver is gone"
        yield Finding("Ray", "left over", found, "warning", advice)


def _open_ports(known: list[Session]) -> Iterator[Finding]:
    """What the Ray that we would start lets in, and what those that run do."""
    mode = os.environ.get(access.AUTH_MODE, "token")
    found = f"would listen on 127.0.0.1 alone, on ports that are free then, {_who(mode == 'token')}"
    if mode == "token":
        yield Finding("open", "our Ray", found)
    else:
        advice = f"unset {access.AUTH_MODE}, so that each Ray of ours has a token of its own"
        yield Finding("open", "our Ray", found, "warning", advice)
    yield from map(_open_to, _by_process(listeners(known)))


def on_a_node() -> Iterator[Finding]:
    """What of Ray listens on this machine, a node of a cluster.

    Ports that ask for a token are counted; of those that do not, the processes are named.
    """
    found = listeners(sessions())
    yield from map(_open_to, _by_process([each for each in found if not each.token]))
    reached = sum(each.token and each.is_open for each in found)
    yield Finding("open", "ports", f"{reached} of Ray open to its network, with a token")


def _by_process(found: list[Listener]) -> Iterable[list[Listener]]:
    """`found`, those of one kind of process on one address together."""
    alike: dict[tuple[str, str, bool], list[Listener]] = {}
    for listener in found:
        key = listener.reach, listener.process, listener.token
        alike.setdefault(key, []).append(listener)
    return alike.values()


def _open_to(alike: list[Listener]) -> Finding:
    """What listeners of one kind of process, on one address, let in."""
    one = alike[0]
    found = f"{one.process}, {_who(one.token)}: {', '.join(str(each.port) for each in alike)}"
    if one.token:
        return Finding("open", one.reach, found)
    who = "every machine that reaches it" if one.is_open else "every user of this machine"
    advice = f"{who} can run code in it: start it with {access.AUTH_MODE}=token"
    return Finding("open", one.reach, found, "warning", advice)


def _who(token: bool) -> str:
    return "with a token" if token else "without a token"
