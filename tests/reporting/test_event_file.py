import os
import socket

from tuner.reporting import event_file


def test_files_are_read_in_the_order_they_were_begun():
    names = [event_file.file_name(time) for time in (9.9, 1_700_000_000.5, 1_700_000_001)]
    assert names == sorted(names)
    assert names[1] == f"events.out.tfevents.1700000000.{socket.gethostname()}"


def test_what_is_appended_follows_what_is_there(tmp_path):
    for part in (b"one", b"two"):
        event_file.append(tmp_path / "file", part)
    assert (tmp_path / "file").read_bytes() == b"onetwo"


def test_a_file_is_replaced_whole_and_leaves_nothing_behind(tmp_path):
    event_file.replace(tmp_path / "file", b"old content")
    with (tmp_path / "file").open("rb") as reader:
        event_file.replace(tmp_path / "file", b"new")
        assert reader.read() == b"old content"  # who reads it reads on
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_plugin_is_told_is_read_back():
    data = event_file.version_record(time=1.0)
    data += event_file.plugin_record("hparams", {"a": b"1", "b": b"2"}, time=2.0)
    data += event_file.plugin_record("other", {"c": b"3"}, time=2.0)
    data += event_file.scalars_record({"loss": 0.5}, step=1, time=3.0)
    assert event_file.plugin_data(data, "hparams") == {"a": b"1", "b": b"2"}
