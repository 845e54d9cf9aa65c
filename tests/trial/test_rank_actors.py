"""Ranks as actors, without Ray; with it: tests/integration/test_several_workers.py."""

import pytest
import ray
from test_worker import context

from tuner import ray_compat
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
