"""Trainables that are pickled with their code."""

import threading
from functools import partial
from typing import Any

import pytest
from ray import cloudpickle, tune

from tuner.errors import SpecError
from tuner.spec.by_value import ByValue, extract_name, is_by_value
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.validation import validate

MINIMAL: dict[str, Any] = {
    "search": {"space": {"lr": "uniform(0, 1)"}},
    "num_samples": 3,
}


def train(config):
    return float(config["lr"])


def made(factor):
    def closure(config: dict[str, Any]) -> float:
        return factor * float(config["lr"])

    return closure


def of_a_script():
    """As a function of a script or a notebook cell."""

    def script(config: dict[str, Any]) -> float:
        return 3 * float(config["lr"])

    script.__module__ = "__main__"
    script.__qualname__ = "script"
    return script


HERE = __name__


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: made(2), f"{HERE}:closure (by value)"),
        (of_a_script, "__main__:script (by value)"),
        (lambda: partial(partial(train)), f"{HERE}:train (by value)"),
        # Within the test: its parameters end with the Ray that runs when they are first used
        (
            lambda: tune.with_parameters(train, factor=2),
            "ray.tune.trainable.util:train (by value)",
        ),
    ],
)
def test_by_value_local_function_is_marked(make, text):
    value = make()
    spec = build_spec({**MINIMAL, "trainable": value})
    assert isinstance(spec.trainable, ByValue)
    assert (spec.trainable, spec.trainable.value) == (text, value)
    assert is_by_value(text)
    assert validate(spec.replace(seed=3)).trainable.value is value
    assert type(build_spec({**MINIMAL, "trainable": train}).trainable) is str
    assert extract_name(text) in text


def test_by_value_spec_dumps_plain_values_and_pickles_its_closure():
    spec = build_spec({**MINIMAL, "trainable": made(2)})
    for text in (spec.to_json(), spec.to_yaml()):
        again = ExperimentSpec.from_text(text)
        assert again == spec
        assert type(again.trainable) is str
    assert type(spec.model_dump(mode="json")["trainable"]) is str
    sent = ByValue(made(2))
    received = cloudpickle.loads(
        cloudpickle.dumps(cloudpickle.loads(cloudpickle.dumps(sent)))
    )
    assert received == sent
    assert received.value({"lr": 3}) == 6


def test_validate_refuses_what_cannot_be_sent(snapshot):
    lock = threading.Lock()
    with snapshot.raises(SpecError):
        validate(build_spec({**MINIMAL, "trainable": lambda config: lock.locked()}))
    with snapshot.raises(SpecError):
        validate({**MINIMAL, "trainable": "__main__:train (by value)"})
