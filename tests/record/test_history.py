import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER, START, Clock, Writer

from tuner.record.history import CheckpointRecord, Report, TrialError, fold


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


def test_a_whole_trial():
    path = {"path": "trials/00001/checkpoints/1/state.pt", "sha256": "0" * 64}
    history = fold(
        events(
            BEGIN,
            ("trial_started", 1, {"config": {"lr": 0.1}, "origin": "given", "seed": 5}),
            report(1, 1, loss=0.5),
            ("checkpoint", 1, {"epoch": 1} | path),
            report(1, 2, loss=0.4),
            end(1, "completed"),
            ("experiment_ended", None, {"status": "completed"}),
        )
    )
    assert (history.status, history.started, history.ended) == ("completed", START + 1, START + 7)
    assert history.duration_s == 6
    (trial,) = history.trials.values()
    assert trial.config == {"lr": 0.1}
    assert trial.results == (
        Report(1, START + 3, {"loss": 0.5}),
        Report(2, START + 5, {"loss": 0.4}),
    )
    assert trial.checkpoints == (CheckpointRecord(1, path["path"], path["sha256"]),)
    assert (trial.status, trial.error, trial.origin, trial.seed) == ("completed", None, "given", 5)
    assert (trial.started, trial.ended, trial.duration_s) == (START + 2, START + 6, 4)
    assert trial.last_epoch == 2
    assert trial.values("loss") == [(1, 0.5), (2, 0.4)]
    assert trial.report_at(2) == trial.results[1]
    assert trial.report_at(3) is None


def test_a_failure_has_its_kind_and_message():
    error = {"kind": "oom", "message": "out of memory"}
    history = fold(events(BEGIN, start(1), end(1, "failed", error=error)))
    assert history.trials["00001"].error == TrialError("oom", "out of memory")


def test_what_has_not_ended_is_running():
    history = fold(events(BEGIN, start(1), report(1, 1)))
    assert (history.status, history.ended, history.duration_s) == ("running", None, None)
    assert history.trials["00001"].status == "running"


def test_a_resume_goes_on_with_its_trials():
    history = fold(
        events(
            BEGIN,
            start(1, lr=0.1),
            report(1, 1),
            start(2, lr=0.2),
            RESUME,
            start(1, lr=0.1),
            report(1, 2),
            end(1, "completed"),
        )
    )
    assert history.resumed == 1
    one, two = history.trials.values()
    assert [r.epoch for r in one.results] == [1, 2]
    assert (one.status, one.config) == ("completed", {"lr": 0.1})
    assert one.duration_s == 1 + 2  # not the gap between its last report and its second start
    assert [run.duration_s for run in one.runs] == [1, 2]
    assert [(run.started - START, run.ended - START) for run in history.runs] == [(1, 4), (5, 8)]
    assert two.status == "interrupted"


def test_a_resume_takes_back_an_end():
    error = {"kind": "crash", "message": "gone"}
    ended = ("experiment_ended", None, {"status": "interrupted"})
    history = fold(events(BEGIN, start(1), end(1, "failed", error=error), ended, RESUME, start(1)))
    trial = history.trials["00001"]
    assert (history.status, history.ended) == ("running", None)
    assert (trial.status, trial.error, trial.ended) == ("running", None, None)


def test_unknown_events_and_a_report_without_a_start_do_no_harm():
    history = fold(events(BEGIN, ("later_version", 1, {}), report(3, 1, loss=1.0)))
    assert list(history.trials) == ["00003"]
    assert history.trials["00003"].config == {}
    assert history.trials["00003"].duration_s == 0


def test_trials_come_in_order_of_their_ids_whichever_started_first():
    history = fold(events(BEGIN, start(3), start(1), start(20), start(2)))
    assert list(history.trials) == ["00001", "00002", "00003", "00020"]


def test_nothing_folds_to_nothing():
    history = fold([])
    assert (history.trials, history.started, history.resumed) == ({}, None, 0)


@given(
    stories=st.lists(
        st.one_of(
            st.just(BEGIN),
            st.just(RESUME),
            st.builds(start, st.integers(1, 3)),
            st.builds(report, st.integers(1, 3), st.integers(1, 9)),
            st.builds(end, st.integers(1, 3), st.sampled_from(["completed", "stopped"])),
        )
    )
)
def test_any_story_folds_and_loses_no_report(stories):
    told = events(*stories)
    history = fold(told)
    assert sum(len(t.results) for t in history.trials.values()) == sum(
        event["event"] == "result" for event in told
    )
    for trial in history.trials.values():
        assert trial.duration_s >= 0
        assert (trial.ended is None) == (trial.status in ("running", "interrupted"))


@pytest.mark.parametrize("last", ["completed", "interrupted", "failed"])
def test_the_writer_of_the_tests_tells_a_story_that_folds(tmp_path, last):
    writer = Writer(tmp_path)
    writer.trial(1, [0.5], end="stopped")
    writer.end(last)
    history = fold(writer.events)
    assert history.status == last
    assert history.trials["00001"].status == "stopped"
