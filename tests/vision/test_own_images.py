"""What is said of a user's own images: in a plan, before a search, and after it."""

import re

import photos
import pytest
import torch
from own_folders import (
    pin_data,
    validate_default,
)
from prepared import resolve_spec

from tuner.errors import SpecError
from tuner.reporting.plan_text import format_plan
from tuner.spec.plan import describe_plan
from tuner.spec.validation import validate
from tuner.vision.declaration import DECLARATION
from tuner.vision.models.resnet import resnet10

pytestmark = pytest.mark.usefixtures("own_folders_alone")


def test_plan_shows_images_and_doubts(snapshot, photos_dir):
    for number in range(4, 12):
        (photos_dir / "rose" / f"{number:04}.jpg").unlink()
    spec = validate_default(photos_dir)
    plan = describe_plan(spec, here=True)
    snapshot(str(plan["data"]))
    assert "20 / 4 / 4 of 3x40x40" in format_plan(spec, plan, "here")
    assert not any("uneven" in doubt for doubt in pin_data(spec).doubts)
    (photos_dir / "rose" / "0003.jpg").unlink()
    doubts = pin_data(validate_default(photos_dir)).doubts
    [uneven] = [doubt for doubt in doubts if "uneven" in doubt]
    advised = re.search(r"objective\.\S+", uneven)[0]
    spec, _ = resolve_spec("folder:my photos", [advised])
    assert (spec.objective.mode, spec.training["metrics"]) == (
        "max",
        ["balanced_accuracy"],
    )


def test_copies_across_splits_are_reported_after_decoding(tmp_path):
    for split in ("train", "test"):  # the same photos
        photos.write(tmp_path / "photos" / split)
    spec = validate_default(tmp_path / "photos")
    data = pin_data(spec)
    [warning] = data.doubts
    assert "are exact copies of images of another split" in warning
    counted = data.baseline
    assert counted["copies"] == 30 < counted["measured"] > counted["images"]


def test_skipped_files_are_reported_with_each_search(photos_dir):
    (photos_dir / "rose" / "a.heic").touch()
    doubt = f"1 file in {photos_dir} left out: 1 .heic"
    for _ in range(2):
        assert pin_data(validate_default(photos_dir)).doubts == (doubt,)


def test_skipped_images_are_counted_and_listed(photos_dir):
    (photos_dir / "rose" / "0003.jpg").write_bytes(b"no image")
    spec = validate_default(photos_dir, skip_unreadable=True)
    data = pin_data(spec)
    [warning] = data.doubts
    assert warning.startswith("1 image skipped that cannot be read: ")
    assert data.constants["image_size"] is None  # that of the decoded images
    plan = describe_plan(spec, here=False, data=data)
    assert plan["data"]["classes"] == {"daisy": 12, "rose": 11, "tulip": 12}
    [skipped] = plan["data"]["skipped"]
    assert skipped.startswith(str(photos_dir / "rose" / "0003.jpg"))


MODULE = """
import numpy as np

def load():
    images = np.arange(40, dtype=np.uint8)[:, None, None, None] * np.ones((9, 9, 3), np.uint8)
    return images, [n % 2 for n in range(40)]
"""


def test_data_faults_are_checked_before_trials(snapshot, tmp_path, monkeypatch):
    (tmp_path / "own_images_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    raw = {
        "training": {"dataset": "own_images_of_a_test:load"},
        "search": {"space": {"batch_size": "choice([8, 64])"}},
        "num_samples": 1,
    }
    spec = validate(raw)
    assert "data" not in describe_plan(spec, here=False)
    with snapshot.raises(SpecError):
        pin_data(spec)
    fits = validate({**raw, "search": {"space": {"batch_size": "choice([8, 28])"}}})
    data = pin_data(fits)
    assert data.doubts == ()
    assert data.constants["dataset"].startswith("decoded:own_images")


def test_doubt_about_uneven_classes_names_what_counts_them_alike(
    snapshot, photos_dir, torch_home
):
    photos.write(photos_dir, each=42, classes=["daisy"])
    snapshot("\n".join(pin_data(validate_default(photos_dir)).doubts))


@pytest.mark.parametrize(
    ("settings", "whose"),
    [
        ({"model": "efficientnet_lite0"}, "pretrained weights of efficientnet_lite0"),
        ({"model": "resnet10"}, "those of the data"),
        ({"pixel_stats": {"mean": [0.5] * 3, "std": [0.5] * 3}}, None),
    ],
)
def test_hint_says_whose_pixel_stats_a_file_of_weights_gets(
    photos_dir, settings, whose
):
    network = resnet10(in_channels=3, num_classes=3, width=16, norm="batch")
    torch.save(network.state_dict(), "x.pt")
    spec = validate_default(photos_dir, start_from="x.pt", image_size=64, **settings)
    hints = list(DECLARATION.list_hints(spec))
    assert len(hints) == bool(whose)
    assert all(whose in hint for hint in hints)
