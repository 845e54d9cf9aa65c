"""The register: what is done where Ray has moved, and that each piece says and proves itself."""

import re
import sys
import tomllib
import types
from pathlib import Path

import pytest
import ray
from ray._private import parameter, worker
from ray.tune.execution import tune_controller

from tuner import ray_compat
from tuner.errors import UnknownRayError
from tuner.ray_compat.pieces import PIECES, TRIED, TRIED_EXACTLY, piece, replaced

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_piece_has_a_test_of_its_own():
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    tested = {name for text in texts for name in re.findall(r"^def test_(\w+)\(", text, re.M)}
    assert PIECES.keys() <= tested


def test_every_piece_says_until_when_it_is_needed_and_what_is_lost_without_it():
    for name, lost in PIECES.items():
        assert lost
        if function := getattr(ray_compat, name, None):
            module = sys.modules[function.__module__]
            assert function.__doc__, name
            assert re.search(r"Until:\s", function.__doc__ + module.__doc__), name


def test_the_version_of_the_package_is_what_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    bounds = {text.partition("]")[2] for text in wanted if text.startswith("ray[")}
    major, minor = map(int, TRIED.split("."))
    assert bounds == {f">={major}.{minor},<{major}.{minor + 1}"}
    assert f"ray=={TRIED_EXACTLY}" in (ROOT / "constraints.txt").read_text().splitlines()
    assert ray_compat.is_tried(TRIED_EXACTLY)


GONE = AttributeError("no x")


@pytest.fixture
def register(monkeypatch):
    """Registers a function that finds Ray changed, or whose own fault it is."""
    monkeypatch.setattr("tuner.ray_compat.pieces.PIECES", {})

    def put(error=GONE, **options):
        @piece(lost="Y is lost", **options)
        def some():
            raise error

        return some

    return put


MISSED = "this Ray (2.60.99) is not as some needs it (no x): Y is lost"


def test_a_piece_that_is_gone_is_left_out_with_one_warning(register, another_ray):
    some = register(otherwise={})
    assert some() == some() == {}
    assert another_ray() == [MISSED]


def test_where_nothing_goes_on_without_it_one_error_says_so(register, another_ray):
    with pytest.raises(UnknownRayError, match=f"^{re.escape(MISSED)}$"):
        register(required=True)()
    assert another_ray() == []


@pytest.mark.parametrize("required", [True, False])
def test_in_the_very_ray_that_was_tried_the_fault_is_ours(register, required):
    with pytest.raises(AttributeError, match=r"^no x$"):
        register(required=required)()


def test_what_tells_of_no_change_passes(register, another_ray):
    with pytest.raises(OSError, match="disk"):
        register(OSError("disk"))()
    assert another_ray() == []


def test_a_name_to_replace_that_is_gone_is_left_out_with_one_warning(monkeypatch, another_ray):
    monkeypatch.delattr(worker, "print_to_stdstream")
    for _ in range(2):
        with ray_compat.no_prints():
            assert not hasattr(worker, "print_to_stdstream")
    [said] = another_ray()
    assert said.endswith("Ray prints on stdout that a worker has died")


def test_what_is_raised_within_passes():
    with pytest.raises(KeyError), ray_compat.no_prints():
        raise KeyError


@pytest.mark.parametrize(("version", "tried"), [("2.60.0", True), ("2.6.0", False), ("3.0", False)])
def test_only_a_tried_ray_is_known(version, tried):
    assert ray_compat.is_tried(version) is tried


def test_another_ray_is_left_as_it_is_and_that_is_said(monkeypatch, warnings):
    monkeypatch.setattr(ray, "__version__", "3.0.0")
    before = tune_controller._ObjectCache, parameter.RayParams
    with ray_compat.keep_workers(here=True), ray_compat.fewer_services(1234, workers=4):
        assert (tune_controller._ObjectCache, parameter.RayParams) == before
    assert ray_compat.local_options("/x", []) == {}
    ray_compat.warn_if_untried()
    *off, said = warnings()
    assert [line.partition(" needs it (it is not 2.60): ")[0] for line in off] == [
        f"this Ray (3.0.0) is not as {name}"
        for name in ("keep_workers", "fewer_services", "local_options")
    ]
    assert said.startswith("Ray 3.0.0 is installed, and tuner was tried with 2.60: ")


def test_of_the_tried_one_nothing_is_said(warnings):
    ray_compat.warn_if_untried()
    assert warnings() == []


def test_names_are_replaced_within_only():
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.a, one.b, two.a = 1, 2, 3
    with replaced({one: {"a": 10, "b": 20}, two: {"a": 30}}):
        assert (one.a, one.b, two.a) == (10, 20, 30)
    assert (one.a, one.b, two.a) == (1, 2, 3)
    with pytest.raises(ZeroDivisionError), replaced({one: {"a": 10}}):
        1 / 0  # noqa: B018
    assert (one.a, one.b, two.a) == (1, 2, 3)


def test_a_name_that_is_not_there_is_an_error_and_replaces_nothing():
    module = types.ModuleType("m")
    module.a = 1
    with pytest.raises(AttributeError), replaced({module: {"a": 2, "b": 3}}):
        pass
    assert vars(module)["a"] == 1
