import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import CheckpointError
from tuner.experiment.checkpoints import inside, sha256_of
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.trials import CheckpointRecord


def test_checkpoint_refuses_altered_files(tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"weights")
    record = CheckpointRecord(3, "state.pt", sha256_of(path))
    checkpoint = ExperimentFolder(tmp_path).checkpoint(record, "00001")
    assert (checkpoint.path, checkpoint.epoch) == (path, 3)
    path.write_bytes(b"other")
    with pytest.raises(CheckpointError, match="checkpoint of trial 00001, epoch 3 is not what was"):
        ExperimentFolder(tmp_path).checkpoint(record, "00001")
    path.unlink()
    with pytest.raises(CheckpointError, match="trial 00001, epoch 3 is missing: "):
        ExperimentFolder(tmp_path).checkpoint(record, "00001")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "..", "trials/../../x", ".", "out/x", "a\0b", "\ud800"]
)
def test_inside_refuses_paths_that_lead_out(tmp_path, name):
    folder = tmp_path / "experiment"
    (folder / "trials").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="the journal names a"):
        inside(folder, name)


@given(name=st.text(min_size=1))
def test_inside_result_is_below_the_folder(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        path = inside(folder, name)
    except CheckpointError:
        return
    assert path.resolve().is_relative_to(folder.resolve())


FILES = {"a": b"1", "sub/b": b"2", "sub/deep/c": b""}


def lay(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@given(change=st.sampled_from(["content", "name", "more", "less", "moved"]))
def test_sha256_of_a_folder_changes_with_its_files(tmp_path_factory, change):
    files = dict(FILES)
    if change == "content":
        files["sub/b"] = b"3"
    elif change == "name":
        files["sub/B"] = files.pop("sub/b")
    elif change == "more":
        files["d"] = b""
    elif change == "less":
        del files["sub/deep/c"]
    else:
        files["b"] = files.pop("sub/b")
    folder = tmp_path_factory.mktemp("digest")
    assert sha256_of(lay(folder / "x", FILES)) != sha256_of(lay(folder / "y", files))


@pytest.mark.parametrize("target", ["/etc/hostname", "nowhere", "."])
def test_sha256_of_links_is_refused(tmp_path, target):
    lay(tmp_path, FILES)
    (tmp_path / "link").symlink_to(target)
    for path in (tmp_path / "link", tmp_path):
        with pytest.raises(CheckpointError, match="link is a symbolic link"):
            sha256_of(path)


def test_sha256_of_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="neither a plain file nor a folder"):
        sha256_of(tmp_path)
