"""Ranks as actors, without Ray; with it: tests/integration/test_several_workers.py."""

import pickle
import re

import pytest
import ray
from test_worker import context

from tuner import ray_compat
from tuner.trial import rank_actors
from tuner.trial.failures import failure_of
from tuner.trial.rank_actors import RankGroup


@pytest.mark.parametrize("ended", [True, False])
def test_a_rank_that_does_not_end_is_told_of(monkeypatch, tmp_path, capsys, ended):
    group, killed = RankGroup(context(tmp_path, ranks=2)), []
    group._ranks = ["first", "second"]
    monkeypatch.setattr(ray, "kill", killed.append)
    monkeypatch.setattr(ray_compat, "has_ended", lambda rank, timeout_s: ended)
    group.close()
    assert killed == ["first", "second"]
    assert ("rank 1 has not ended" in capsys.readouterr().out) != ended


class Unspeakable(Exception):
    def __str__(self):
        return str(1 / 0)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit("x"), "GeneratorExit: x"),
        (Unspeakable(), "Unspeakable: (its text cannot be shown: ZeroDivisionError)"),
    ],
)
def test_what_would_end_a_rank_is_sent_as_an_error(error, message):
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"), rank_actors._survives():
        raise error


def test_an_error_that_can_be_sent_is_sent_as_it_is():
    with pytest.raises(KeyError, match="lr"), rank_actors._survives():
        raise KeyError("lr")


@pytest.mark.parametrize("error", [KeyError("lr"), SystemExit(3)])
def test_a_rank_tells_the_trial_where_its_error_arose(error):
    """What is pickled has no traceback."""
    with pytest.raises((KeyError, RuntimeError)) as raised, rank_actors._survives():
        raise error
    received = pickle.loads(pickle.dumps(raised.value.with_traceback(None)))
    assert re.search(r", at \S*test_rank_actors.py:\d+ in test_\w+: raise", message_at(received))


def message_at(error):
    return failure_of(error).message
