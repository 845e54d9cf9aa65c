"""The exception tree and its messages."""

import pytest

from tuner import errors
from tuner.errors import (
    SpecError,
    TunerError,
    UsageError,
    suggest_similar,
    translate_error,
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
        (
            "NoUsableTrialError ExperimentError JournalError CheckpointError DataError",
            1,
        ),
    ],
)
def test_exit_codes(names, code):
    assert {getattr(errors, name).exit_code for name in names.split()} == {code}


@pytest.mark.parametrize(
    "name", ["SpecError", "UsageError", "JournalError", "CheckpointError"]
)
def test_errors_of_values_are_value_errors(name):
    assert issubclass(getattr(errors, name), ValueError)


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
    with (
        pytest.raises(UsageError) as raised,
        translate_error(UsageError, "cannot load"),
    ):
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
    assert suggest_similar(name, known) == near
