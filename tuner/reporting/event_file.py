"""Event files, which TensorBoard reads: TFRecords of Event messages, appended or replaced whole.

The messages and the framing are TensorBoard's own. Its EventFileWriter is not used, since it holds
a file, a queue and a thread for each trial. Here a report is one record, appended at once, so that
thousands of paused trials cost no descriptor, and a kill tears no record of another report.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from io import BytesIO
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
    """The content, by tag, that a whole event file holds for a plugin of TensorBoard.

    Raises ValueError for data that is no event file.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboard.compat.proto.event_pb2 import Event

    contents = {}
    at = 0
    try:
        while at < len(data):  # 8 bytes of size, 4 of checksum, the message, 4 of checksum
            (size,) = struct.unpack_from("<Q", data, at)
            for value in Event.FromString(data[at + 12 : at + 12 + size]).summary.value:
                if value.metadata.plugin_data.plugin_name == plugin:
                    contents[value.tag] = value.metadata.plugin_data.content
            at += 16 + size
    except (struct.error, DecodeError) as error:
        raise ValueError(f"no event file: {error}") from error
    return contents


class Records:
    """Makes the records of an event file."""

    def __init__(self) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.plugins.hparams.metadata import NULL_TENSOR
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event = event_pb2
        self._summary = summary_pb2.Summary
        self._no_tensor = NULL_TENSOR  # what a value has that only carries metadata
        self._writer = RecordWriter

    def version(self, *, time: float) -> bytes:
        """The record that a file begins with."""
        return self._record(wall_time=time, file_version=_VERSION)

    def restart(self, *, step: int, time: float) -> bytes:
        """Makes readers drop what was written of `step` and later steps."""
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        return self._record(wall_time=time, step=step, session_log=start)

    def scalars(self, scalars: Mapping[str, float], *, step: int, time: float) -> bytes:
        """One report; a float beyond 32 bits becomes infinite, as in every event file."""
        values = [self._summary.Value(tag=t, simple_value=v) for t, v in scalars.items()]
        return self._record(wall_time=time, step=step, summary=self._summary(value=values))

    def plugin_data(self, plugin: str, contents: Mapping[str, bytes], *, time: float) -> bytes:
        """What a plugin of TensorBoard reads of a run, by its tags."""
        values = [
            self._summary.Value(
                tag=tag,
                tensor=self._no_tensor,
                metadata={"plugin_data": {"plugin_name": plugin, "content": content}},
            )
            for tag, content in contents.items()
        ]
        return self._record(wall_time=time, summary=self._summary(value=values))

    def _record(self, **event: Any) -> bytes:
        buffer = BytesIO()
        self._writer(buffer).write(self._event.Event(**event).SerializeToString())
        return buffer.getvalue()
