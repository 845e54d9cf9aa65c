"""Event files, which TensorBoard reads: TFRecords of Event messages, appended or replaced whole.

tensorboardX gives the protocol buffers and the checksums. Its SummaryWriter is not used: it holds
a file, a queue and a thread a trial. Here a report is one record, appended and let go, so that
thousands of paused trials cost no descriptor, and a kill tears no record of another report.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX = "events.out.tfevents."

_VERSION = "brain.Event:2"


def file_name(time: float) -> str:
    """The name of a file begun at `time`: readers take a run's files in order of their names."""
    return f"{PREFIX}{int(time):010}.{socket.gethostname()}"


def append(path: Path, data: bytes) -> None:
    """Add `data` to the file, which is created where it is missing."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def replace(path: Path, data: bytes) -> None:
    """Write the file anew: a reader sees the old content or the new, never a part."""
    partial = path.with_name("tensorboard.partial")  # no name that TensorBoard would read
    partial.write_bytes(data)
    partial.replace(path)


def plugin_data(data: bytes, plugin: str) -> dict[str, bytes]:
    """What the content of a whole event file says to a plugin of TensorBoard, by tag.

    Raises ValueError where it is none.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboard.compat.proto.event_pb2 import Event

    found = {}
    at = 0
    try:
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            for value in Event.FromString(data[at + 12 : at + 12 + size]).summary.value:
                if value.metadata.plugin_data.plugin_name == plugin:
                    found[value.tag] = value.metadata.plugin_data.content
            at += 16 + size
    except (struct.error, DecodeError) as error:
        raise ValueError(f"no event file: {error}") from error
    return found


class Records:
    """Makes the records of an event file."""

    def __init__(self) -> None:
        with _torch_kept_out():
            from tensorboardX.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
            from tensorboardX.record_writer import masked_crc32c
        self._event = event_pb2
        self._summary = summary_pb2
        self._checksum = masked_crc32c
        empty = tensor_shape_pb2.TensorShapeProto(dim=[{"size": 0}])
        self._nothing = tensor_pb2.TensorProto(dtype="DT_FLOAT", tensor_shape=empty)

    def version(self, *, time: float) -> bytes:
        """What a file begins with."""
        return self._record(self._event.Event(wall_time=time, file_version=_VERSION))

    def restart(self, *, step: int, time: float) -> bytes:
        """Tells readers that what was written of `step` and later is taken back."""
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._record(self._event.Event(wall_time=time, step=step, session_log=start))

    def scalars(self, scalars: Mapping[str, float], *, step: int, time: float) -> bytes:
        """One report; a float beyond 32 bits becomes infinite, as in every event file."""
        values = [self._summary.Summary.Value(tag=t, simple_value=v) for t, v in scalars.items()]
        summary = self._summary.Summary(value=values)
        return self._record(self._event.Event(wall_time=time, step=step, summary=summary))

    def plugin_data(self, plugin: str, contents: Mapping[str, bytes], *, time: float) -> bytes:
        """What a plugin of TensorBoard reads of a run, by its tags."""
        values = [
            self._summary.Summary.Value(
                tag=tag,
                tensor=self._nothing,
                metadata={"plugin_data": {"plugin_name": plugin, "content": content}},
            )
            for tag, content in contents.items()
        ]
        summary = self._summary.Summary(value=values)
        return self._record(self._event.Event(wall_time=time, summary=summary))

    def _record(self, event: Any) -> bytes:
        data: bytes = event.SerializeToString()
        header = struct.pack("<Q", len(data))
        checks = (struct.pack("<I", self._checksum(part)) for part in (header, data))
        return b"".join((header, next(checks), data, next(checks)))


@contextmanager
def _torch_kept_out() -> Iterator[None]:
    """Let an import go without torch, which it would take if it could but does not need.

    tensorboardX imports torch where it is installed, for embeddings and graphs: 1-2 s and 180 MB
    in a driver that trains nothing. Not for use while another thread imports torch.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # what makes `import torch` fail
    try:
        yield
    finally:
        del sys.modules["torch"]
