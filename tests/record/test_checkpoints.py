import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import CheckpointError
from tuner.record.checkpoints import inside, verified
from tuner.record.digest import sha256_of
from tuner.record.history import CheckpointRecord


def test_a_checkpoint_is_what_was_written(tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"weights")
    record = CheckpointRecord(3, "state.pt", sha256_of(path))
    found = verified(tmp_path, record, "00001")
    assert (found.path, found.epoch) == (path, 3)
    path.write_bytes(b"other")
    with pytest.raises(CheckpointError, match="checkpoint of trial 00001, epoch 3 is not what was"):
        verified(tmp_path, record, "00001")
    path.unlink()
    with pytest.raises(CheckpointError, match="trial 00001, epoch 3 is missing: "):
        verified(tmp_path, record, "00001")


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "..",
        "../x",
        "trials/../../x",
        "trials/..",
        ".",
        "out/x",
        "out",
        "a\0b",
        "\ud800",
    ],
)
def test_a_path_that_leads_out_is_refused(tmp_path, name):
    folder = tmp_path / "experiment"
    (folder / "trials").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(CheckpointError, match="the journal names a"):
        inside(folder, name)


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(CheckpointError, match="the journal names a"):
        inside(tmp_path, "a/x")


@given(name=st.text(min_size=1))
def test_what_passes_is_inside(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        path = inside(folder, name)
    except CheckpointError:
        return
    assert path.resolve().is_relative_to(folder.resolve())
