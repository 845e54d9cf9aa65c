"""Writes what trials print into their logs, capped; a process of its own beside each worker.

A worker's output reaches it through a pipe. So a crash loses nothing that was printed before it,
code that holds the interpreter's lock cannot block on a full pipe, and no disk is flooded.

This file is run by its path and uses the standard library alone, so that it starts in
milliseconds. Over a socket the worker sends it a pipe and an open file for each trial, or a request
to catch up; each message is answered by one byte.
"""

from __future__ import annotations

import array
import fcntl
import os
import re
import selectors
import signal
import socket
import sys
import termios
import time
from contextlib import suppress

OPEN = b"o"  # a trial's pipe and file come with it
CATCH_UP = b"c"

LIMIT = 1 << 20  # bytes of a log
_CHUNK = 1 << 18  # bytes read at a time
_REST_S = 0.002  # pause after a read of little, so that the next one is of more
_LINE = 4096  # bytes within which a cut looks for the end of a line
_MARK = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


def append(file: int, data: bytes, limit: int = LIMIT) -> None:
    """Add `data` at the end of the open `file`; past `limit` bytes its middle is cut out.

    The first half and the last quarter of `limit` stay, with a line between them that says how many
    bytes are missing. Several processes may append to one file.
    """
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        size += os.write(file, data)
        if size > limit:
            _cut(file, size, first=limit // 2, last=limit // 4)
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _cut(file: int, size: int, *, first: int, last: int) -> None:
    head = os.pread(file, first + 64, 0)
    cut_before = _MARK.search(head, max(0, first - _LINE - 1))
    if cut_before:
        start, resumes, missing = cut_before.start(), cut_before.end(), int(cut_before[1])
    else:
        line_end = head.rfind(b"\n", max(0, first - _LINE), first)
        start = resumes = line_end if line_end > 0 else first
        missing = 0
    tail = os.pread(file, last, size - last)
    tail = tail[tail.find(b"\n", 0, _LINE) + 1 :]
    missing += size - len(tail) - resumes
    text = b"\n[... %d bytes left out ...]\n" % missing + tail
    os.pwrite(file, text, start)  # in place, which works on a full disk, too
    os.ftruncate(file, start + len(text))


def serve(control: socket.socket) -> None:
    """Serve one worker until it is gone and all that it and its children wrote is in the files."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while selector.get_map():
            copied = 0
            # The worker last: to catch up empties a pipe, and a read of it would then wait
            for key, _ in sorted(selector.select(), key=lambda event: event[0].fileobj is control):
                if key.fileobj is control:
                    if not _answer(control, selector):
                        selector.unregister(control)
                elif count := _copy(key.fd, key.data, _CHUNK):
                    copied = max(copied, count)
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    os.close(key.data)
            if 0 < copied < _CHUNK:
                time.sleep(_REST_S)


def _answer(control: socket.socket, selector: selectors.BaseSelector) -> bool:
    """Do what the worker requests; False where it is gone."""
    try:
        request, fds, _, _ = socket.recv_fds(control, 1, 2)
        if request == OPEN:
            pipe, file = fds
            selector.register(pipe, selectors.EVENT_READ, file)
        elif request == CATCH_UP:
            for key in list(selector.get_map().values()):
                if key.fileobj is not control and (waiting := _waiting(key.fd)):
                    _copy(key.fd, key.data, waiting)
        else:
            return False
        control.sendall(request)
    except ConnectionError:
        return False
    return True


def _waiting(pipe: int) -> int:
    """The number of bytes in the pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def _copy(pipe: int, file: int, most: int) -> int:
    """Copy at most `most` bytes from the pipe to the file; their number, 0 at the pipe's end."""
    data = os.read(pipe, most)
    if data:
        with suppress(OSError):  # a full disk: the output is lost, but the trial goes on
            append(file, data)
    return len(data)


def main(fd: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the pipes do
    if os.fork():
        os._exit(0)  # Ray kills a worker's children with it, before they have read all
    serve(socket.socket(fileno=fd))


if __name__ == "__main__":
    main(int(sys.argv[1]))
