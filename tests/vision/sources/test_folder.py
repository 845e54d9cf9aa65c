"""A folder of images: what is listed, and what is refused with the rule that it breaks."""

import photos
import pytest

from tuner.spec.settings import FaultsError
from tuner.vision.sources._images import count_images
from tuner.vision.sources.folder import SOURCE


@pytest.fixture
def folder(tmp_path):
    return photos.write(tmp_path / "photos")


def find(path):
    return SOURCE.find(str(path), None)


def counts(images):
    return tuple(
        count_images(images.labels_N, images.splits_N, images.classes).values()
    )


def test_find_has_the_classes_and_counts_of_sub_folders(folder):
    (folder / "rose/deeper").mkdir()
    (folder / "rose/0001.jpg").rename(folder / "rose/deeper/b.JPG")
    (folder / "rose/notes.txt").write_text("no image")
    (folder / "rose/._0001.jpg").write_text("what a Mac leaves")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "__MACOSX/rose").mkdir(parents=True)
    images = find(folder)
    assert images.classes == photos.CLASSES
    assert counts(images) == ((10,) * 3, (0,) * 3, (0,) * 3)
    assert (images.channels, images.own_size) == (3, 40)


def test_find_takes_user_splits(tmp_path):
    for name, each in (("train", 6), ("valid", 2), ("test", 3)):
        photos.write(tmp_path / name, each=each)
    images = find(tmp_path)
    assert images.splits_N.tolist() == [2] * 9 + [0] * 18 + [1] * 6
    assert images.name_of(0) == str(tmp_path / "test/daisy/0000.jpg")


def test_find_takes_classes_called_as_splits(tmp_path):
    photos.write(tmp_path, classes=("bus", "test", "train"))
    assert find(tmp_path).classes == ("bus", "test", "train")


def test_find_warns_of_ignored_files(folder):
    assert find(folder).doubts == ()
    for name in ("rose/a.heic", "rose/b.HEIC", "rose/._b.HEIC", "tulip/LICENSE"):
        (folder / name).touch()
    [doubt] = find(folder).doubts
    assert doubt.endswith("2 .heic, 1 without a suffix")


def test_fingerprint_changes_with_the_files(folder):
    before = find(folder).fingerprint
    assert find(folder).fingerprint == before
    (folder / "rose/0003.jpg").write_bytes(b"another")
    changed = find(folder).fingerprint
    (folder / "rose/0003.jpg").rename(folder / "tulip/9.jpg")
    assert len({before, changed, find(folder).fingerprint}) == 3


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ("photos/rose/1.jpg", "phots"),
        ("photos/rose/1.jpg", "photos/rose/1.jpg"),
        (".hidden", "."),
        ("1.jpg,2.jpg", "."),
        ("a/1.jpg,cat/1.jpg,cat /1.jpg", "."),
        ("a/1.jpg,b/1.HEIC", "."),
        ("train/rose/1.jpg,val/rose/1.jpg,valid/rose/1.jpg", "."),
        ("train/rose/1.jpg,val/rose/1.jpg,extra/rose/1.jpg", "."),
        ("train/rose/1.jpg,train/tulip/1.jpg,val/lily/1.jpg,val/tulip/1.jpg", "."),
        ("test/rose/1.jpg,test/tulip/1.jpg,val/lily/1.jpg,val/tulip/1.jpg", "."),
    ],
)
def test_find_rejects_other_layouts(snapshot, tmp_path, names, path):
    for name in names.split(","):
        (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "x" / name).touch()
    with snapshot.raises(FaultsError):
        find(tmp_path / "x" / path)


def test_find_follows_links(snapshot, tmp_path, folder):
    (folder / "rose/gone.jpg").symlink_to(tmp_path / "gone.jpg")
    (folder / "lily").symlink_to(folder / "rose")
    assert counts(find(folder))[0] == (10, 10, 10, 10)
    (folder / "lily").unlink()
    (folder / "rose/loop").symlink_to(folder / "rose")
    with snapshot.raises(FaultsError):
        find(folder)
