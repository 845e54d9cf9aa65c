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

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.metadata import NULL_TENSOR
from tensorboard.summary.writer.record_writer import RecordWriter

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


def version_record(*, time: float) -> bytes:
    """What a file begins with."""
    return _record(wall_time=time, file_version=_VERSION)


def restart_record(*, step: int, time: float) -> bytes:
    """Makes readers drop what was written of `step` and later steps."""
    return _record(wall_time=time, step=step, session_log=SessionLog(status=SessionLog.START))


def scalars_record(scalars: Mapping[str, float], *, step: int, time: float) -> bytes:
    """One report; a float beyond 32 bits becomes infinite, as in every event file."""
    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
    return _record(wall_time=time, step=step, summary=Summary(value=values))


def plugin_record(plugin: str, contents: Mapping[str, bytes], *, time: float) -> bytes:
    """What a plugin of TensorBoard reads of a run, by its tags."""
    values = [
        Summary.Value(
            tag=tag,
            tensor=NULL_TENSOR,  # what a value has that only carries metadata
            metadata={"plugin_data": {"plugin_name": plugin, "content": content}},
        )
        for tag, content in contents.items()
    ]
    return _record(wall_time=time, summary=Summary(value=values))


def _record(**event: Any) -> bytes:
    buffer = BytesIO()
    RecordWriter(buffer).write(Event(**event).SerializeToString())
    return buffer.getvalue()
