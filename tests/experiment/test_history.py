from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER, START, Clock

from tuner.experiment.estimate import build_curve
from tuner.experiment.history import History, fold
from tuner.experiment.results.selection import (
    compute_points,
    find_front,
    sort_best_first,
)
from tuner.experiment.trials import Best, TrialError
from tuner.spec.sections import Objective

ACC = Objective(metric="acc", mode="max")
LOSS = Objective(metric="loss", mode="min")
OOM = {"kind": "oom", "message": "out of memory"}


def events(*stories):
    """Events from (event, trial number or None, fields); their times count up by seconds."""
    clock = Clock()
    return [
        {"event": event, "time": clock()}
        | ({} if number is None else {"trial_id": f"{number:05}"})
        | fields
        for event, number, fields in stories
    ]


BEGIN = ("experiment_started", None, {"resumed": False, "owner": OWNER})
RESUME = ("experiment_started", None, {"resumed": True, "owner": OWNER})


def start(number, **config):
    return ("trial_started", number, {"config": config})


def report(number, epoch, **metrics):
    return ("result", number, {"epoch": epoch, "metrics": metrics})


def end(number, status, **fields):
    return ("trial_ended", number, {"status": status} | fields)


def checkpoint(number, epoch, **fields):
    path = f"trials/{number:05}/checkpoints/{epoch}/state.pt"
    return (
        "checkpoint",
        number,
        {"epoch": epoch, "path": path, "sha256": "0" * 64, **fields},
    )


def test_settle_keeps_best_and_last_report(snapshot):
    values = {1: 0.5, 2: 0.2, 3: 0.4, 4: 0.3}
    reports = [report(1, epoch, loss=value) for epoch, value in values.items()]
    history = fold(events(BEGIN, start(1), *reports, checkpoint(1, 1)), LOSS)
    history.compact_trial("00001")
    snapshot.compare_value(history.trials["00001"])


def test_trial_that_goes_on_has_its_latest_client_and_was_not_ended():
    again = ("trial_started", 1, {"config": {}, "client": "b"})
    paused = events(BEGIN, start(1), end(1, "interrupted", control="17-a"), again)
    trial = fold(paused).trials["00001"]
    assert (trial.status, trial.client, trial.ended_by) == ("running", "b", None)


def test_fold_records_a_complete_trial(snapshot):
    history = fold(
        events(
            BEGIN,
            ("trial_started", 1, {"config": {"lr": 0.1}, "origin": "given", "seed": 5}),
            report(1, 1, loss=0.5),
            checkpoint(1, 1),
            report(1, 2, loss=0.4),
            end(1, "completed"),
            ("experiment_ended", None, {"status": "completed"}),
        )
    )
    assert (history.status, history.started, history.ended) == (
        "completed",
        START + 1,
        START + 7,
    )
    assert history.duration_s == 6
    (trial,) = history.trials.values()
    snapshot.compare_value(trial)
    assert (trial.duration_s, trial.last_epoch) == (4, 2)
    assert trial.list_values("loss") == [(1, 0.5), (2, 0.4)]
    assert (trial.find_report(2), trial.find_report(3)) == (trial.results[1], None)


def test_fold_continues_trials_after_a_resume(snapshot):
    before = (BEGIN, start(1, lr=0.1), report(1, 1), start(2, lr=0.2))
    after = (RESUME, start(1, lr=0.1), report(1, 2), end(1, "completed"))
    history = fold(events(*before, *after))
    assert history.resumed == 1
    snapshot.compare_value([*history.trials.values()])
    # Without the gap until its second start
    assert history.trials["00001"].duration_s == 1 + 2
    assert [(run.started - START, run.ended - START) for run in history.runs] == [
        (1, 4),
        (5, 8),
    ]
    assert history.duration_s == 3 + 3  # what was searched, without the gap


def applied(*stories, objective=ACC, metrics=None):
    """The history that these events lead to, applied one at a time."""
    history = History(objective, metrics=metrics)
    for event in events(*stories):
        history.apply(event)
    return history


def test_checkpoint_metrics_correct_a_repeated_epoch():
    first = (BEGIN, start(1), report(1, 1, acc=0.5), report(1, 2, acc=0.9))
    other = (start(2), report(2, 1, acc=0.7))
    again = (RESUME, start(1), checkpoint(1, 2, metrics={"acc": 0.6}))
    history = fold(events(*first, *other, *again), ACC)
    trial = history.trials["00001"]
    assert trial.list_values("acc") == [(1, 0.5), (2, 0.6)]
    assert trial.best == Best(0.6, "00001", 2, 0.6)
    assert history.best == Best(0.7, "00002", 1, 0.7)


def test_last_end_of_a_trial_counts():
    stories = [
        report(1, 1, acc=0.5),
        report(2, 1, acc=0.9),
        end(2, "failed", error=OOM),
    ]
    history = applied(*stories, end(2, "completed"))
    trial = history.trials["00002"]
    assert (trial.status, trial.error, trial.ended) == ("completed", None, START + 4)
    assert history.best == Best(0.9, "00002", 1, 0.9)
    history = applied(*stories, end(2, "completed"), end(2, "failed", error=OOM))
    assert history.trials["00002"].error == TrialError("oom", "out of memory")
    assert history.best == Best(0.5, "00001", 1, 0.5)


def test_report_or_end_says_that_a_trial_is_done():
    done = ("result", 1, {"epoch": 1, "metrics": {"acc": 0.5}, "done": True})
    others = [
        report(2, 1),
        end(2, "completed"),
        report(3, 1),
        end(3, "completed", done=True),
    ]
    trials = applied(done, end(1, "completed"), *others).trials.values()
    assert [trial.done for trial in trials] == [True, False, True]


TRIALS = st.integers(1, 5)
EPOCHS = st.integers(1, 9)
ONE_OR_TWO = st.integers(1, 2)
ENDS = st.sampled_from(["completed", "stopped", "interrupted"])
STORIES = st.lists(
    st.one_of(
        st.just(BEGIN),
        st.just(RESUME),
        st.builds(start, TRIALS),
        st.builds(report, TRIALS, EPOCHS, acc=st.integers(0, 4)),
        st.builds(report, TRIALS, EPOCHS, acc=ONE_OR_TWO, ms=ONE_OR_TWO),
        st.builds(report, TRIALS, EPOCHS),
        st.builds(end, TRIALS, ENDS),
        st.builds(end, TRIALS, st.just("failed"), error=st.just(OOM)),
        st.just(("experiment_ended", None, {"status": "interrupted"})),
        st.just(("control", None, {"id": "1", "control": {"verb": "pause"}})),
    )
)


@given(stories=STORIES)
def test_fold_loses_no_report(stories):
    journaled = events(*stories)
    trials = fold(journaled).trials
    counted = sum(event["event"] == "result" for event in journaled)
    assert sum(len(trial.results) for trial in trials.values()) == counted
    ends = {}
    for event in journaled:
        if event["event"] in ("trial_started", "trial_ended"):
            ends[event["trial_id"]] = (
                event["time"] if event["event"] == "trial_ended" else None
            )
    for trial in trials.values():
        assert trial.duration_s >= 0
        assert trial.ended == ends.get(trial.trial_id)
        assert trial.ended is not None or trial.status in ("running", "interrupted")


@given(before=STORIES, after=STORIES)
def test_copy_and_history_change_by_themselves(before, after):
    earlier = events(*before)
    *journaled, last = events(*before, *after, BEGIN)
    history = fold(earlier, ACC)
    copied = history.copy()
    for event in journaled[len(before) :]:
        history.apply(event)
    history.copy().apply(last)
    for changed, expected in ((copied, earlier), (history, journaled)):
        assert vars(changed) | {"_unshared": None} == vars(fold(expected, ACC))


@given(stories=STORIES)
def test_counts_include_each_trial_once(stories):
    history = History(ACC)
    seen = set()
    for event in events(*stories):
        history.apply(event)
        seen |= {event["trial_id"]} if "trial_id" in event else set()
        statuses = [trial.status for trial in history.trials.values()]
        assert len(statuses) == history.counts.total() == len(seen)
        assert all(
            history.counts[status] == statuses.count(status) for status in statuses
        )
        assert min(history.counts.values(), default=0) >= 0


LIMITED = ACC.model_copy(update={"limits": ("acc < 3",)})
LATE = ACC.model_copy(update={"from_epoch": 2})
LUCKY = ACC.model_copy(update={"choose": "best_epoch"})


@pytest.mark.parametrize("objective", [ACC, LIMITED, LATE, LUCKY])
@given(stories=STORIES)
def test_best_is_the_best_trial_by_the_reports_that_count(objective, stories):
    history = applied(*stories, objective=objective, metrics=["acc"])
    usable = [t for t in history.trials.values() if t.status != "failed"]
    worths = [trial.best.estimate for trial in usable if trial.best]
    assert (history.best and history.best.estimate) == (max(worths) if worths else None)
    for trial in history.trials.values():
        curve = build_curve(trial.list_counted_values(objective), objective)
        named = trial.best and (
            trial.best.epoch,
            -trial.best.value,
            -trial.best.estimate,
        )
        assert (named or (None, None, None)) == (
            curve.epoch,
            curve.loss,
            curve.estimate,
        )
    if history.best:
        trial = history.trials[history.best.trial_id]
        assert trial.best == history.best
        assert (history.best.epoch, history.best.value) in trial.list_values("acc")
    for trial in history.trials.values():
        beyond = (
            bool(objective.limits and trial.list_values("acc")) and trial.best is None
        )
        assert trial.is_beyond(objective) == beyond


BOTH = st.builds(
    report,
    st.integers(0, 4),
    st.integers(1, 5),
    acc=st.sampled_from([0.1, 0.5, 0.55, 0.9]),
    ms=st.integers(1, 3),
)
INITIAL = ("trial_started", 0, {"config": {}, "origin": "initial"})


@pytest.mark.parametrize("choose", ["estimate", "best_epoch"])
@pytest.mark.parametrize("others", [(), ("ms",), ("ms", "mib")])
@given(
    reports=st.lists(BOTH),
    stories=STORIES,
    from_epoch=st.none() | st.integers(1, 4),
    limits=st.sampled_from([(), ("ms < 3",)]),
)
def test_best_leads_the_front_and_the_leader_the_ranking_after_each_event(
    choose, others, reports, stories, from_epoch, limits
):
    objective = Objective(
        metric="acc",
        mode="max",
        others=[{"metric": name} for name in others],
        choose=choose,
        from_epoch=from_epoch,
        limits=limits,
    )
    history = History(objective, images={"images": 30})
    for event in events(INITIAL, *stories, *reports):
        if event["event"] == "result":
            event["metrics"].setdefault("ms", 1)
            event["metrics"]["mib"] = event["epoch"] % 2
        history.apply(event)
        usable = [t for t in history.trials.values() if t.status != "failed"]
        front = find_front(compute_points(usable, objective))
        named = history.best and history.best.trial_id
        assert named == (front[0][1].trial_id if front else None)
        ranked = sort_best_first(
            [(trial.best.estimate, trial) for trial in usable if trial.best], objective
        )
        leader = history.leader and history.leader.trial_id
        assert leader == (ranked[0][1].trial_id if ranked else None)


def test_ended_by_is_reset_by_a_resume():
    early = {"status": "completed", "reason": "time_budget", "never_started": 3}
    *before, resume = events(BEGIN, ("experiment_ended", None, early), RESUME)
    history = fold(before)
    assert (history.ended_by, history.never_started) == ("time_budget", 3)
    history.apply(resume)
    assert (history.ended_by, history.never_started) == (None, None)


def test_summary_counts_a_reopened_trial_by_its_journaled_status():
    ended = [(start(number), end(number, "completed")) for number in (1, 2, 3)]
    history = applied(*(story for stories in ended for story in stories))
    for trial_id in history.trials:
        history.reopen(trial_id)
    for event in events(start(2), end(3, "stopped")):
        history.apply(event)
    assert +history.counts == {"interrupted": 1, "running": 1, "stopped": 1}
    counts = history.summarize(None)["counts"]
    assert +Counter(counts) == {"completed": 1, "running": 1, "stopped": 1}
