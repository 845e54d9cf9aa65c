"""What the log writer makes of a file: bounded, the beginning and the end kept, the gap counted."""

import os
import re
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.trial import log_writer
from tuner.trial.log_writer import append, serve

LIMIT = 40_000
GAP = re.compile(rb"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n")


@pytest.fixture
def file(tmp_path):
    fd = os.open(tmp_path / "log.txt", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def contents(fd):
    return os.pread(fd, 10**9, 0)


def test_what_fits_is_kept_as_it_is(file):
    for text in (b"one\n", b"two"):
        append(file, text, LIMIT)
    assert contents(file) == b"one\ntwo"


def test_the_middle_is_left_out_at_ends_of_lines(file):
    lines = [b"line %d\n" % number for number in range(20_000)]
    for line in lines:
        append(file, line, LIMIT)
    text = contents(file)
    assert len(text) <= LIMIT
    first, missing, last = GAP.split(text)
    kept = (first + b"\n" + last).splitlines(keepends=True)
    assert set(kept) <= set(lines)
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert int(missing) == sum(map(len, lines)) - len(first) - len(last)


@given(st.lists(st.binary(max_size=3 * LIMIT) | st.just(b"x" * 3 * LIMIT), max_size=12))
def test_the_size_is_bounded_and_every_byte_accounted_for(tmp_path_factory, chunks):
    fd = os.open(tmp_path_factory.mktemp("log") / "log.txt", os.O_RDWR | os.O_CREAT)
    written = b"".join(chunks)
    for chunk in chunks:
        append(fd, chunk, LIMIT)
    text = contents(fd)
    os.close(fd)
    assert len(text) <= max(LIMIT, 3 * LIMIT // 4 + 64)
    gap = GAP.search(text)
    if len(written) <= LIMIT:
        assert text == written
    else:
        assert written.startswith(text[: gap.start()])
        assert written.endswith(text[gap.end() :])
        assert int(gap[1]) + len(text) - len(gap[0]) == len(written)


def test_a_log_that_was_cut_before_is_counted_on(tmp_path):
    path = tmp_path / "log.txt"
    for _ in range(3):  # as a trial that is resumed
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        append(fd, b"x" * 79 * LIMIT + b"\n", LIMIT)
        os.close(fd)
    gaps = GAP.findall(path.read_bytes())
    assert len(gaps) == 1
    assert 3 * 79 * LIMIT - LIMIT < int(gaps[0]) < 3 * 79 * LIMIT


def test_a_disk_that_is_full_stops_nobody():
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=[theirs])
    thread.start()
    pipe, end = os.pipe()
    full = os.open("/dev/full", os.O_RDWR)
    socket.send_fds(ours, [log_writer.OPEN], [pipe, full])
    assert ours.recv(1) == log_writer.OPEN
    for _ in range(100):
        os.write(end, b"x" * 65_536)
    ours.sendall(log_writer.CATCH_UP)
    assert ours.recv(1) == log_writer.CATCH_UP
    for fd in (pipe, end, full):
        os.close(fd)
    ours.close()
    thread.join()
    theirs.close()


def test_to_catch_up_does_not_wait_for_output_that_came_at_the_same_time(file):
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    out, into = os.pipe()
    with ours:
        socket.send_fds(ours, [log_writer.OPEN], [out, file])
        ours.send(log_writer.CATCH_UP)
        os.write(into, b"said before it was asked")
        writer = threading.Thread(target=serve, args=(theirs,), daemon=True)
        writer.start()
        assert ours.recv(1) + ours.recv(1) == log_writer.OPEN + log_writer.CATCH_UP
        assert contents(file) == b"said before it was asked"
        os.close(into)
    writer.join(60)
    assert not writer.is_alive()
    theirs.close()
    os.close(out)
