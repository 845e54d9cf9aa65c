"""The exception tree and its messages."""

import pytest

from tuner import errors
from tuner.errors import (
    Fault,
    SpecError,
    TunerError,
    UsageError,
    did_you_mean,
    translate_error,
    unknown,
)


def tree(top=TunerError):
    return [top, *(kind for below in top.__subclasses__() for kind in tree(below))]


def test_docstring_shows_every_error():
    for kind in tree():
        if kind.__module__ == "tuner.errors":
            assert kind.__name__ in errors.__doc__


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("SpecError UsageError UnreadableImagesError", 2),
        ("NoUsableTrialError ExperimentError JournalError CheckpointError DataError", 1),
    ],
)
def test_exit_codes(names, code):
    assert {getattr(errors, name).exit_code for name in names.split()} == {code}


@pytest.mark.parametrize("name", ["SpecError", "UsageError", "JournalError", "CheckpointError"])
def test_errors_of_values_are_value_errors(name):
    assert issubclass(getattr(errors, name), ValueError)


def test_fault_text_has_key_rule_value_and_choices():
    fault = Fault("a.b", "must be odd", 2, ("1", "3"))
    assert str(fault) == "a.b: must be odd, got 2; available: 1, 3"
    assert str(Fault("a", "is required")) == "a: is required"


def test_fault_under_extends_the_key():
    fault = Fault("b", "must be odd", 2, ("1", "3"))
    assert fault.under("a") == Fault("a.b", "must be odd", 2, ("1", "3"))
    assert fault.under("") == fault
    assert Fault("", "is wrong").under("a.b").key == "a.b"


def test_spec_error_counts_and_lists_faults():
    first, second = Fault("a", "is required"), Fault("b", "must be odd", 2)
    assert str(SpecError([first])) == "the spec has 1 fault:\n  a: is required"
    error = SpecError(iter([first, second]), "x.yaml")
    assert str(error).splitlines() == ["x.yaml has 2 faults:", f"  {first}", f"  {second}"]
    assert error.faults == (first, second)


def test_unknown_suggests_the_nearest_name():
    fault = unknown("k", "search", "gird", ["random", "grid"])
    assert str(fault) == "k: unknown search 'gird' (did you mean 'grid'?); available: grid, random"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("x"), "cannot load: 'x' is missing"),
        (OSError(13, "Permission denied"), "cannot load: Permission denied"),
        (RuntimeError("two\n  lines"), "cannot load: two lines"),
        (TimeoutError(), "cannot load: TimeoutError"),
    ],
)
def test_translate_error_keeps_the_reason(error, message):
    with pytest.raises(UsageError) as raised, translate_error(UsageError, "cannot load"):
        raise error
    assert str(raised.value) == message
    assert raised.value.__cause__ is error


def test_translate_error_passes_other_errors(snapshot):
    with pytest.raises(RuntimeError), translate_error(UsageError, "no", of=OSError):
        raise RuntimeError
    with pytest.raises(SpecError), translate_error(UsageError, "no"):
        raise SpecError([])
    with snapshot.raises(UsageError):  # noqa: SIM117
        with translate_error(UsageError, lambda error: str(error.args[0])):
            raise RuntimeError("gone", 1)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("Max-T", ["max_t", "name"], " (did you mean 'max_t'?)"),
        ("maximize", ["min", "max"], " (did you mean 'max'?)"),
        ("lrr", ["lr", "l1", "momentum"], " (did you mean 'lr'?)"),
        ("methods", ["a", "seed"], ""),
    ],
)
def test_did_you_mean_matches_case_dashes_and_prefixes(name, known, near):
    assert did_you_mean(name, known) == near
