"""Domains from text and from Ray's objects: both mean the same, and the rest is refused."""

import contextlib
from enum import Enum, IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import tune

from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Choice, Domain, constant
from tuner.spec.space.parsing import (
    EXAMPLES,
    convert_ray_domain,
    parse_domain,
    parse_space,
)
from tuner.spec.space.spaces import format_space
from tuner.testing.spaces import leaves, spaces


@given(leaves)
def test_parse_domain_inverts_str(domain):
    assert parse_domain(str(domain)) == domain


def test_parse_space_refuses_deep_nesting(snapshot):
    value: object = 1
    for _ in range(5000):
        value = [value]
    with snapshot.raises(FaultsError):
        parse_space({"a": value})


@given(spaces)
def test_parse_space_inverts_space_text(space):
    assert parse_space(format_space(space)) == space


@pytest.mark.parametrize(
    "text",
    [
        "uniform(0, 1)",
        "quniform(0.1, 1, 0.1)",
        "loguniform(0.0001, 0.1)",
        "qloguniform(0.1, 10, 0.1)",
        "randn(1, 2)",
        "qrandn(1, 2, 0.5)",
        "randint(1, 5)",
        "qrandint(2, 10, 2)",
        "lograndint(1, 100)",
        "qlograndint(2, 100, 2)",
        "choice([16, 'a', None])",
    ],
)
def test_from_ray_equals_parsed_text(text):
    domain = convert_ray_domain(eval(f"tune.{text}"))
    assert str(domain) == text
    assert parse_domain(text) == parse_domain(f"tune.{text}") == domain


REFUSED = (
    "uniform(1, 0)",
    "loguniform(0, 1)",
    "choice([])",
    "choice('abc')",
    "randint(1, 1)",
    "randint(0.5, 3)",
    "quniform(0, 1, 0)",
    "randn(0, 0)",
    "unifrm(0, 1)",
    "loguniform(1e-3 1)",
    "choice(16, 32)",
    "choice([sgd])",
    "uniform(0)",
    "uniform(0, uper=1)",
    "uniform(0, 1e999)",
    "uniform(0, True)",
    "__import__('os').system('true')",
    "choice([open('x')])",
    "choice(['uniform(0, 1)'])",
    "uniform(",
    f"uniform(0, {'-' * 900}x)",
    f"uniform(0, {10**400})",
    f"choice([{10**400}])",
    "quniform(0, 1e300, 1e-300)",
    "uniform(0, 1)\n2",
    "constant(uniform(0, 1))",
    "constant({'a': [choice([1])]})",
    "uniform(0, 1, prior=2)",
    "uniform(0, 1, prior='a')",
    "uniform(0, 1, confidence=2)",
    "uniform(0, 1, prior=0.5, confidence=0)",
    "choice([1, 2], prior=3)",
    "choice([True, 2], prior=1)",
    "randn(0, 1, prior=0)",
)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_parse_domain_invalid_text_is_refused(snapshot, number):
    with snapshot.raises(FaultsError):
        parse_domain(REFUSED[number])


@given(st.text(max_size=60))
def test_parse_domain_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(FaultsError):
        assert isinstance(parse_domain(text), Domain)


def test_parse_domain_option_may_resemble_a_call():
    values = ("A(", "resnet(18)", "f(x)(")
    domain = Choice(values)
    assert (
        parse_domain(str(domain))
        == convert_ray_domain(tune.choice(list(values)))
        == domain
    )
    assert parse_space({"a": {"grid_search": list(values)}})["a"] == Choice(
        values, "grid_search"
    )


def test_parse_space_reports_all_faults():
    with pytest.raises(FaultsError) as refused:
        parse_space(
            {
                "lr": "loguniform(0, 1)",
                "b": {"x": "choice([])"},
                "a.b": 1,
                "f": object(),
            }
        )
    keys = [fault.key for fault in refused.value.faults]
    assert keys == ["lr", "b.x", "", "f"]


@pytest.mark.parametrize(
    "written",
    [tune.sample_from(lambda: 1), "sample_from(lambda spec: 1)", "tune.sample_from(f)"],
)
def test_parse_space_sample_from_names_the_alternative(snapshot, written):
    with snapshot.raises(FaultsError):
        parse_space({"lr": written})


@pytest.mark.parametrize("value", [[1, 2], "a", None, {"min": 1, "max": [2]}, [], 3.5])
def test_constant_has_one_value(value):
    written = constant(value)
    assert parse_domain(str(written)) == parse_space({"a": written})["a"] == written
    assert (written.compute_value(0), written.compute_value(1), written.size) == (
        value,
        value,
        1,
    )
    assert str(written).startswith("constant(")


def test_examples_parse():
    assert len([parse_domain(text) for text in EXAMPLES]) == 4


class Shown(str):
    """Text that shows itself as something else."""

    def __repr__(self):
        return "Shown"

    __str__ = __repr__


class Kind(str, Enum):  # noqa: UP042 that is what people have
    ADAM = "adam"


class Level(IntEnum):
    LOW = 3


DISGUISED = {
    "adam": [np.str_("adam"), Shown("adam"), Kind.ADAM],
    3: [np.int64(3), np.uint8(3), Level.LOW, np.array(3)],
    0.5: [np.float32(0.5), np.float64(0.5), np.float16(0.5)],
    True: [np.bool_(True)],
}


@pytest.mark.parametrize(
    ("value", "plain"),
    [(v, plain) for plain, values in DISGUISED.items() for v in values],
)
def test_values_of_other_types_are_read_back_as_plain_ones(value, plain):
    inside = {"list": [value, (value,)], "mapping": {"x": value}}
    space = {
        "option": tune.choice([value, [value], {"nested": value}]),
        "constant": value,
        "text": f"choice([{plain!r}, 7])",
        "inner": inside,
    }
    expected = {
        "option": Choice((plain, [plain], {"nested": plain})),
        "constant": plain,
        "text": Choice((plain, 7)),
        "inner": {"list": [plain, [plain]], "mapping": {"x": plain}},
    }
    points = [{"option": value, "text": value}]
    raw = {"search": {"space": space, "points_to_evaluate": points}, "num_samples": 2}
    raw["training"] = {"some": inside}
    spec = build_spec(raw)
    assert spec.search.space == expected
    for again in (
        ExperimentSpec.from_text(spec.to_json()),
        ExperimentSpec.from_text(spec.to_yaml()),
    ):
        assert again == spec
        assert type(again.search.space["constant"]) is type(plain)
        assert again.search.points_to_evaluate == ({"option": plain, "text": plain},)


@pytest.mark.parametrize("call", [tune.uniform, tune.loguniform, tune.randint])
def test_bounds_of_numpy_are_plain_numbers(call):
    domain = convert_ray_domain(call(*np.array([1, 5])))
    assert parse_domain(str(domain)) == domain == convert_ray_domain(call(1, 5))


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", np.array([1, 2]), 1j, float("nan")]
)
def test_values_that_are_not_plain_are_refused(value):
    for space in (
        {"a": value},
        {"a": tune.choice([1, value])},
        {"a": tune.choice([[value]])},
    ):
        with pytest.raises(FaultsError):
            parse_space(space)
