import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.augment import Augmentation, Draws, crop_and_flip, cut_out, draw

AUGMENTATIONS = st.builds(
    Augmentation,
    crop_padding=st.integers(0, 4),
    flip=st.booleans(),
    cutout=st.integers(0, 8),
    crop_fill=st.sampled_from(["black", "reflect"]),
)
PADDED = {"black": "constant", "reflect": "reflect"}  # as numpy calls it


def draws_of(count, size, augmentation, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return draw(count, image_size=size, augmentation=augmentation, generator=generator)


def naive_crop_and_flip(image_HWC, flip, top, left, augmentation):
    """One image, as the tutorials do it: pad, cut out a window, mirror it."""
    height, width, _ = image_HWC.shape
    padding, fill = augmentation.crop_padding, PADDED[augmentation.crop_fill]
    padded = np.pad(image_HWC, ((padding, padding), (padding, padding), (0, 0)), fill)
    window = padded[top : top + height, left : left + width]
    return window[:, ::-1] if flip else window


def naive_cut_out(image_CHW, row, column, side):
    """One image, pixel by pixel."""
    out = image_CHW.copy()
    for y in range(row - side // 2, row - side // 2 + side):
        for x in range(column - side // 2, column - side // 2 + side):
            if 0 <= y < out.shape[1] and 0 <= x < out.shape[2]:
                out[:, y, x] = 0
    return out


@given(AUGMENTATIONS, st.integers(1, 5), st.sampled_from([1, 3]), st.integers(8, 11), st.integers())
def test_a_batch_equals_each_image_alone(augmentation, count, channels, size, seed):
    draws = draws_of(count, size, augmentation, seed % 2**32)
    images = np.random.default_rng(0).integers(0, 256, (count, size, size, channels), np.uint8)
    got = crop_and_flip(
        torch.tensor(images).view(count, -1),
        draws,
        channels=channels,
        image_size=size,
        augmentation=augmentation,
    )
    x_NCHW = got.view(count, size, size, channels).permute(0, 3, 1, 2).float() + 1
    cut = cut_out(x_NCHW, draws, augmentation=augmentation)
    for n in range(count):
        flip, top, left, row, column = (values[n].item() for values in vars(draws).values())
        flip = flip and augmentation.flip
        image = naive_crop_and_flip(images[n], flip, top, left, augmentation)
        expected = naive_cut_out(image.transpose(2, 0, 1) + 1.0, row, column, augmentation.cutout)
        assert np.array_equal(cut[n].numpy(), expected)


@given(AUGMENTATIONS, st.integers(8, 32))
def test_draws_are_in_their_bounds(augmentation, size):
    draws = draws_of(200, size, augmentation)
    assert draws.flip_N.dtype == torch.bool
    for offsets in (draws.top_N, draws.left_N):
        assert offsets.min() >= 0
        assert offsets.max() <= 2 * augmentation.crop_padding
    for centres in (draws.row_N, draws.column_N):
        assert centres.min() >= 0
        assert centres.max() < size


def test_draws_reach_every_value_and_flip_half():
    draws = draws_of(4000, 8, Augmentation(crop_padding=2, flip=True))
    assert draws.top_N.unique().tolist() == draws.left_N.unique().tolist() == list(range(5))
    assert draws.row_N.unique().tolist() == list(range(8))
    assert 0.45 < draws.flip_N.float().mean() < 0.55


def test_switching_one_augmentation_on_leaves_the_others():
    plain = draws_of(50, 8, Augmentation(crop_padding=2))
    flipped = draws_of(50, 8, Augmentation(crop_padding=2, flip=True, cutout=3))
    assert all(map(torch.equal, vars(plain).values(), vars(flipped).values()))


def test_draws_can_be_sliced_and_moved():
    draws = draws_of(10, 8, Augmentation())
    part = draws.at(slice(1, 8, 3)).to(torch.device("cpu"))
    assert isinstance(part, Draws)
    assert torch.equal(part.row_N, draws.row_N[[1, 4, 7]])


def test_without_augmentation_nothing_is_copied():
    rows = torch.zeros(2, 64, dtype=torch.uint8)
    draws = draws_of(2, 8, Augmentation())
    got = crop_and_flip(rows, draws, channels=1, image_size=8, augmentation=Augmentation())
    assert got is rows
