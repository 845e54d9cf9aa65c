"""Splits of a user's own: disjoint, stratified, together all, repeated; images become squares."""

import io

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from tuner.errors import DataError
from tuner.spec.settings import FaultsError
from tuner.vision.datasets._dataset import (
    assign_folds,
    assign_group_folds,
    sample_groups,
    sample_stratified,
)
from tuner.vision.sources._images import (
    SPLITS,
    check_package,
    check_sizes,
    complete_splits,
    compute_split_sizes,
    count_bits,
    count_held_out,
    count_images,
    crop_square,
)

K = 3
IMAGES = st.lists(
    st.tuples(st.integers(0, K - 1), st.sampled_from([0, 0, 0, 0, 1, 2])), min_size=8, max_size=120
)


@given(IMAGES, st.integers(0, 2**32))
def test_complete_splits_are_disjoint_and_cover_all(images, seed):
    labels, user_splits = np.array(images).T
    classes = ("a", "b", "c")
    counts = count_images(labels, user_splits, classes)
    try:
        check_sizes(classes, counts, "here")
    except FaultsError:
        assume(False)
    splits = complete_splits(labels, user_splits.astype(np.uint8), seed=seed)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(len(labels)))
    assert {name: len(rows) for name, rows in splits.items()} == compute_split_sizes(counts)
    assert set(labels[splits["train"]]) == set(range(K))
    for number, name in enumerate(SPLITS):
        chosen = np.flatnonzero(user_splits == number)
        if name != "train" and len(chosen):
            assert np.array_equal(splits[name], chosen)
    again = complete_splits(labels, user_splits.astype(np.uint8), seed=seed)
    assert all(np.array_equal(splits[name], again[name]) for name in SPLITS)


@given(
    st.lists(st.integers(0, 40), min_size=60, max_size=90),
    st.integers(0, 2**32),
    st.integers(2, 5),
)
def test_splits_and_folds_keep_copies_together(groups, seed, folds):
    groups = np.array(groups)
    labels = groups % 3  # copies have the same label here
    assume(set(labels) == {0, 1, 2})
    splits_N = np.zeros(len(labels), np.uint8)
    try:
        splits = complete_splits(labels, splits_N, seed=seed, groups_N=groups)
    except DataError:
        assume(False)
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(len(labels)))
    held = [set(groups[rows]) for rows in splits.values()]
    assert sum(map(len, held)) == len(set(groups))
    assert all(len(rows) for rows in splits.values())
    fold_N = assign_group_folds(labels, groups, folds, seed=seed)
    assert all(len(set(fold_N[groups == group])) == 1 for group in groups)


@given(st.lists(st.integers(0, 2), min_size=8, max_size=80), st.integers(0, 99))
def test_without_copies_groups_change_nothing(labels, seed):
    labels, alone = np.array(labels), np.arange(len(labels))
    count = len(labels) // 4
    rng = np.random.default_rng
    sampled = sample_groups(labels, alone, count, rng=rng(seed))
    assert np.array_equal(sampled, sample_stratified(labels, count, rng=rng(seed)))
    folds = assign_group_folds(labels, alone, 3, seed=seed)
    assert np.array_equal(folds, assign_folds(labels, 3, seed=seed))


@given(st.lists(st.integers(20, 60), min_size=2, max_size=5), st.integers(0, 99))
def test_complete_splits_are_stratified_to_within_two_images(each, seed):
    labels = np.repeat(np.arange(len(each)), each)
    splits = complete_splits(labels, np.zeros(len(labels), np.uint8), seed=seed)
    for name in ("validation", "test"):
        share = count_held_out(len(labels)) / len(labels)
        counts = np.bincount(labels[splits[name]], minlength=len(each))
        assert np.all(np.abs(counts - share * np.array(each)) < 2)


@pytest.mark.parametrize(
    ("classes", "counts"),
    [
        (("a",), {"train": (9,)}),
        (("a", "b"), {"train": (9, 0)}),
        (("a", "b"), {"train": (2, 1)}),
        (("a", "b"), {"train": (1, 1), "test": (1, 0)}),
    ],
)
def test_check_sizes_rejects_too_few_images(classes, counts, snapshot):
    with snapshot.raises(FaultsError):
        check_sizes(classes, counts, "here")


def test_require_of_missing_package_names_extra(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "no_such_package").mkdir()  # a folder is none
    with snapshot.raises(FaultsError):
        check_package("no_such_package", "extra", "NAME")
    check_package("numpy", "extra", "NAME")


def stripes(height, width):
    """Its left third is red, its right one blue, the middle green."""
    image = np.zeros((height, width, 3), np.uint8)
    for channel, part in enumerate((slice(0, width // 3), slice(width // 3, -(width // 3)))):
        image[:, part, channel] = 255
    image[:, -(width // 3) :, 2] = 255
    return image


def stored(image, form, **how):
    file = io.BytesIO()
    image.save(file, form, **how)
    return Image.open(file)


def test_square_crops_the_centre_and_resizes():
    pixels = crop_square(Image.fromarray(stripes(40, 120)), size=8, channels=3)
    assert pixels.shape == (8, 8, 3)
    assert pixels.dtype == np.uint8
    assert np.all(pixels[:, 1:-1] == (0, 255, 0))  # the filter is as wide as a pixel


def test_square_of_an_array_of_the_right_size_is_equal():
    image = stripes(9, 9)
    assert np.array_equal(crop_square(image, size=9, channels=3), image)


def test_square_of_a_large_jpeg_equals_one_decoded_in_full():
    smooth = Image.fromarray(stripes(30, 30)).resize((600, 600), Image.Resampling.BICUBIC)
    jpeg = stored(smooth, "JPEG", quality=95)
    fast = crop_square(jpeg, size=32, channels=3).astype(int)
    full = np.asarray(smooth.resize((32, 32), Image.Resampling.BOX)).astype(int)
    assert np.abs(fast - full).mean() < 3


def test_square_turns_a_photograph_upright():
    image = Image.fromarray(stripes(60, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    pixels = crop_square(stored(image, "JPEG", exif=exif, quality=95), size=60, channels=3)
    upright = crop_square(image.rotate(-90), size=60, channels=3)
    assert np.abs(pixels.astype(int) - upright).mean() < 4


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_square_converts_every_mode(mode, channels):
    image = Image.new("RGB", (6, 6), (204, 204, 204)).convert(mode)
    assert crop_square(image, size=6, channels=channels).shape == (6, 6, channels)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L"])
def test_square_puts_transparent_images_on_white(mode):
    drawing = Image.new("LA", (4, 4))  # black under what is transparent, as most have it
    drawing.paste((60, 255), (0, 0, 4, 2))
    if mode in ("P", "L"):  # with one transparent colour
        drawing = stored(drawing.convert("L").convert(mode), "PNG", transparency=0)
    pixels = crop_square(
        drawing if mode in ("P", "L") else drawing.convert(mode), size=4, channels=3
    )
    assert np.all(pixels[:2] == 60)
    assert np.all(pixels[2:] == 255)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_square_with_one_channel_refuses_colours(form):
    with pytest.raises(ValueError, match="it is in colour"):
        crop_square(stored(Image.fromarray(stripes(40, 120)), form), size=8, channels=1)
    scan = Image.fromarray(stripes(40, 120)).convert("L").convert("RGB")
    assert crop_square(stored(scan, form), size=8, channels=1).shape == (8, 8, 1)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_square_of_a_deep_image_takes_the_upper_8_of_its_bits(bits):
    image = Image.fromarray(np.full((4, 4), (1 << bits) - 1, np.uint16))
    assert count_bits(image) == bits
    assert np.all(crop_square(image, size=4, channels=1, bits=bits) == 255)
    half = Image.fromarray(np.full((4, 4), 1 << (bits - 1), np.uint16))
    assert np.all(crop_square(half, size=4, channels=1, bits=bits) == 128)


def test_square_beyond_bits_raises_for_many_pixels():
    pixels = np.full((20, 20), 2048, np.uint16)
    pixels[0, 0] = 65535
    scaled = crop_square(Image.fromarray(pixels), size=20, channels=1, bits=12)
    assert (scaled[0, 0], scaled[1, 1]) == (255, 128)
    pixels[:1] = 65535
    with pytest.raises(ValueError, match="beyond the 12 bits"):
        crop_square(Image.fromarray(pixels), size=20, channels=1, bits=12)


@pytest.mark.parametrize("depth", [4095, 65535])
def test_square_reads_pgm_of_more_than_8_bits(depth, tmp_path):
    pixels = np.full((4, 4), depth // 2 + 1, ">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 %d\n" % depth + pixels.tobytes())
    assert np.all(crop_square(Image.open(tmp_path / "a.pgm"), size=4, channels=1) == 128)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4, 3)),
        np.zeros((3, 4, 4), np.uint8),
        np.zeros((0, 4), np.uint8),
        "a.jpg",
        Image.fromarray(np.ones((4, 4), np.float32)),
    ],
)
def test_square_rejects_what_is_no_image(image, snapshot):
    with snapshot.raises(ValueError):
        crop_square(image, size=4, channels=3)
