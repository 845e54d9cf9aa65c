"""The names of failures, and the check of a report."""

import json
import re

import pytest
import torch

from tuner.errors import FAILURE_KINDS
from tuner.trial.failures import build_failure


class Unspeakable(RuntimeError):
    def __str__(self):
        return str(1 / 0)

    __repr__ = __str__


ERRORS = [
    ValueError("wrong shape:\n  3"),
    SystemExit(0),
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you"),
    RuntimeError("CUDA error: device-side assert triggered"),
    ValueError("ran out of memory cards"),
    Unspeakable(),
    *(
        torch.AcceleratorError(
            f"CUDA error: {text}\nCUDA kernel errors might be asynchronous"
        )
        for text in (
            "an illegal memory access was encountered",
            "unknown error",
            "the MPS client has been terminated by the server",
            "all CUDA-capable devices are busy or unavailable",
            "invalid argument",
            "no kernel image is available for execution on the device",
        )
    ),
]


def test_failure_of_exception_has_kind_and_one_line(snapshot):
    failures = [build_failure(error) for error in ERRORS]
    assert {failure.kind for failure in failures} <= {*FAILURE_KINDS}
    snapshot("\n".join(map(str, failures)))


def test_failure_of_long_message_is_cut():
    message = build_failure(ValueError("x" * 10_000)).message
    assert len(message) == 1000
    assert message.endswith("x...")


def wrap_error(error):
    outer = RuntimeError("cannot load the data")
    outer.__cause__ = error
    return outer


def build_missing(path):
    return FileNotFoundError(2, "No such file or directory", path)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (build_missing("data/a.pt"), True),
        (build_missing(b"data/a.pt"), True),
        (FileNotFoundError("[Errno 2] unable to open file: name = 'data/a.pt'"), True),
        (wrap_error(build_missing("data/a.pt")), True),
        (build_missing("data/b.pt"), False),
        (build_missing("/data/a.pt"), False),
        (build_missing("data/a.pt\0" + 300 * "a"), False),
        (ValueError("what is 'data/a.pt'?"), False),
    ],
)
def test_failure_of_file_where_the_search_began_names_start_dir(
    tmp_path, monkeypatch, error, hint
):
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
    assert re.search(
        r', at \S*test_failures\.py:\d+ in test_\w+: json\.loads\("\{"\)$', message
    )
