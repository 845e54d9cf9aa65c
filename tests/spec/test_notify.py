"""Whom a search notifies, and what of them is written down."""

import json

import pytest

from tuner.errors import SpecError, UsageError
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.notify import (
    get_scheme,
    hide_secrets,
    is_hidden,
    is_web,
    resolve_variables,
)

SECRET = "https://hooks.slack.com/services/T0/B0/s3cret"


def spec_with(*notify):
    search = {"space": {"lr": "uniform(0, 1)"}}
    return build_spec({"search": search, "num_samples": 2, "notify": list(notify)})


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (SECRET, "https://hooks.slack.com/***"),
        ("https://host/?token=s3cret", "https://host/***"),
        ("https://host?token=s3cret", "https://***"),
        ("https://me:s3cret@host", "https://***"),
        ("tgram://s3cret/chat", "tgram://***"),
        (
            "https://hooks.slack.com/${PATH_OF_IT}",
            "https://hooks.slack.com/${PATH_OF_IT}",
        ),
        ("${WEBHOOK_URL}", "${WEBHOOK_URL}"),
    ],
)
def test_notify_secrets_are_hidden_in_dumps(target, shown):
    spec = spec_with(target)
    assert spec.notify == (target,)
    for text in (
        spec.to_json(),
        spec.to_yaml(),
        json.dumps(spec.model_dump(mode="json")),
    ):
        assert "s3cret" not in text
    assert spec.model_dump(mode="json")["notify"] == [shown] == [hide_secrets(target)]
    assert ExperimentSpec.from_text(spec.to_json()).notify == (shown,)
    assert is_hidden(shown) == (shown != target)


def test_notify_targets_are_kept_once_and_have_a_kind():
    search = {"space": {"lr": "uniform(0, 1)"}}
    assert build_spec(
        {"search": search, "num_samples": 2, "notify": SECRET}
    ).notify == (SECRET,)
    assert spec_with(SECRET, SECRET).replace(seed=3).notify == (SECRET,)
    targets = (SECRET, "http://x", "slack://x", "${X}")
    assert [*filter(is_web, targets)] == [SECRET, "http://x"]
    assert [*map(get_scheme, targets)] == ["https", "http", "slack", ""]


@pytest.mark.parametrize(
    "target",
    ["", "hooks.slack.com/x", "exec:x", "https:// x", "x\n", "${A} x", "x${A}"],
)
def test_notify_invalid_target_is_refused(snapshot, target):
    with snapshot.raises(SpecError):
        spec_with(target)


def test_filled_inserts_environment_variables(snapshot):
    assert (
        resolve_variables("https://host/${A}/${B}", {"A": "1", "B": "2"})
        == "https://host/1/2"
    )
    assert resolve_variables("${A}", {"A": SECRET}) == SECRET
    for value in ("exec:rm x", "hooks.slack.com/s3cret", "https:///s3cret"):
        with snapshot.raises(UsageError):
            resolve_variables("${A}", {"A": value})
    with snapshot.raises(UsageError):
        resolve_variables("https://host/${A}", {"A": ""})
    with snapshot.raises(UsageError):
        resolve_variables("https://${A}", {"A": "/"})
