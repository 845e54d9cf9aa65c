"""Ranks as actors, without Ray; with it: tests/integration/test_several_workers.py."""

import pickle
import re

import pytest
import ray
from ray.exceptions import RayActorError, RayTaskError
from test_worker import context

from tuner import ray_compat
from tuner.trial import rank_actors
from tuner.trial.failures import build_failure
from tuner.trial.rank_actors import RankGroup, sendable_errors


@pytest.mark.parametrize("ended", [True, False])
def test_close_warns_of_a_rank_that_does_not_end(monkeypatch, tmp_path, capsys, ended):
    group = RankGroup(context(tmp_path, ranks=2))
    killed = []
    group._ranks = ["first", "second"]
    monkeypatch.setattr(ray, "kill", killed.append)
    monkeypatch.setattr(ray_compat, "has_ended", lambda rank, timeout_s: ended)
    group.close()
    assert killed == ["first", "second"]
    assert ("rank 1 has not ended" in capsys.readouterr().out) != ended


@pytest.mark.parametrize(
    ("error", "sent", "message"),
    [
        (KeyError("lr"), KeyError, "^'lr'$"),
        (SystemExit(3), RuntimeError, "^SystemExit: 3$"),
        (GeneratorExit("x"), RuntimeError, "^GeneratorExit: x$"),
    ],
)
def test_sendable_errors_converts_exits_and_keeps_the_origin(error, sent, message):
    """What is pickled has no traceback."""
    with pytest.raises(sent, match=message) as raised, sendable_errors():
        raise error
    received = pickle.loads(pickle.dumps(raised.value.with_traceback(None)))
    assert re.search(
        r", at \S*test_rank_actors.py:\d+ in test_\w+: raise",
        build_failure(received).message,
    )


TIMED_OUT = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 2000ms "
    "for recv operation to complete"
)
CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
WATCHDOG = (
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
    "NumelIn=10, NumelOut=10, Timeout(ms)=5000) ran for 5001 milliseconds before timing out.\n"
)


def find_cause(errors, *, has_waited=False):
    return rank_actors.choose_cause(errors, limit_s=5, has_waited=lambda: has_waited)


def raised(*causes):
    return [RayTaskError("step", "a traceback", cause) for cause in causes]


@pytest.mark.parametrize(
    "errors",
    [
        raised(RuntimeError(TIMED_OUT)),
        raised(RuntimeError(CLOSED), RuntimeError(TIMED_OUT)),
        raised(
            RuntimeError(
                "Timed out after 6 seconds waiting for clients. 1/2 clients joined."
            )
        ),
    ],
)
def test_cause_of_long_wait_is_a_timeout(capsys, errors):
    cause = find_cause(errors)
    assert isinstance(cause, rank_actors.RankTimeoutError)
    assert str(cause) == "a rank waited for another longer than timeouts.ranks_s, 5 s"
    assert re.search(r"Timed out (waiting|after)", capsys.readouterr().out)


def test_cause_of_prefers_the_original_error():
    original = ValueError("wrong shape")
    assert find_cause(raised(original, RuntimeError(TIMED_OUT))) is original
    broken = RuntimeError(CLOSED)
    assert find_cause(raised(broken)) is broken
    died = RayActorError()
    assert find_cause([*raised(broken), died]) is died


def test_has_waited_reads_the_log_of_nccl(tmp_path):
    group = RankGroup(context(tmp_path, ranks=2))
    group._trial_id = "00007"
    assert not group._has_waited()  # its log is on another node
    log = tmp_path / rank_actors.format_log_name("00007", 1)
    log.parent.mkdir(parents=True)
    log.write_text(f"epoch 1\n{WATCHDOG}")
    assert group._has_waited()
    assert isinstance(
        find_cause([RayActorError()], has_waited=True), rank_actors.RankTimeoutError
    )
