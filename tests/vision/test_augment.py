import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from tuner.vision.augment import (
    apply_cutout,
    apply_mixes,
    crop_and_flip,
    draw,
    draw_mixes,
)
from tuner.vision.batches import Batcher, load_image_set
from tuner.vision.catalog import DataChoice
from tuner.vision.epochs import plan_epoch
from tuner.vision.recipe import Augmentation

AUGMENTATIONS = st.builds(
    Augmentation,
    crop_padding=st.integers(0, 4),
    flip=st.booleans(),
    vertical_flip=st.booleans(),
    cutout=st.integers(0, 8),
)


def sample_draws(count, size, augmentation, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return draw(count, image_size=size, augmentation=augmentation, generator=generator)


def crop_and_flip_naively(image_HWC, flips, top, left, augmentation):
    """One image, as the tutorials do it: pad, cut out a window, flip it."""
    height, width, _ = image_HWC.shape
    padding = augmentation.crop_padding
    padded = np.pad(image_HWC, ((padding, padding), (padding, padding), (0, 0)))
    window = padded[top : top + height, left : left + width]
    return np.flip(window, [axis for axis in (0, 1) if flips[axis]])


def clear_square_naively(image_CHW, row, column, side):
    """One image, pixel by pixel."""
    out = image_CHW.copy()
    for y in range(row - side // 2, row - side // 2 + side):
        for x in range(column - side // 2, column - side // 2 + side):
            if 0 <= y < out.shape[1] and 0 <= x < out.shape[2]:
                out[:, y, x] = 0
    return out


@given(
    AUGMENTATIONS,
    st.integers(1, 5),
    st.sampled_from([1, 3]),
    st.integers(8, 11),
    st.integers(),
)
def test_crop_and_flip_and_cut_out_equal_each_image_alone(
    augmentation, count, channels, size, seed
):
    draws = sample_draws(count, size, augmentation, seed % 2**32)
    images = np.random.default_rng(0).integers(
        0, 256, (count, size, size, channels), np.uint8
    )
    shape = {"channels": channels, "image_size": size}
    rows_NP = torch.tensor(images).view(count, -1)
    got = crop_and_flip(rows_NP, draws, **shape, augmentation=augmentation)
    x_NCHW = got.view(count, size, size, channels).permute(0, 3, 1, 2).float() + 1
    cut = apply_cutout(x_NCHW, draws, augmentation=augmentation)
    for n in range(count):
        flip, upside_down, top, left, row, column = (
            values[n].item() for values in [*vars(draws).values()][:6]
        )
        flips = (upside_down and augmentation.vertical_flip, flip and augmentation.flip)
        image = crop_and_flip_naively(images[n], flips, top, left, augmentation)
        expected = clear_square_naively(
            image.transpose(2, 0, 1) + 1.0, row, column, augmentation.cutout
        )
        assert np.array_equal(cut[n].numpy(), expected)


def test_draw_of_another_augmentation_keeps_the_others():
    plain = sample_draws(50, 8, Augmentation(crop_padding=2))
    flips = {"flip": True, "vertical_flip": True, "cutout": 3}
    flipped = sample_draws(50, 8, Augmentation(crop_padding=2, **flips))
    assert all(map(torch.equal, vars(plain).values(), vars(flipped).values()))
    resized = vars(sample_draws(50, 8, Augmentation(crop_padding=2, crop_scale=0.2)))
    del resized["window_N4"]
    assert all(torch.equal(values, vars(plain)[key]) for key, values in resized.items())


def test_images_are_flipped_half_of_the_time_along_each_axis():
    draws = sample_draws(20_000, 8, Augmentation(flip=True, vertical_flip=True))
    kinds_N = 2 * draws.upside_down_N.long() + draws.flip_N.long()
    shares = torch.bincount(kinds_N).double() / len(kinds_N)
    assert shares.tolist() == pytest.approx([0.25] * 4, abs=0.015)


@given(st.floats(0.01, 0.999), st.integers(0, 2**32))
def test_windows_of_resized_crops_have_the_areas_and_ratios_of_the_paper(scale, seed):
    window_N4 = sample_draws(500, 8, Augmentation(crop_scale=scale), seed).window_N4
    corner_N2, size_N2 = window_N4.double().chunk(2, 1)
    assert corner_N2.min() >= 0
    assert (corner_N2 + size_N2).max() <= 1 + 1e-6
    area_N = size_N2.prod(1)
    assert scale - 1e-6 <= area_N.min() <= area_N.max() <= 1
    assert area_N.mean().item() == pytest.approx((1 + scale) / 2, abs=0.1 * (1 - scale))
    ratio_N = size_N2[:, 1] / size_N2[:, 0]
    assert 3 / 4 - 1e-6 <= ratio_N.min() <= ratio_N.max() <= 4 / 3 + 1e-6


def crop_resized_naively(image_HWC, window, flip, upside_down):
    """One image, by torch's own sampling of a grid."""
    size = len(image_HWC)
    top, left, height, width = window.double()
    mirror = -1 if flip else 1
    turn = -1 if upside_down else 1
    affine = [
        [mirror * width, 0, 2 * left + width - 1],
        [0, turn * height, 2 * top + height - 1],
    ]
    x = torch.tensor(image_HWC.transpose(2, 0, 1)[None]).double()
    grid = F.affine_grid(torch.tensor([affine]).double(), x.shape, align_corners=False)
    out = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
    return out[0].permute(1, 2, 0).reshape(size * size, -1)


@given(
    st.floats(0.05, 0.99),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3]),
    st.integers(1, 11),
    st.integers(),
)
def test_resized_crops_equal_each_image_alone(
    scale, flip, vertical_flip, channels, size, seed
):
    augmentation = Augmentation(
        crop_scale=scale, flip=flip, vertical_flip=vertical_flip
    )
    draws = sample_draws(4, size, augmentation, seed % 2**32)
    images = np.random.default_rng(0).integers(
        0, 256, (4, size, size, channels), np.uint8
    )
    shape = {"channels": channels, "image_size": size, "augmentation": augmentation}
    rows_NP = torch.tensor(images).view(4, -1)
    got_NP = crop_and_flip(rows_NP, draws, **shape)
    assert (got_NP.shape, got_NP.dtype) == (rows_NP.shape, torch.float32)
    for n in range(4):
        expected = crop_resized_naively(
            images[n],
            draws.window_N4[n],
            flip and draws.flip_N[n],
            vertical_flip and draws.upside_down_N[n],
        )
        assert torch.allclose(got_NP[n], expected.float().flatten(), atol=0.01)
        alone = crop_and_flip(
            rows_NP[n : n + 1], draws.select(slice(n, n + 1)), **shape
        )
        assert torch.equal(alone[0], got_NP[n])


CPU = torch.device("cpu")
SIZE = 8
BOTH = Augmentation(mixup=0.4, cutmix=1.0)


def sample_mixes(augmentation, count=400, *, seed=0):
    rng = np.random.default_rng(seed)
    return draw_mixes(count, image_size=SIZE, augmentation=augmentation, rng=rng)


def is_cut(mixes):
    return (mixes.blend_N == 1) & (mixes.share_N < 1)


def test_mixup_blends_images_by_a_beta_distribution():
    mixes = sample_mixes(Augmentation(mixup=0.4), 20_000)
    assert torch.equal(mixes.share_N, mixes.blend_N)
    # The variance of Beta(a, a) is 1 / (4 (2 a + 1))
    assert mixes.share_N.mean().item() == pytest.approx(0.5, abs=0.01)
    assert mixes.share_N.var().item() == pytest.approx(1 / (4 * 1.8), abs=0.005)


def test_cutmix_cuts_areas_of_all_sizes():
    mixes = sample_mixes(Augmentation(cutmix=1.0), 2000)
    areas_N = (mixes.bottom_N - mixes.top_N) * (mixes.right_N - mixes.left_N)
    assert set(areas_N.tolist()) > {0, 1, 4, SIZE**2}


def naive(image, partner, mixes, n):
    """One image, pixel by pixel."""
    out = image.clone()
    for y in range(SIZE):
        for x in range(SIZE):
            in_rows = mixes.top_N[n] <= y < mixes.bottom_N[n]
            cut = in_rows and mixes.left_N[n] <= x < mixes.right_N[n]
            share = 0.0 if cut else mixes.blend_N[n]
            out[:, y, x] = share * image[:, y, x] + (1 - share) * partner[:, y, x]
    return out


def test_mix_of_a_batch_equals_each_image_alone():
    mixes = sample_mixes(BOTH, 20)
    assert 3 < is_cut(mixes).sum() < 17
    images, partners = torch.rand(2, 20, 3, SIZE, SIZE, dtype=torch.float64)
    labels_N, partner_labels_N = torch.randint(4, (2, 20))
    got_NCHW, shares_NK = apply_mixes(
        (images, labels_N), (partners, partner_labels_N), mixes, classes=4
    )
    for n in range(20):
        assert torch.allclose(got_NCHW[n], naive(images[n], partners[n], mixes, n))
        expected = torch.zeros(4, dtype=torch.float64)
        expected[labels_N[n]] += mixes.share_N[n]
        expected[partner_labels_N[n]] += 1 - mixes.share_N[n]
        assert torch.allclose(shares_NK[n], expected)
        # The share of the label is the image's share of the pixels
        white = torch.ones(1, SIZE, SIZE)
        black = torch.zeros(1, SIZE, SIZE)
        share = naive(white, black, mixes, n).mean().item()
        assert share == pytest.approx(mixes.share_N[n].item(), abs=1e-6)


def build_epoch(augmentation, *, epoch=0, seed=0):
    data = load_image_set(DataChoice("tiny"), CPU)
    rows_N = data.splits["train"]
    planned = plan_epoch(
        rows_N,
        seed=seed,
        epoch=epoch,
        image_size=32,
        augmentation=augmentation,
        device=CPU,
    )
    return planned, Batcher(data, dtype=torch.float64, augmentation=augmentation)


MIXED = {"flip": True, "vertical_flip": True, "cutout": 6, "mixup": 0.4, "cutmix": 1.0}
AUGMENTED = Augmentation(crop_padding=2, **MIXED)
RESIZED = Augmentation(crop_scale=0.3, **MIXED)
either = pytest.mark.parametrize(
    "augmentation", [AUGMENTED, RESIZED], ids=["padded", "resized"]
)


@either
def test_partner_is_the_next_image_of_the_epoch(augmentation):
    planned, batcher = build_epoch(augmentation)
    plain, batcher_alone = build_epoch(
        augmentation.model_copy(update={"mixup": 0.0, "cutmix": 0.0})
    )
    # Mixing leaves the other draws alone
    assert torch.equal(planned.order_N, plain.order_N)
    x_NCHW, labels_N = batcher_alone.build_training_batch(plain, slice(0, None))
    partners = x_NCHW.roll(-1, 0), labels_N.roll(-1)
    expected = apply_mixes((x_NCHW, labels_N), partners, planned.mixes, classes=10)
    # In parts, as ranks and micro-batches have them
    first = batcher.build_training_batch(planned, slice(0, 20))
    second = batcher.build_training_batch(planned, slice(20, None))
    for parts, whole in zip(zip(first, second, strict=True), expected, strict=True):
        assert torch.equal(torch.cat(parts), whole)
