"""A search of heads takes what fits into its time."""

import photos
import pytest
from own_folders import render_yaml, write_pngs
from prepared import resolve_spec

from tuner.vision.default_search import (
    build_default_experiment,
)

pytestmark = pytest.mark.usefixtures("own_folders_alone")


def test_heads_get_as_many_pixels_networks_and_crops_as_the_time_allows(
    snapshot, tmp_path, torch_home, package, count_two_cpus
):
    """A pass of one network over 600 images at 224 px takes 11 s on two cores."""
    for each, minutes in ((200, (0.01, 0.5, 2, 10, 40)), (1000, (10, 40))):
        write_pngs(tmp_path / f"{each}", each=each, size=(64, 64), classes="abc")
        for budget in minutes:
            raw = build_default_experiment(
                f"folder:{each}", tmp_path, {}, {}, budget * 60
            )
            chosen = render_yaml({key: raw[key] for key in ("training", "search")})
            snapshot(f"3 x {each} images, {budget} minutes\n{chosen}")


@pytest.mark.parametrize(
    ("training", "space", "size", "tries"),
    [
        ({}, {}, 224, True),
        ({"vertical_flip": False}, {}, 224, False),
        ({"flip": False}, {}, 224, False),
        ({"vertical_flip": True}, {}, 160, False),
        ({}, {"vertical_flip": "choice([True, False])"}, 160, False),
    ],
)
def test_time_of_views_upside_down_counts_where_the_user_sets_them(
    tmp_path, torch_home, package, count_two_cpus, training, space, size, tries
):
    write_pngs(tmp_path / "cells", each=200, size=(64, 64), classes="abc")
    raw = build_default_experiment("folder:cells", tmp_path, training, space, 120)
    assert raw["training"]["image_size"] == size
    assert ("vertical_flip" in raw["search"]["space"]) == tries
    points = raw["search"]["points_to_evaluate"]
    assert any(point.get("vertical_flip") for point in points) == tries


def test_heads_are_validated_on_the_split_that_came_with_the_images(tmp_path, package):
    for split in ("train", "validation", "test"):
        photos.write(tmp_path / "split" / split, each=12)
    spec, _ = resolve_spec("folder:split", [])
    assert (spec.training["train_layers"], spec.training.get("folds")) == ("head", None)
