"""Made photographs of classes, deterministic by seed, as folders of JPEGs.

A photograph shows an object of its class (a `Kind`: outline, pattern, knobs, hue) in any pose, size
and light before a background with other things in it, partly hidden, blurred and noisy. A `Kind` is
drawn anew for each class, so that what a network learns from some classes helps with others.
"""

# H W pixels, C channels

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

PX = 80
TEST = 100_000  # the first number of a test photo: no training photo has it
LOBES = (0, 3, 4, 5, 6, 8)
PATTERNS = ("plain", "stripes", "rings", "checks", "dots", "spokes", "grain")


@dataclass(frozen=True)
class Kind:
    """What the objects of a class share.

    lobes, depth: bulges of the outline, and how far they reach (of 1, the radius). aspect: height
    by width. hole: its radius. waves: periods of the pattern across the radius. knobs: discs at the
    rim. mark: the angle of a small disc inside, or None.
    """

    lobes: int
    depth: float
    aspect: float
    hole: float
    pattern: str
    waves: float
    knobs: int
    hue: float
    mark: float | None = None


def any_kind(rng: np.random.Generator, lobes: int, pattern: str) -> Kind:
    """A kind with this outline and pattern; all else is drawn."""
    return Kind(
        lobes=lobes,
        depth=float(rng.uniform(0.15, 0.35)),
        aspect=float(rng.uniform(0.6, 1.0)),
        hole=float(rng.choice([0.0, 0.0, 0.35])),
        pattern=pattern,
        waves=float(rng.uniform(1.5, 3.5)),
        knobs=int(rng.integers(4)),
        hue=float(rng.random()),
    )


def kinds(seed: int, count: int) -> list[Kind]:
    """`count` kinds, at most 42, no two of which share both outline and pattern."""
    rng = np.random.default_rng(seed)
    pairs = list(product(LOBES, PATTERNS))
    return [any_kind(rng, *pairs[index]) for index in rng.permutation(len(pairs))[:count]]


def fine_kinds(seed: int, count: int) -> list[Kind]:
    """Kinds that differ in a detail or two: the knobs, the mark, the width of the stripes."""
    [base] = kinds(seed, 1)
    base = replace(base, pattern="stripes", lobes=5, hole=0.0, mark=0.0)
    details = list(product((1, 2), (0.0, 2.1, 4.2), (1.8, 3.2)))
    return [
        replace(base, knobs=knobs, mark=mark, waves=waves) for knobs, mark, waves in details[:count]
    ]


def texture_kinds() -> list[Kind]:
    """Kinds of no outline, for `_texture`: a pattern in one of three widths."""
    [base] = kinds(2, 1)
    pairs = product(("stripes", "checks", "dots", "grain"), (1.6, 2.4, 3.6))
    return [replace(base, pattern=pattern, waves=waves) for pattern, waves in pairs]


# --- how a photograph is made -------------------------------------------------------------------


def _grid(px: int) -> tuple[np.ndarray, np.ndarray]:
    y_HW, x_HW = np.mgrid[:px, :px] * (2 / (px - 1)) - 1
    return x_HW, y_HW


def _smooth(rng: np.random.Generator, cells: int, px: int) -> np.ndarray:
    """Noise of `cells` cells a side, about -1 to 1, without steps."""
    coarse = Image.fromarray(rng.uniform(-1, 1, (cells, cells)).astype(np.float32))
    return np.asarray(coarse.resize((px, px), Image.Resampling.BICUBIC))


def _edge(distance_HW: np.ndarray, softness: float) -> np.ndarray:
    return np.clip(distance_HW / softness + 0.5, 0, 1)


def _colour(hue: float, saturation: float, value: float) -> np.ndarray:
    return np.array(colorsys.hsv_to_rgb(hue % 1, *np.clip([saturation, value], 0, 1)))


def _pattern(kind: Kind, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Where the second colour is, from 0 to 1."""
    radius, wave = np.hypot(x, y), np.pi * kind.waves * rng.normal(1, 0.08)
    phase = rng.uniform(0, 2 * np.pi, 2)
    match kind.pattern:
        case "plain":
            return 0.3 + 0.3 * x
        case "stripes":
            height = np.sin(wave * x + phase[0])
        case "rings":
            height = np.sin(wave * radius * 1.3 + phase[0])
        case "checks":
            height = 2 * np.sin(wave * x + phase[0]) * np.sin(wave * y + phase[1])
        case "dots":
            height = np.cos(wave * 1.3 * x + phase[0]) + np.cos(wave * 1.3 * y + phase[1]) - 0.7
        case "spokes":
            height = np.sin(np.round(2 * kind.waves) * np.arctan2(y, x) + phase[0])
        case _:
            height = 1.5 * _smooth(rng, 5 + round(3 * kind.waves), x.shape[0])
    return 0.5 + 0.5 * np.tanh(3 * height)


def _outline(kind: Kind, x: np.ndarray, y: np.ndarray, softness: float) -> np.ndarray:
    """Where the object is, from 0 to 1."""
    radius, angle = np.hypot(x, y / kind.aspect), np.arctan2(y / kind.aspect, x)
    rim = 1 + (kind.depth * np.cos(kind.lobes * angle) if kind.lobes else 0)
    inside = _edge(0.85 * rim - radius, softness)
    if kind.hole:
        inside = inside * _edge(radius - kind.hole, softness)
    for number in range(kind.knobs):
        at = 0.6 + 2 * np.pi * number / max(kind.knobs, 2)
        distance = np.hypot(x - np.cos(at), y - kind.aspect * np.sin(at))
        inside = np.maximum(inside, _edge(0.22 - distance, softness))
    return inside


def _put(
    image_HWC: np.ndarray,
    kind: Kind,
    rng: np.random.Generator,
    *,
    size: float,
    everywhere: bool = False,
) -> None:
    """Paint an object of the kind in any pose; `size` is its radius, of 1 for half the image.

    everywhere: paint its pattern on the whole image, without an outline.
    """
    px = len(image_HWC)
    x, y = _grid(px)
    centre, turn = rng.normal(0, 0.13 if size > 0.4 else 0.6, 2), rng.normal(0, 0.35)
    x, y = (x - centre[0]) / size, (y - centre[1]) / size
    x, y = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    if rng.random() < 0.5:
        x = -x
    x, y = (
        x * np.exp(rng.normal(0, 0.12)) + rng.normal(0, 0.12) * y,
        y * np.exp(rng.normal(0, 0.12)),
    )
    x, y = x + 0.07 * _smooth(rng, 4, px), y + 0.07 * _smooth(rng, 4, px)
    hue = kind.hue + rng.normal(0, 0.06) if rng.random() < 0.7 else rng.random()
    first = _colour(hue, rng.uniform(0.3, 0.9), rng.uniform(0.5, 0.95))
    second = _colour(hue + rng.normal(0, 0.2), rng.uniform(0.1, 0.9), rng.uniform(0.1, 0.6))
    if rng.random() < 0.3:
        first, second = second, first
    share = (_pattern(kind, x, y, rng) * rng.uniform(0.6, 1))[..., None]
    body = first * (1 - share) + second * share
    if kind.mark is not None:
        far = np.hypot(x - 0.45 * np.cos(kind.mark), y - 0.45 * kind.aspect * np.sin(kind.mark))
        mark = _edge(0.2 - far, 0.06)[..., None]
        body = body * (1 - mark) + (1 - first) * mark
    shade = 1 + rng.uniform(0, 0.45) * (x * rng.normal() + y * rng.normal()).clip(-1, 1)
    alpha = 1.0 if everywhere else _outline(kind, x, y, 0.05 / size)[..., None]
    image_HWC *= 1 - alpha
    image_HWC += alpha * (body * shade[..., None])


def _scene(kind: Kind, rng: np.random.Generator) -> np.ndarray:
    """A background with clutter, the object, what hides it."""
    x, y = _grid(PX)
    ground = _colour(rng.random(), rng.uniform(0, 0.6), rng.uniform(0.2, 0.9))
    image_HWC = np.ones((PX, PX, 3)) * ground
    image_HWC *= 1 + 0.3 * (rng.normal() * x + rng.normal() * y)[..., None].clip(-1, 1)
    for cells in (5, 16):
        image_HWC += 0.12 * rng.random() * _smooth(rng, cells, PX)[..., None] * rng.uniform(0, 2, 3)
    for _ in range(rng.integers(1, 5)):
        thing = any_kind(rng, int(rng.choice(LOBES)), str(rng.choice(PATTERNS)))
        _put(image_HWC, thing, rng, size=rng.uniform(0.1, 0.28))
    _put(image_HWC, kind, rng, size=rng.uniform(0.5, 0.85))
    if rng.random() < 0.4:
        angle, offset = rng.uniform(0, np.pi), rng.normal(0, 0.45)
        across = np.cos(angle) * x + np.sin(angle) * y - offset
        bar = _edge(rng.uniform(0.05, 0.15) - abs(across), 0.05)[..., None]
        image_HWC = image_HWC * (1 - bar) + bar * _colour(rng.random(), 0.4, rng.uniform(0.1, 0.9))
    return image_HWC


def _texture(kind: Kind, rng: np.random.Generator) -> np.ndarray:
    """The kind's pattern all over the image, with a thing upon it."""
    image_HWC = np.zeros((PX, PX, 3))
    _put(image_HWC, kind, rng, size=rng.uniform(0.5, 0.8), everywhere=True)
    thing = any_kind(rng, int(rng.choice(LOBES)), str(rng.choice(PATTERNS)))
    _put(image_HWC, thing, rng, size=rng.uniform(0.2, 0.5))
    return image_HWC * (1 + 0.25 * _smooth(rng, 4, PX)[..., None])


def _photographed(image_HWC: np.ndarray, rng: np.random.Generator) -> bytes:
    """A JPEG: with the camera's exposure, blur and noise."""
    image_HWC = 0.5 + (image_HWC - 0.5) * rng.uniform(0.6, 1.2) + rng.normal(0, 0.08)
    image_HWC = image_HWC * (1 + 0.1 * rng.normal(size=3))
    pixels = (255 * image_HWC.clip(0, 1)).astype(np.uint8)
    blurred = Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(rng.exponential(0.5)))
    noise = rng.normal(0, rng.uniform(0, 14), image_HWC.shape)
    noisy = (np.asarray(blurred) + noise).clip(0, 255).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(noisy).save(file, "JPEG", quality=int(rng.integers(60, 93)))
    return file.getvalue()


# --- the sets -------------------------------------------------------------------------------------

Scene = Callable[[Kind, np.random.Generator], np.ndarray]
_OBJECTS = kinds(1, 32)


@dataclass(frozen=True)
class PhotoSet:
    """Classes of photographs, and the sizes (training photos a class) that make sense.

    uneven: the largest class has `size` photos, the smallest a twentieth.
    """

    number: int
    kinds: tuple[Kind, ...]
    scene: Scene = _scene
    sizes: tuple[int, ...] = (20, 60, 200)
    uneven: bool = False

    def counts(self, size: int) -> list[int]:
        """The training photos of each class.

        >>> SETS["uneven"].counts(200)
        [200, 130, 85, 55, 36, 24, 15, 10]
        """
        if not self.uneven:
            return [size] * len(self.kinds)
        last = len(self.kinds) - 1
        return [max(1, round(size * 20 ** (-label / last))) for label in range(last + 1)]

    def photo(self, label: int, number: int, seed: int = 0) -> bytes:
        """The JPEG of a photo of a class; photos of other numbers or seeds differ."""
        rng = np.random.default_rng([self.number, label, number, seed])
        return _photographed(self.scene(self.kinds[label], rng), rng)


PRETRAINING = PhotoSet(0, tuple(_OBJECTS[:24]))
SETS = {
    "objects": PhotoSet(1, tuple(_OBJECTS[24:])),
    "textures": PhotoSet(2, tuple(texture_kinds()), _texture),
    "fine": PhotoSet(3, tuple(fine_kinds(3, 8))),
    "many": PhotoSet(4, tuple(kinds(4, 40)), sizes=(20, 60)),
    "uneven": PhotoSet(5, tuple(kinds(5, 8)), sizes=(200,), uneven=True),
}


def class_name(label: int) -> str:
    """The folder of a class; names sort as the labels do."""
    return f"class_{label:02}"


def write_training(folder: Path, name: str, size: int, seed: int = 0) -> Path:
    """The training photos of a set, below a new folder; those of a smaller size are among them."""
    photo_set = SETS[name]
    return _write(folder, photo_set, [range(n) for n in photo_set.counts(size)], seed)


def write_test(folder: Path, name: str, count: int = 100) -> Path:
    """`count` test photos of each class of a set, which no seed changes."""
    photo_set = SETS[name]
    return _write(folder, photo_set, [range(TEST, TEST + count)] * len(photo_set.kinds), 0)


def _write(folder: Path, photo_set: PhotoSet, numbers: list[range], seed: int) -> Path:
    if folder.is_dir():
        return folder  # of an earlier run: it is renamed only once it is complete
    part = folder.with_name(folder.name + ".part")
    for label, of_class in enumerate(numbers):
        (part / class_name(label)).mkdir(parents=True, exist_ok=True)
        for number in of_class:
            path = part / class_name(label) / f"{number:03}.jpg"
            path.write_bytes(photo_set.photo(label, number, seed))
    part.rename(folder)
    return folder


def decoded(jpeg: bytes | Path, px: int) -> np.ndarray:
    """uint8 pixels_HWC of a photo, resized to `px`."""
    with Image.open(BytesIO(jpeg) if isinstance(jpeg, bytes) else jpeg) as image:
        return np.asarray(image.convert("RGB").resize((px, px), Image.Resampling.BILINEAR))


def read_folder(folder: Path, px: int) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 pixels_NHWC, labels_N) of a folder of classes."""
    pairs = list(_files(folder))
    return np.stack([decoded(path, px) for path, _ in pairs]), np.array([k for _, k in pairs])


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for label, path in enumerate(sorted(folder.iterdir())):
        yield from ((file, label) for file in sorted(path.iterdir()))
