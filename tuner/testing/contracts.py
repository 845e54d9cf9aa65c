"""The contracts of networks, data sets, Declarations and Learners: a test inherits one.

class TestMyNet(ModelContract):
    network = MyNet
    model_args = {"width": 8}

class TestDigits(DatasetContract):
    info = DATASET

class TestLineDeclaration(DeclarationContract):
    learner = Line
    spec = {"search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}
    refused = {"training.points": 0}

class TestMyLearner(LearnerContract):
    def make(self, *, seed=0):
        constants = {"epochs": 3, "seed": seed}
        return MyLearner({"lr": 0.1}, constants, device="cpu", rank=0, world_size=1)
"""

# N images, C channels, H W pixels, K classes

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Mapping
from inspect import getattr_static
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tuner.errors import SpecError
from tuner.search.preparation import Plan, prepare
from tuner.spec.declaration import Declaration
from tuner.spec.plan import describe_plan
from tuner.spec.settings import build_schema
from tuner.spec.text import apply_assignments
from tuner.trial.learner import Learner
from tuner.trial.reports import DONE
from tuner.vision.blueprint import Blueprint
from tuner.vision.datasets._dataset import DatasetInfo, ImageArrays
from tuner.vision.epochs import seed_generators
from tuner.vision.models._foreign import find_argument_faults
from tuner.vision.new_model import find_logits_fault

SPLITS = ("train", "validation", "test")


class ModelContract:
    """Inherit, set `network`, and every test below runs on it, for images of this shape."""

    network: Callable[..., Any]
    model_args: ClassVar[Mapping[str, Any]] = {}
    in_channels = 3
    image_size = 32
    num_classes = 10

    def make(self, *, seed: int = 0) -> nn.Module:
        """The network as a trial builds it."""
        network = getattr_static(self, "network")
        path = f"{network.__module__}:{network.__qualname__}"
        plan = Blueprint(
            name=path,
            settings={"model_args": dict(self.model_args)},
            in_channels=self.in_channels,
            image_size=self.image_size,
            num_classes=self.num_classes,
        )
        with seed_generators(seed):
            return plan.initialize_model()

    def sample_images(self, count: int) -> Tensor:
        """x_NCHW, the same each time."""
        generator = torch.Generator().manual_seed(0)
        shape = (count, self.in_channels, self.image_size, self.image_size)
        return torch.randn(shape, generator=generator)

    def test_it_takes_its_arguments(self) -> None:
        network = getattr_static(self, "network")
        assert [
            str(fault) for fault in find_argument_faults(network, self.model_args)
        ] == []

    def test_it_returns_logits(self) -> None:
        model = self.make()
        for training in (True, False):
            logits_NK = model.train(training)(self.sample_images(3))
            assert find_logits_fault(logits_NK, 3, self.num_classes) is None

    def test_a_seed_repeats_its_weights(self) -> None:
        first, again = (self.make().state_dict() for _ in range(2))
        assert all(torch.equal(value, again[name]) for name, value in first.items())

    def test_its_weights_train(self) -> None:
        model = self.make().train()
        logits_NK = model(self.sample_images(3))
        nn.functional.cross_entropy(
            logits_NK, torch.zeros(3, dtype=torch.int64)
        ).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)

    @torch.no_grad()
    def test_images_do_not_affect_each_other_in_an_evaluation(self) -> None:
        model = self.make().eval()
        x_NCHW = self.sample_images(3)
        with seed_generators(0):
            together_NK = model(x_NCHW)
        for number, x_CHW in enumerate(x_NCHW):
            with seed_generators(0):
                alone_NK = model(x_CHW[None])
            assert torch.allclose(
                alone_NK[0], together_NK[number], rtol=1e-3, atol=1e-4
            )

    @torch.no_grad()
    def test_a_saved_state_continues(self) -> None:
        """In a network of another seed, from a file that holds only tensors and plain values."""
        model = self.make()
        other = self.make(seed=1)
        model.train()(
            self.sample_images(3)
        )  # what it keeps, such as BatchNorm's statistics, is saved too
        file = BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        x_NCHW = self.sample_images(3)
        with seed_generators(0):
            expected_NK = model.eval()(x_NCHW)
        with seed_generators(0):
            assert torch.equal(other.eval()(x_NCHW), expected_NK)


class DatasetContract:
    """Inherit, set `info`, and every test below runs on your data set."""

    info: DatasetInfo

    @pytest.fixture
    def arrays(self, tmp_path: Path) -> ImageArrays:
        """The data set of split seed 0."""
        return self.load(tmp_path, split_seed=0)

    def load(self, folder: Path, *, split_seed: int) -> ImageArrays:
        """The data set; override it for one whose files must first be put into `folder`."""
        return self.info.load(folder, split_seed=split_seed)

    def test_images_and_labels_are_of_the_declared_shape(
        self, arrays: ImageArrays
    ) -> None:
        size = self.info.image_size
        assert arrays.images_NHWC.dtype == np.uint8
        assert arrays.images_NHWC.shape[1:] == (size, size, self.info.channels)
        assert arrays.labels_N.dtype == np.int64
        assert arrays.labels_N.shape == arrays.images_NHWC.shape[:1]
        assert np.unique(arrays.labels_N).tolist() == list(range(self.info.num_classes))

    def test_splits_are_disjoint_and_of_the_declared_sizes(
        self, arrays: ImageArrays
    ) -> None:
        assert set(arrays.splits) == set(SPLITS)
        sizes = [len(arrays.splits[name]) for name in SPLITS]
        assert sizes == [self.info.train, self.info.validation, self.info.test]
        every_N = np.concatenate([arrays.splits[name] for name in SPLITS])
        assert len(np.unique(every_N)) == len(every_N)
        assert every_N.min() >= 0
        assert every_N.max() < len(arrays.labels_N)

    def test_the_statistics_are_those_of_the_pixels(self, arrays: ImageArrays) -> None:
        pixels_NHWC = arrays.images_NHWC / 255
        mean_C = pixels_NHWC.mean((0, 1, 2))
        std_C = pixels_NHWC.std((0, 1, 2))
        assert mean_C.tolist() == pytest.approx(self.info.mean, abs=5e-3)
        assert std_C.tolist() == pytest.approx(self.info.std, abs=5e-3)

    def test_the_seed_decides_the_split_and_nothing_else(
        self, arrays: ImageArrays, tmp_path: Path
    ) -> None:
        again, other = (self.load(tmp_path, split_seed=seed) for seed in (0, 1))
        for name in SPLITS:
            assert np.array_equal(again.splits[name], arrays.splits[name])
        assert not np.array_equal(
            other.splits["validation"], arrays.splits["validation"]
        )
        assert np.array_equal(other.images_NHWC, arrays.images_NHWC)
        assert np.array_equal(other.labels_N, arrays.labels_N)


class DeclarationContract:
    """Inherit, set `learner` and `spec`, and every test below runs on the Declaration.

    learner: the class, the function that builds it, or its dotted path. spec: the plain values of
    a spec that works. refused: values that its faults refuse, by the key that the fault has.
    """

    learner: Any
    spec: ClassVar[Mapping[str, Any]]
    refused: ClassVar[Mapping[str, Any]] = {}

    def prepare_plan(self, *assignments: str) -> Plan:
        """The plan of the spec with these KEY=VALUEs."""
        raw = {**self.spec, "trainable": getattr_static(self, "learner")}
        return prepare(apply_assignments(raw, assignments))

    def test_it_is_found(self) -> None:
        assert type(self.prepare_plan().declaration) is not Declaration

    def test_settings_say_what_they_mean(self) -> None:
        settings = self.prepare_plan().declaration.settings
        schemas = build_schema(settings)["properties"] if settings else {}
        silent = [
            name
            for name, schema in schemas.items()
            if not schema.get("description") and "enum" not in json.dumps(schema)
        ]
        assert not silent

    def test_settling_twice_changes_nothing(self) -> None:
        plan = self.prepare_plan()
        assert prepare(plan.spec.dump_values()) == plan

    def test_what_is_refused_has_the_key_at_fault(self) -> None:
        for key, value in self.refused.items():
            with pytest.raises(SpecError) as error:
                self.prepare_plan(f"{key}={json.dumps(value)}")
            assert key in [fault.key for fault in error.value.faults]

    def test_a_plan_is_plain(self) -> None:
        plan = describe_plan(self.prepare_plan().spec, here=False)
        assert json.loads(json.dumps(plan)) == plan

    def test_data_is_pinned_once(self) -> None:
        plan = self.prepare_plan().pin_data()
        assert plan.pin_data() is plan
        assert plan == self.prepare_plan().pin_data()
        json.dumps(plan.trained_spec.constants)

    def test_data_of_nodes_can_be_sent(self) -> None:
        plan = self.prepare_plan()
        data = plan.declaration.node_data(plan.trained_spec)
        assert [each.title for each in pickle.loads(pickle.dumps(data))] == [
            each.title for each in data
        ]


def is_equal(a: Any, b: Any) -> bool:
    """Whether two nested states are equal bit for bit, NaN being equal to itself."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(is_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return bool(a == b)


class LearnerContract:
    """Inherit, define `make`, and every test below runs on your Learner.

    It steps a Learner at most `steps` times, so give it at least that many `epochs`.
    """

    steps = 3
    # Metrics that measure time, which no seed repeats
    timings: frozenset[str] = frozenset()

    def make(self, *, seed: int = 0) -> Learner:
        """A new Learner, always of the same config, and of trial seed `seed`."""
        raise NotImplementedError

    def collect_results(self, learner: Learner, steps: int) -> list[dict[str, float]]:
        """The reports of `steps` steps, without the timings."""
        reports = [learner.step() for _ in range(steps)]
        return [{k: v for k, v in r.items() if k not in self.timings} for r in reports]

    def save_and_load(self, learner: Learner, folder: Path) -> dict[str, Any]:
        """The learner's state, written to a file and read from it."""
        torch.save(learner.state_dict(), folder / "state.pt")
        state: dict[str, Any] = torch.load(folder / "state.pt", weights_only=True)
        return state

    def test_is_a_learner(self) -> None:
        assert isinstance(self.make(), Learner)

    def test_reports_its_metrics(self) -> None:
        learner = self.make()
        for report in (learner.step(), learner.step()):
            assert all(isinstance(value, float | int) for value in report.values())
            assert all(map(math.isfinite, report.values())), report
            declared = getattr(learner, "metrics", None)
            assert declared is None or set(report) - {DONE} == set(declared)

    def test_same_seed_same_results(self) -> None:
        first = self.make(seed=3)
        second = self.make(seed=3)
        assert self.collect_results(first, 2) == self.collect_results(second, 2)
        assert is_equal(first.state_dict(), second.state_dict())

    def test_other_seed_other_results(self) -> None:
        assert self.collect_results(self.make(seed=1), 1) != self.collect_results(
            self.make(seed=2), 1
        )

    def test_does_not_depend_on_global_random_state(self) -> None:
        results = []
        for other in (0, 1):
            torch.manual_seed(other)
            learner = self.make()
            torch.manual_seed(other + 2)
            results += self.collect_results(learner, 1)
        assert results[0] == results[1]

    @pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
    def test_continues_where_it_was_saved(self, used: bool, tmp_path: Path) -> None:
        original = self.make(seed=5)
        states = []
        expected = []
        for _ in range(self.steps):
            states.append(self.save_and_load(original, tmp_path))
            expected += self.collect_results(original, 1)
        end = original.state_dict()
        for after, state in enumerate(states):
            restored = self.make(seed=5)
            if used:
                restored.step()
            restored.load_state_dict(state)
            assert (
                self.collect_results(restored, self.steps - after) == expected[after:]
            ), after
            assert is_equal(restored.state_dict(), end), after

    def test_test_split(self) -> None:
        measure = getattr(self.make(), "test", None)
        if measure is None:
            pytest.skip("this Learner has no test()")
        first = measure()
        second = measure()
        assert {"test_loss", "test_accuracy"} <= set(first)
        assert first == second
