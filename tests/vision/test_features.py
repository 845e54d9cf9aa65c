"""A frozen network's features, and heads on them, beside the network itself."""

import shutil

import numpy as np
import photos
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from test_image_classifier import quick
from torch.nn.functional import cross_entropy

from tuner.errors import CheckpointError, Fault, SpecError
from tuner.experiment.files import compute_sha256
from tuner.vision import feature_heads, features, image_classifier
from tuner.vision import weights as weights_module
from tuner.vision.batches import Batcher
from tuner.vision.image_classifier import ImageClassifier
from tuner.vision.loss import Measured
from tuner.vision.model_catalog import find_model_info
from tuner.vision.recipe import Augmentation
from tuner.vision.transfer import add_backbone
from tuner.vision.weight_files import describe_source
from tuner.vision.weights import find_hub_folder

DIGITS = {
    "model": "cnn",
    "width": 8,
    "dataset": "digits",
    "epochs": 2,
    "batch_size": 64,
}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    features._kept.clear()
    return tmp_path / "data" / features.STORE


def train_cnn(path, **constants):
    """Write the weights of a cnn after an epoch."""
    torch.manual_seed(0)
    learner = ImageClassifier({"lr": 0.3}, {**DIGITS, "epochs": 1, **constants})
    learner.step()
    state = learner.model.state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A cnn that has trained on digits for an epoch."""
    path = tmp_path_factory.mktemp("weights") / "digits.safetensors"
    train_cnn(path)
    link = path.with_name("link.safetensors")  # as the cache of huggingface_hub has it
    link.symlink_to(path)
    return link


def list_folders(store):
    return [path for path in store.iterdir() if path.is_dir()]


def build_head(weights, *, lr=0.1, **more):
    settings = {"train_layers": "head", "start_from": str(weights), **more}
    return ImageClassifier({"lr": lr}, {**DIGITS, **settings})


@pytest.mark.parametrize(
    "settings",
    [{"flip": True}, {"optimizer": "lbfgs", "lr": 1.0, "weight_decay": 0.03}],
)
def test_a_head_continues_from_its_state_bit_for_bit(weights, settings):
    learner = build_head(weights, **settings)
    learner.step()
    state = learner.state_dict()
    assert state["model"].keys() == {"head.weight", "head.bias"}
    resumed = build_head(weights, **settings)
    resumed.load_state_dict(state)
    expected = learner.step()
    measured = resumed.step()
    assert quick(measured) == quick(expected)


def test_features_are_computed_once_for_all_processes(weights, store, capsys):
    build_head(weights)
    [folder] = list_folders(store)
    features._kept.clear()  # as in another process
    build_head(weights)
    assert list_folders(store) == [folder]
    assert capsys.readouterr().err.count("computing the features") == 1


@pytest.mark.parametrize("change", [{"pixel_stats": "imagenet"}, {"flip": True}])
def test_features_of_other_preprocessing_are_others(change, weights, store):
    build_head(weights)
    build_head(weights, **change)
    assert len(list_folders(store)) == 2


def test_fine_tuning_can_begin_with_the_fitted_head(weights):
    constants = {**DIGITS, "start_from": str(weights), "fit_head": True}
    learner = ImageClassifier({"lr": 1e-6}, constants)
    learner.step()
    head = build_head(weights, fit_head=True, lr=1e-6)
    head.step()
    trained = learner.model.get_parameter("head.weight")
    assert torch.allclose(trained, head.model.get_parameter("head.weight"), atol=1e-3)


def test_a_refit_begins_with_a_head_of_all_its_images(weights):
    learner = build_head(weights, fit_head=True, lr=1e-9, train_on="all")
    learner.step()
    features = learner._load_features()
    images = learner._searched_on
    rows = images.splits["train"], images.splits["validation"]
    w_KF, _ = feature_heads.fit_head(features, images, *rows, fits_N=torch.arange(1797))
    assert torch.allclose(learner.model.get_parameter("head.weight"), w_KF, atol=1e-4)
    searched_KF, _ = feature_heads.fit_head(features, images, *rows)
    assert not torch.allclose(searched_KF, w_KF, atol=1e-2)


def build_regressed_head(weights, **more):
    return build_head(weights, **{"optimizer": "lbfgs", "epochs": 1, **more}, lr=1.0)


def fit_by_scikit_learn(learner, weight_decay, class_weight=None):
    """The probabilities of all images by the regression that the learner has fitted."""
    x_NF = learner._load_features().views_NUMF[:, 0, 0]
    train_N = learner._data.splits["train"]
    mean_F, std_F = feature_heads._compute_scale(x_NF[train_N])
    z_NF = ((x_NF - mean_F) / std_F).double().numpy()
    expected = LogisticRegression(
        C=1 / (weight_decay * len(train_N)),
        max_iter=2000,
        tol=1e-8,
        class_weight=class_weight,
    )
    expected.fit(z_NF[train_N], learner._data.labels_N[train_N].numpy())
    return torch.tensor(expected.predict_proba(z_NF))


def test_lbfgs_fits_the_head_that_scikit_learn_fits(weights):
    learner = build_regressed_head(weights, weight_decay=0.03)
    report = learner.step()
    held_out_N = learner._data.splits["validation"]
    labels_N = learner._data.labels_N[held_out_N]
    loss = log_loss(labels_N, fit_by_scikit_learn(learner, 0.03)[held_out_N])
    assert report["val_loss"] == pytest.approx(loss, rel=0.01)


def test_lbfgs_fits_smoothed_labels(weights):
    plain, smooth = (
        build_regressed_head(weights, weight_decay=0.01, label_smoothing=each)
        for each in (0.0, 0.3)
    )
    smooth.step()
    plain.step()
    assert smooth.test()["test_loss"] > plain.test()["test_loss"] + 0.1


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({}, 1),
        ({"folds": 3, "fold_epochs": 1}, 3),
        ({"train_on": "train+validation"}, 1),
    ],
)
def test_lbfgs_weighs_classes_as_scikit_learn_does(tmp_path, settings, fits):
    photos.write(tmp_path / "uneven", each=90, classes=["daisy"])
    photos.write(tmp_path / "uneven", each=20, classes=["rose", "tulip"], seed=90)
    data = {"dataset": f"folder:{tmp_path / 'uneven'}", "image_size": 8}
    train_cnn(tmp_path / "rgb.safetensors", **data)
    learner = build_regressed_head(
        tmp_path / "rgb.safetensors",
        **data,
        weight_decay=0.03,
        class_weights="balanced",
        **settings,
    )
    for _ in range(fits):
        learner.step()
        x_NFUM = learner._load_features().views_NUMF.movedim(3, 1)
        shares_NK = learner.model(x_NFUM).detach().softmax(1).double()
        assert torch.allclose(
            shares_NK, fit_by_scikit_learn(learner, 0.03, "balanced"), atol=0.01
        )
        assert not torch.allclose(
            shares_NK, fit_by_scikit_learn(learner, 0.03), atol=0.05
        )


def test_crops_of_the_training_images_are_fitted_and_never_measured(weights, store):
    crops = {"crops_per_image": 3, "crop_scale": 0.5}
    cropped = build_regressed_head(weights, weight_decay=0.03, **crops)
    plain = build_regressed_head(weights, weight_decay=0.03)
    own = cropped._load_features()
    expected = plain._load_features()
    assert own.views_NUMF.shape == (1797, 1, 2, 32)
    assert torch.equal(own.views_NUMF, expected.views_NUMF)
    assert own.crops_NVF.shape == (1797, 3, 32)
    assert not torch.equal(own.crops_NVF[:, 0], own.crops_NVF[:, 1])
    assert len(list_folders(store)) == 2


def test_features_are_the_same_in_any_number_of_threads(weights, store, monkeypatch):
    views = []
    for count in (1, 4):
        monkeypatch.setattr(features, "count_usable_cpus", lambda count=count: count)
        views.append(build_regressed_head(weights)._load_features().views_NUMF)
        shutil.rmtree(store)
        features._kept.clear()
    assert torch.allclose(*views, atol=1e-5)


def test_a_fault_in_a_thread_ends_all_of_them(weights, monkeypatch):
    def fail(*_):
        raise SpecError([Fault("train_layers", "cannot work")], "the image classifier")

    monkeypatch.setattr(features, "count_usable_cpus", lambda: 2)
    monkeypatch.setattr(features, "_compute_layer_inputs", fail)
    with pytest.raises(SpecError, match="cannot work"):
        build_regressed_head(weights)


def test_features_may_lie_on_another_device_than_the_images(weights, monkeypatch):
    """Features often fit on a GPU whose memory the images exceed."""
    rows = []

    def noted(part, rows_N, **_):
        rows.append(rows_N.device.type)
        return Measured({"loss": 0.0, "accuracy": 0.0}, None)

    monkeypatch.setattr(
        features, "choose_device", lambda size, device: torch.device("meta")
    )
    monkeypatch.setattr(image_classifier, "evaluate", noted)
    build_head(weights).test()
    assert rows == ["meta"]


def test_a_head_of_weights_that_have_changed_cannot_be_completed(
    snapshot, weights, tmp_path
):
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(weights.read_bytes())
    learner = build_head(copy)
    learner.step()
    train_cnn(copy, seed=1)
    with snapshot.raises(CheckpointError):
        add_backbone(learner.state_dict(), learner._settings, learner._plan)


def test_a_head_is_completed_by_the_weights_that_it_was_trained_on(
    tmp_path, monkeypatch
):
    """A newer file of the network's weights may have been fetched since."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    find_hub_folder().mkdir(parents=True)
    model = "torchvision:mobilenet_v3_small"
    info = find_model_info(model)
    network = info.build(in_channels=3, num_classes=4, model_args={})
    known = []
    for name in ("mobilenet_v3_small", "mobilenet_v3_small-v1"):
        torch.nn.init.normal_(network.features[0][1].weight)
        torch.save(network.state_dict(), tmp_path / name)
        sha256 = compute_sha256(tmp_path / name)
        known.append(weights_module.Weights(name, sha256[:8], 10, 1))
    monkeypatch.setattr(weights_module, "WEIGHTS", known)
    newer, older = known
    (tmp_path / older.name).rename(older.path)  # the last of both networks
    settings = {"model": model, "pretrained": True, "train_layers": "head"}
    learner = ImageClassifier({}, {**DIGITS, "width": None, **settings})
    learner.step()
    head = learner.state_dict(), learner._settings, learner._plan
    (tmp_path / newer.name).rename(newer.path)
    complete = add_backbone(*head)["model"]["features.0.1.weight"]
    assert torch.equal(complete, network.features[0][1].weight)
    recorded = learner._settings.model_copy(update={"weights_sha256": {model: sha256}})
    assert describe_source(learner._settings, info) == str(newer.path)
    assert describe_source(recorded, info) == str(older.path)
    older.path.unlink()
    with pytest.raises(CheckpointError, match="weights fetch mobilenet_v3_small-v1"):
        add_backbone(*head)


VIEWS = [[], [3], [2], [2, 3]]  # the axes along which each is flipped


@pytest.fixture(scope="module")
def lite(tmp_path_factory):
    """The settings of a network with random weights that can show its head all levels."""
    torch.manual_seed(0)
    arguments = {"in_channels": 3, "num_classes": 3, "levels": False}
    network = find_model_info("efficientnet_lite0").build(**arguments)
    folder = tmp_path_factory.mktemp("lite")
    save_file(network.state_dict(), folder / "lite.safetensors")
    return {
        "model": "efficientnet_lite0",
        "dataset": f"folder:{photos.write(folder / 'photos', each=10)}",
        "image_size": 33,
        "train_layers": "head",
        "start_from": str(folder / "lite.safetensors"),
        "crop_scale": 0.4,
        "epochs": 1,
        "batch_size": 8,
    }


def build_lite_head(lite, **more):
    return ImageClassifier(more, lite)


def build_complete_network(learner):
    state = add_backbone(learner.state_dict(), learner._settings, learner._plan)
    network = learner._plan.initialize_model()
    network.load_state_dict(state["model"])
    return network.eval()


def load_images(learner, split):
    """(x_NCHW, labels_N) of the images themselves."""
    images = learner._data
    batcher = Batcher(images, dtype=torch.float32, augmentation=Augmentation())
    return batcher.build_batch(images.splits[split])


@settings(max_examples=6)
@given(
    flips=st.fixed_dictionaries(
        {
            name: st.booleans()
            for name in ("flip", "vertical_flip", "test_time_flip", "levels")
        }
    ),
    crops=st.sampled_from([0, 2]),
    by_steps=st.booleans(),
)
def test_a_head_sees_the_views_that_are_flipped_by_hand(lite, flips, crops, by_steps):
    optimizer = {"optimizer": "lbfgs", "crops_per_image": crops}
    if by_steps:
        optimizer = {}
    learner = build_lite_head(lite, **flips, **optimizer)
    report = learner.step()
    network = build_complete_network(learner)
    x_NCHW, labels_N = load_images(learner, "test")
    measured = [VIEWS[0]]
    if flips["test_time_flip"]:
        measured = VIEWS if flips["vertical_flip"] else VIEWS[:2]
    fitted = [
        axes
        for axes in VIEWS
        if flips["flip"] >= (3 in axes) and flips["vertical_flip"] >= (2 in axes)
    ]
    with torch.no_grad():
        views = [network(x_NCHW.flip(axes)) for axes in measured]
        loss = cross_entropy(torch.stack(views).mean(0), labels_N)
        assert learner.test()["test_loss"] == pytest.approx(loss.item(), rel=1e-3)
        if by_steps:
            return
        x_NCHW, labels_N = load_images(learner, "train")
        logits = [network(x_NCHW.flip(axes)) for axes in fitted]
        features = learner._load_features()
        assert (features.crops_NVF is not None) == bool(crops)
        if crops:
            crops_NVF = features.crops_NVF[learner._data.splits["train"]]
            head = network.get_submodule(features.head)
            logits += [head(crops_NVF[:, crop]) for crop in range(crops)]
        labels_N = labels_N.repeat(len(logits))
        loss = cross_entropy(torch.cat(logits), labels_N)
        assert report["train_loss"] == pytest.approx(loss.item(), rel=1e-3)


def test_a_head_trains_on_features_of_the_images_that_a_network_trains_on(lite):
    augmentation = {"flip": True, "vertical_flip": True}
    learner = build_lite_head(lite, **augmentation, seed=3)
    images = Batcher(
        learner._data, dtype=torch.float32, augmentation=Augmentation(**augmentation)
    )
    x_NCHW, labels_N = images.build_training_batch(
        images.plan_epoch(1, seed=3), slice(0, None)
    )
    x_NFUM, same_labels_N = learner._batcher.build_training_batch(
        learner._batcher.plan_epoch(1, seed=3), slice(0, None)
    )
    assert torch.equal(same_labels_N, labels_N)
    assert x_NFUM.shape[2:] == (2, 2)
    with torch.inference_mode():
        expected_NK = build_complete_network(learner)(x_NCHW)
        assert torch.allclose(learner.model(x_NFUM), expected_NK, rtol=1e-3, atol=1e-4)


def test_features_upside_down_are_computed_beside_those_that_are_stored(lite, store):
    plain = build_lite_head(lite, flip=True)._load_features()
    [before] = list_folders(store)
    both = build_lite_head(lite, flip=True, vertical_flip=True)._load_features()
    [added] = set(list_folders(store)) - {before}
    assert torch.equal(both.views_NUMF[:, :1], plain.views_NUMF)
    upside_down = torch.from_numpy(np.load(added / "features.npy"))
    assert upside_down.shape[:2] == (30, 2)
    width = both.views_NUMF.shape[3]
    assert torch.equal(both.views_NUMF[:, 1], upside_down[..., :width])
