"""The image classifier with networks from elsewhere: it does all that it does with its own."""

from unittest.mock import patch

import pytest
import real_ranks
import tiny_images
import torch
from own_networks import own
from test_image_classifier import ClassifierContract
from test_replica import short_of_memory
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from tuner.errors import SpecError
from tuner.vision import replica
from tuner.vision.image_classifier import ImageClassifier

TINY = {"dataset": "tiny", "batch_size": 16, "epochs": 3}
EXACT = {
    **{k: v for k, v in tiny_images.EXACT.items() if k not in ("model", "width", "norm")},
    "epochs": 2,
}


class TestDrawing(ClassifierContract):
    """Goes on from a checkpoint bit for bit, though it draws from every global generator."""

    def make(self, *, seed=0):
        config = {"lr": 0.1, "model_args": {"dropout": 0.4}}
        constants = {**TINY, "model": own("Drawing"), "model_args": {"width": 6}, "seed": seed}
        return ImageClassifier(config, constants)


def learner(name, *, rank=0, world_size=1, **settings):
    constants = {**TINY, "model": own(name), **settings}
    return ImageClassifier({}, constants, rank=rank, world_size=world_size)


def test_arguments_of_the_config_join_those_of_the_constants():
    constants = {**TINY, "model": own("Small"), "model_args": {"width": 6, "dropout": 0.5}}
    model = ImageClassifier({"model_args": {"dropout": 0.1}}, constants).model
    assert (model.conv.out_channels, model.drop.p) == (6, 0.1)


def test_what_it_draws_follows_from_seed_and_epoch():
    """Each epoch has draws of its own: the same weights and images, other gradients."""

    def second_epoch(seed):
        one = learner("Small", seed=seed, lr=1e-12, model_args={"dropout": 0.5})
        return [one.step()["train_loss"] for _ in range(2)]

    first = second_epoch(0)
    assert first == second_epoch(0)
    assert first[0] != first[1]


def test_a_network_that_cannot_train_on_one_image_is_told_at_the_start():
    assert tiny_images.INFO.train % 16 == 1
    with pytest.raises(SpecError, match="batch_size: leaves a worker with 1 image of"):
        learner("Flat")
    assert learner("Flat", batch_size=13).step()["val_loss"] > 0


def test_its_layers_are_frozen_and_its_norms_have_a_rate_of_their_own():
    one = learner("Small", freeze=["conv"], norm_bias_lr=2.0, lr_schedule="constant")
    before = one.model.conv.weight.detach().clone()
    report = one.step()
    assert torch.equal(one.model.conv.weight, before)
    groups = one.state_dict()["optimizer"]["param_groups"]
    rates = {len(group["params"]): group["lr"] for group in groups}
    assert rates[1] == pytest.approx(2 * report["lr"])
    with pytest.raises(SpecError, match=r"freeze: matches no parameter.*conv, norm, head"):
        learner("Small", freeze=["features"])


def test_it_begins_with_weights_for_other_classes(tmp_path, capsys):
    given = learner("Plain").model.state_dict()
    given["head.weight"], given["head.bias"] = torch.zeros(3, 4), torch.zeros(3)
    torch.save(given, tmp_path / "weights.pt")
    one = learner("Plain", start_from=str(tmp_path / "weights.pt"), lr=1e-12)
    one.step()
    assert capsys.readouterr().out.endswith("new: head.weight, head.bias\n")
    assert torch.allclose(one.model.conv.weight, given["conv.weight"], atol=1e-9)


@pytest.mark.parametrize("settings", [{"precision": "bf16"}, {"dtype": "float64"}])
def test_it_computes_in_any_precision(settings):
    assert learner("Small", **settings).step()["train_loss"] > 0


@pytest.mark.slow
def test_it_is_compiled():
    settings = {"model_args": {"dropout": 0.0}, "batch_size": 13, "lr": 0.01}
    plain, compiled = (learner("Small", compile=c, **settings).step() for c in (False, True))
    assert compiled["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-4)


def test_out_of_memory_leaves_its_buffers_as_they_were():
    """Also those that a forward pass puts others in the place of."""
    settings = {**EXACT, "model": own("Unused")}
    whole, short = (ImageClassifier({}, settings) for _ in range(2))
    failures = []
    short_of_memory(short, 8, failures)
    whole.step()
    assert whole.model.seen == 4
    short.step()
    assert failures == [16]
    assert short.model.seen == 7  # in 2, 2, 2 and 1 parts


def result_of(one):
    reports = [one.step() for _ in range(2)]
    names = ("train_loss", "val_loss", "val_accuracy")
    metrics = [{name: report[name] for name in names} for report in reports]
    return {"metrics": metrics, "model": one.state_dict()["model"]}


def as_on_cuda():
    return patch.object(replica, "OVERLAPPING", ("cpu",))


def plain(rank):
    return result_of(learner("Plain", rank=rank, world_size=2, **EXACT))


def unused(rank):
    return result_of(learner("Unused", rank=rank, world_size=2, **EXACT))


def overlapping(rank):
    """As on CUDA, where DistributedDataParallel exchanges, unless parameters are left out."""
    results = {}
    for name in ("Plain", "Unused"):
        ran = set()
        hook = register_module_forward_pre_hook(
            lambda module, inputs, ran=ran: ran.add(type(module))
        )
        with as_on_cuda():
            one = learner(name, rank=rank, world_size=2, **EXACT)
            results[name] = result_of(one)
        assert DistributedDataParallel in ran
        assert one._part._uses_all is (name == "Plain")
        hook.remove()
    return results


EXPERTS = {**EXACT, "optimizer": "adamw", "weight_decay": 0.1}


def experts(rank):
    return result_of(learner("Experts", rank=rank, world_size=2, **EXPERTS))


def overlapping_experts(rank):
    """Two steps use all of them, a later one does on rank 1 alone; one image uses one."""
    with as_on_cuda():
        one = learner("Experts", rank=rank, world_size=2, **EXPERTS)
        result = result_of(one)
    assert one._part._uses_all
    return result


def overlapping_in_parts(rank):
    """The last of the parts of a step, in which the ranks exchange, uses other parameters."""
    with as_on_cuda():
        one = learner("Experts", rank=rank, world_size=2, **EXPERTS)
        one.load_state_dict({**one.state_dict(), "micro_batch_size": 3})
        return result_of(one)


def overlapping_checkpointed(rank):
    with as_on_cuda():
        return result_of(learner("Checkpointed", rank=rank, world_size=2, **EXACT))


def drawing(rank):
    return result_of(learner("Drawing", rank=rank, world_size=2, batch_size=16))


CASES = (
    *(plain, unused, overlapping, drawing),
    *(experts, overlapping_experts, overlapping_in_parts, overlapping_checkpointed),
)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return real_ranks.run({case.__name__: case for case in CASES}, tmp_path_factory.mktemp("ranks"))


def assert_equals_one_process(result, name, settings):
    alone = result_of(learner(name, **settings))
    for got, wanted in zip(result["metrics"], alone["metrics"], strict=True):
        assert got == pytest.approx(wanted, rel=1e-11)
    for key, value in alone["model"].items():
        assert (result["model"][key].double() - value.double()).abs().max() <= 1e-12, key


@pytest.mark.parametrize(
    ("case", "network"),
    [
        *(("plain", "Plain"), ("unused", "Unused"), ("overlapping_checkpointed", "Checkpointed")),
        *((case, "Experts") for case in ("experts", "overlapping_experts", "overlapping_in_parts")),
        *(("overlapping", "Plain"), ("overlapping", "Unused")),
    ],
)
def test_two_ranks_equal_one_process(ranks, case, network):
    settings = EXPERTS if network == "Experts" else EXACT
    for result in ranks:
        of_case = result[case][network] if case == "overlapping" else result[case]
        assert_equals_one_process(of_case, network, settings)


def test_ranks_of_a_network_that_draws_agree_on_the_weights(ranks):
    first, second = (result["drawing"] for result in ranks)
    assert first["metrics"] == second["metrics"]
    for key, value in first["model"].items():
        assert torch.equal(value, second["model"][key]), key
