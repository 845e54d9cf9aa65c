"""The results of a user's function that are images, and the faults of others."""

import sys
from types import ModuleType

import numpy as np
import photos
import pytest
import torch
from PIL import Image

from tuner.spec.settings import FaultsError
from tuner.vision.sources._module import find, import_loader

LABELS = [n % 3 for n in range(12)]
PIXELS = np.stack([photos.pixels(label, seed=n) for n, label in enumerate(LABELS)])


class Plain:
    """A map-style Dataset."""

    def __init__(self, labels=LABELS, image=Image.fromarray):
        self.items = [
            (image(p), label) for p, label in zip(PIXELS, labels, strict=True)
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]


class Named(Plain):
    """One that has its labels and classes apart, as torchvision's have."""

    classes = ("daisy", "rose", "tulip")

    @property
    def targets(self):
        return np.array([label for _, label in self.items])


@pytest.fixture
def find_value(monkeypatch):
    """The images that a module's `load` returns."""

    def images(value):
        module = ModuleType("mine")
        module.load = value if callable(value) else lambda: value
        monkeypatch.setitem(sys.modules, "mine", module)
        return find("mine:load", None)

    return images


@pytest.mark.parametrize(
    "value",
    [
        (PIXELS, LABELS),
        (list(PIXELS), np.array(LABELS)),
        (torch.tensor(PIXELS), torch.tensor(LABELS)),
        *(Plain(image=np.asarray), Named()),
    ],
)
def test_find_takes_arrays_and_datasets(find_value, value):
    images = find_value(value)
    assert images.labels_N.tolist() == LABELS
    assert images.splits_N.tolist() == [0] * 12
    assert (images.channels, images.own_size, images.fingerprint) == (3, 40, None)
    assert np.array_equal(np.asarray(images.read(5)), PIXELS[5])


def test_find_names_classes_by_the_data_set_or_its_labels(find_value):
    assert find_value(Named()).classes == Named.classes
    numbered = find_value((PIXELS, [label + 5 for label in LABELS]))
    assert numbered.classes == tuple("567")
    named = find_value((PIXELS, ["xyz"[label] for label in LABELS]))
    assert named.classes == tuple("xyz")
    assert named.labels_N.tolist() == LABELS


def test_find_takes_user_splits(find_value):
    mapping = {"test": (PIXELS[:3], LABELS[:3]), "train": (PIXELS[3:], LABELS[3:])}
    names = ["test"] * 3 + ["train"] * 9
    for value in (mapping, (PIXELS, LABELS, names)):
        images = find_value(value)
        assert images.splits_N.tolist() == [0] * 9 + [2] * 3
        assert np.array_equal(images.read(9), PIXELS[0])


@pytest.mark.parametrize(
    "value",
    [
        3,
        (PIXELS, LABELS[:3]),
        {"train": (PIXELS, LABELS), "extra": 1},
        {"val": (PIXELS, LABELS)},
        [1, 2, 3],
        (PIXELS / 255, LABELS),
        (PIXELS, [0] * 12),
        (PIXELS, LABELS, ["train"] * 11),
        (PIXELS, LABELS, ["train"] * 11 + ["x"]),
        (PIXELS[:0], []),
        lambda: 1 / 0,
        *(
            (PIXELS, [label, *LABELS[1:]])
            for label in (float("nan"), None, [0, 1], 1j, np.eye(3)[0])
        ),
    ],
)
def test_find_rejects_other_results(snapshot, find_value, value):
    with snapshot.raises(FaultsError):
        find_value(value)


def test_find_with_a_first_grey_image_looks_for_colours(find_value):
    grey = [Image.fromarray(pixels).convert("L") for pixels in PIXELS]
    assert find_value((grey, LABELS)).channels == 1
    mixed = [grey[0], *map(Image.fromarray, PIXELS[1:])]
    assert find_value((mixed, LABELS)).channels == 3


def test_read_of_another_label_raises(snapshot, find_value):
    class Shifted(Named):
        def __getitem__(self, number):
            image, label = self.items[number]
            return image, (label + 1) % 3

    with snapshot.raises(FaultsError):
        find_value(Shifted())

    class Transformed(Shifted):
        target_transform = staticmethod(lambda label: (label + 1) % 3)

    shifted = [(label + 1) % 3 for label in LABELS]
    assert find_value(Transformed()).labels_N.tolist() == shifted


@pytest.mark.parametrize("path", ["no_such_module:load", "photos:CLASSES", "os:getcwd"])
def test_import_loader_rejects_what_is_no_function(snapshot, path):
    with snapshot.raises(FaultsError):
        import_loader(path)
