"""What has been decoded: described, loaded by any seed of its splits, sent from node to node."""

import shutil
from threading import Timer

import numpy as np
import photos
import pytest

from tuner.errors import DataError
from tuner.vision.catalog import DataChoice, decoded_set
from tuner.vision.sources._decode import FILES
from tuner.vision.sources._decoded_set import DecodedSet


@pytest.fixture
def decoded(tmp_path):
    place = photos.write(tmp_path / "photos", each=12)
    (place / "tulip" / "x.jpg").write_bytes((place / "tulip" / "0000.jpg").read_bytes())
    return decoded_set(DataChoice(f"folder:{place}", str(tmp_path), 16))


def test_its_description_is_of_what_is_loaded(decoded, tmp_path):
    info = decoded.info(tmp_path, split_seed=3)
    arrays = info.load(tmp_path, split_seed=3)
    sizes = {name: len(rows) for name, rows in arrays.splits.items()}
    assert sizes == {"train": info.train, "validation": info.validation, "test": info.test}
    assert sum(sizes.values()) == sum(info.class_counts) == 37
    assert (info.channels, info.image_size, info.classes) == (3, 16, photos.CLASSES)
    pixels = arrays.images_NHWC[arrays.splits["train"]] / 255
    assert info.mean == pytest.approx(pixels.mean((0, 1, 2)))
    assert info.std == pytest.approx(pixels.std((0, 1, 2)))
    assert isinstance(arrays.images_NHWC, np.memmap)
    assert not arrays.images_NHWC.flags.writeable


def test_info_says_which_splits_the_images_came_with_and_the_baseline(decoded, tmp_path):
    info = decoded.info(tmp_path, split_seed=0)
    assert info.own_splits == ()
    assert info.baseline == pytest.approx(1 / 3, abs=0.1)
    for name, each in (("train", 8), ("val", 3), ("test", 3)):
        photos.write(tmp_path / "split" / name, each=each)
    (tmp_path / "split" / "val" / "rose" / "0000.jpg").unlink()
    chosen = DataChoice(f"folder:{tmp_path / 'split'}", str(tmp_path), 16)
    info = decoded_set(chosen).info(tmp_path, split_seed=0)
    assert (info.own_splits, info.baseline) == (("validation", "test"), 3 / 8)
    shutil.rmtree(tmp_path / "split" / "val")
    assert decoded_set(chosen).info(tmp_path, split_seed=0).own_splits == ("test",)


def test_copies_count_where_they_are_in_two_splits(decoded, tmp_path):
    twins = {24, 36}  # tulip/0000.jpg and its copy
    for seed in range(12):
        info = decoded.info(tmp_path, split_seed=seed)
        splits = info.load(tmp_path, split_seed=seed).splits
        apart = not any(twins <= set(rows.tolist()) for rows in splits.values())
        assert info.copies == apart
    assert {decoded.info(tmp_path, split_seed=seed).copies for seed in range(12)} == {0, 1}


def test_classes_that_no_measure_tells_of_are_named(decoded, tmp_path):
    assert decoded.info(tmp_path, split_seed=0).unmeasured == ()
    place = photos.write(tmp_path / "few", each=12)
    for number in range(1, 12):
        (place / "rose" / f"{number:04}.jpg").unlink()
    few = decoded_set(DataChoice(f"folder:{place}", str(tmp_path), 16))
    assert few.info(tmp_path, split_seed=0).unmeasured == ("rose",)


def test_a_channel_of_one_value_divides_by_no_zero(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(1))
    place = tmp_path / "black"
    for name in ("a", "b"):
        (place / name).mkdir(parents=True)
        for number in range(4):
            photos.Image.new("RGB", (8, 8)).save(place / name / f"{number}.png")
    black = decoded_set(DataChoice(f"folder:{place}", str(tmp_path)))
    assert black.info(tmp_path, split_seed=0).std == (1.0, 1.0, 1.0)


def sent(decoded, folder):
    return [each.data for each in decoded.contents(folder)]


def test_a_decoded_set_is_equal_on_the_node_that_receives_it(decoded, tmp_path):
    there = tmp_path / "there"
    assert decoded.is_in(tmp_path)
    assert decoded.is_missing(there)
    with pytest.raises(DataError, match="cannot be downloaded"):
        decoded.fetch(there)
    decoded.write(there, lambda: sent(decoded, tmp_path), origin="a node")
    assert decoded.is_in(there)
    for name in FILES:
        both = (decoded.path(folder) / name for folder in (tmp_path, there))
        assert len({path.read_bytes() for path in both}) == 1
    assert decoded.info(there, split_seed=0).content == decoded.info(tmp_path, split_seed=0).content


def test_a_node_that_has_just_joined_waits_for_it(decoded, tmp_path):
    there = tmp_path / "there"
    decoded.await_in(there, patience_s=0)  # not for ever
    contents = sent(decoded, tmp_path)
    arriving = Timer(0.2, lambda: decoded.write(there, lambda: contents, origin="a node"))
    arriving.start()
    decoded.await_in(there, patience_s=60)
    assert decoded.is_in(there)
    arriving.join()


@pytest.mark.parametrize("cut", [lambda files: files[:-1], lambda files: [f[:-1] for f in files]])
def test_a_decoded_set_that_arrives_in_part_is_not_kept(decoded, tmp_path, cut):
    contents = cut(sent(decoded, tmp_path))
    with pytest.raises(DataError, match="a node is not complete"):
        decoded.write(tmp_path / "there", lambda: contents, origin="a node")
    assert decoded.is_missing(tmp_path / "there")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "/etc"])
def test_a_name_leads_nowhere_else(name, tmp_path):
    with pytest.raises(DataError, match="no decoded data set can be called"):
        DecodedSet(name).info(tmp_path, split_seed=0)


def test_what_is_damaged_or_not_there_is_told(decoded, tmp_path):
    with pytest.raises(DataError, match=r"no decoded data set can be read from .*other"):
        DecodedSet("other").info(tmp_path, split_seed=0)
    path = decoded.path(tmp_path)
    (path / "labels.npy").write_bytes((path / "labels.npy").read_bytes()[:-8])
    with pytest.raises(DataError, match="no decoded data set can be read"):
        decoded.info(tmp_path, split_seed=0)


def test_no_pickle_is_read(decoded, tmp_path):
    path = decoded.path(tmp_path) / "labels.npy"
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="Python objects in dtype"):
        decoded.info(tmp_path, split_seed=0)
