"""The names of failures, and the check of a report."""

import json
import re

import pytest
import torch

from tuner.errors import FAILURE_KINDS
from tuner.trial.failures import build_failure


@pytest.mark.parametrize(
    ("text", "poisons"),
    [
        ("an illegal memory access was encountered", True),
        ("unknown error", True),
        ("the MPS client has been terminated by the server", True),
        ("all CUDA-capable devices are busy or unavailable", True),
        ("invalid argument", False),
        ("no kernel image is available for execution on the device", False),
    ],
)
def test_some_cuda_errors_poison_the_process(text, poisons):
    error = torch.AcceleratorError(f"CUDA error: {text}\nCUDA kernel errors might be asynchronous")
    assert build_failure(error).poisoned == poisons


class Unspeakable(RuntimeError):
    def __str__(self):
        return str(1 / 0)

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("wrong shape:\n  3"), "exception", "ValueError: wrong shape: 3"),
        (SystemExit(0), "exception", "SystemExit: 0"),
        (MemoryError(), "oom", "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory."), "oom", "OutOfMemoryError: CUDA out of mem"),
        (RuntimeError("CUDA error: out of memory"), "oom", "RuntimeError: CUDA error: out of"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"), "oom", "RuntimeError: cuDNN"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "oom", "RuntimeError: D"),
        (RuntimeError("CUDA error: device-side assert triggered"), "exception", "RuntimeError: CU"),
        (ValueError("ran out of memory cards"), "exception", "ValueError: ran"),
        (Unspeakable(), "exception", "Unspeakable: (its text cannot be shown: ZeroDivisionError)"),
    ],
)
def test_failure_of_exception_has_kind_and_one_line(error, kind, message):
    failure = build_failure(error)
    assert failure.kind == kind
    assert failure.message.startswith(message)
    assert failure.kind in FAILURE_KINDS


def test_failure_of_long_message_is_cut():
    message = build_failure(ValueError("x" * 10_000)).message
    assert len(message) == 1000
    assert message.endswith("x...")


def wrapped(error):
    outer = RuntimeError("cannot load the data")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (FileNotFoundError(2, "No such file or directory", "data/a.pt"), True),
        (FileNotFoundError(2, "No such file or directory", b"data/a.pt"), True),
        (FileNotFoundError("[Errno 2] unable to open file: name = 'data/a.pt'"), True),
        (wrapped(FileNotFoundError(2, "No such file or directory", "data/a.pt")), True),
        (FileNotFoundError(2, "No such file or directory", "data/b.pt"), False),
        (FileNotFoundError(2, "No such file or directory", "/data/a.pt"), False),
        (FileNotFoundError(2, "No such file or directory", "data/a.pt\0" + 300 * "a"), False),
        (ValueError("what is 'data/a.pt'?"), False),
    ],
)
def test_failure_of_file_where_the_search_began_names_start_dir(tmp_path, monkeypatch, error, hint):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.pt").touch()
    monkeypatch.setenv("TUNER_START_DIR", str(tmp_path))
    text = "; data/a.pt lies where the search was started: open tuner.start_dir() / 'data/a.pt'"
    assert build_failure(error).message.endswith(text) is hint


def test_failure_of_ends_with_the_last_user_line():
    try:
        json.loads("{")
    except ValueError as error:
        message = build_failure(error).message
    assert message.startswith("JSONDecodeError: Expecting property name")
    assert re.search(r', at \S*test_failures\.py:\d+ in test_\w+: json\.loads\("\{"\)$', message)
