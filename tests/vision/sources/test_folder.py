"""A folder of images: what is listed, and what is refused with the rule that it breaks."""

import photos
import pytest

from tuner.settings import FaultsError
from tuner.vision.sources.folder import find, outline


@pytest.fixture
def folder(tmp_path):
    return photos.write(tmp_path / "photos")


def refused(place):
    with pytest.raises(FaultsError) as error:
        outline(str(place))
    return str(error.value)


def test_the_classes_and_counts_are_those_of_the_sub_folders(folder):
    (folder / "rose" / "deeper").mkdir()
    (folder / "rose" / "0001.jpg").rename(folder / "rose" / "deeper" / "b.JPG")
    (folder / "rose" / "notes.txt").write_text("no image")
    (folder / "rose" / "._0001.jpg").write_text("what a Mac leaves")
    (folder / ".ipynb_checkpoints").mkdir()
    found = outline(str(folder))
    assert found.classes == photos.CLASSES
    assert found.counts == {"train": (10, 10, 10), "validation": (0, 0, 0), "test": (0, 0, 0)}
    assert (found.channels, found.image_size) == (3, 40)


def test_splits_that_are_there_are_taken(tmp_path):
    for name, each in (("train", 6), ("valid", 2), ("test", 3)):
        photos.write(tmp_path / name, each=each)
    assert outline(str(tmp_path)).counts == {
        "train": (6, 6, 6),
        "validation": (2, 2, 2),
        "test": (3, 3, 3),
    }
    images = find(str(tmp_path), tmp_path)
    assert images.splits_N.tolist() == [2] * 9 + [0] * 18 + [1] * 6
    assert images.name_of(0) == str(tmp_path / "test" / "daisy" / "0000.jpg")
    with images.read(0) as image:
        assert image.size == (48, 40)


def test_folders_called_as_others_call_splits_are_these(tmp_path):
    photos.write(tmp_path / "Training", each=4)
    photos.write(tmp_path / "Testing", each=2)
    assert outline(str(tmp_path)).counts == {
        "train": (4, 4, 4),
        "validation": (0, 0, 0),
        "test": (2, 2, 2),
    }


def test_a_class_may_be_called_as_a_split(tmp_path):
    photos.write(tmp_path, classes=("bus", "test", "train"))
    assert outline(str(tmp_path)).classes == ("bus", "test", "train")


def test_files_that_are_left_out_are_told(folder):
    assert outline(str(folder)).doubts == ()
    (folder / "rose" / "a.heic").write_text("x")
    (folder / "rose" / "b.HEIC").write_text("x")
    (folder / "rose" / "._b.HEIC").write_text("what a Mac leaves")
    (folder / "tulip" / "LICENSE").write_text("x")
    (folder / "rose" / "0000.jpg").rename(folder / "stray.jpg")
    [told] = outline(str(folder)).doubts
    assert told.startswith(f"4 files in {folder} left out: 2 .heic, 1 outside of the folders of ")
    assert told.endswith("classes, 1 without a suffix")


def test_classes_that_may_be_a_level_deeper_are_told(tmp_path):
    photos.write(tmp_path / "training_set", each=4)
    photos.write(tmp_path / "test_set", each=2)
    [told] = outline(str(tmp_path)).doubts
    assert told.endswith("as test_set/daisy/0000.jpg: are the classes the deeper folders?")
    (tmp_path / "test_set" / "0.jpg").write_bytes(b"no image")
    assert outline(str(tmp_path)).doubts == ()
    photos.write(tmp_path / "whole" / "train" / "all", each=4)
    assert "has one class, all; if the folders in it are" in refused(tmp_path / "whole")


def test_what_changes_the_files_changes_the_fingerprint(folder):
    before = find(str(folder), folder).fingerprint
    assert find(str(folder), folder).fingerprint == before
    (folder / "rose" / "0003.jpg").write_bytes(b"another")
    changed = find(str(folder), folder).fingerprint
    (folder / "rose" / "0003.jpg").rename(folder / "tulip" / "9.jpg")
    assert len({before, changed, find(str(folder), folder).fingerprint}) == 3


def test_a_folder_that_is_missing_is_told_with_the_nearest(folder):
    told = refused(folder.parent / "phots")
    assert f"no folder {folder.parent / 'phots'} (did you mean 'photos'?)" in told
    file = folder / "rose" / "0000.jpg"
    assert "must be a folder, with a sub-folder of images for each class" in refused(file)


def test_what_cannot_be_trained_on_is_told(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    assert "must have at least two classes, and has none" in refused(tmp_path / "empty")
    alone = photos.write(tmp_path / "alone", classes=("daisy",))
    assert "at least two classes, and has daisy" in refused(alone)
    (folder / "lily").mkdir()
    assert "class 'lily' has no images, it is empty" in refused(folder)
    (folder / "lily" / "a.heic").write_text("x")
    assert "class 'lily' has no images, and its files end in .heic" in refused(folder)


def test_mixed_layouts_are_refused(tmp_path):
    photos.write(tmp_path / "train")
    photos.write(tmp_path / "val")
    photos.write(tmp_path / "valid")
    assert "has two folders of one split: train, val, valid" in refused(tmp_path)
    (tmp_path / "valid").rename(tmp_path / "extra")
    assert "has `train` beside what is no split: extra" in refused(tmp_path)
    (tmp_path / "extra").rename(tmp_path / ".extra")
    (tmp_path / "val" / "rose").rename(tmp_path / "val" / "lily")
    assert "has classes without a training image: lily" in refused(tmp_path)
    (tmp_path / "train").rename(tmp_path / "test")
    assert "has no `train` beside test, val" in refused(tmp_path)


def test_links_lead_nowhere_else(tmp_path, folder):
    (tmp_path / "private.jpg").write_bytes((folder / "rose" / "0000.jpg").read_bytes())
    (folder / "rose" / "x.jpg").symlink_to(folder / "rose" / "0001.jpg")
    assert outline(str(folder)).counts["train"] == (10, 11, 10)
    (folder / "rose" / "y.jpg").symlink_to(tmp_path / "private.jpg")
    assert "has a symbolic link that leads out of the folder" in refused(folder)
    (folder / "rose" / "y.jpg").unlink()
    (folder / "lily").symlink_to(folder / "rose")
    assert "has a symbolic link to a folder, which is not followed" in refused(folder)
    (folder / "lily").rename(folder / "rose" / "deeper")
    assert "rose/deeper" in refused(folder)


def test_a_broken_link_and_a_folder_that_cannot_be_read_are_told(folder, monkeypatch):
    (folder / "rose" / "y.jpg").symlink_to(folder / "rose" / "gone.jpg")
    assert "cannot be read: No such file" in refused(folder)


def test_headers_that_cannot_be_read_leave_the_usual_size(folder):
    for path in folder.rglob("*.jpg"):
        path.write_bytes(b"no image")
    assert outline(str(folder)).image_size == 64
