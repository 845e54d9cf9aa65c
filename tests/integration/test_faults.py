"""One trial's fault is that trial's fault: it fails with its kind, and the others go on."""

import math
import os
import re
import time
from functools import partial

import faulty
import psutil
import pytest
from faulty import OUTPUT

from tuner.cluster import connect as cluster
from tuner.ray_compat import workers
from tuner.search import tune_run
from tuner.spec.sections import MEASURED
from tuner.trial import guard
from tuner.trial.memory import measure_held_bytes
from tuner.trial.memory_monitor import watch_memory
from tuner.trial.worker_death import NOTES

GIB = 1 << 30

GOOD = "good"
KINDS = {
    "raises": ("exception", "ValueError: wrong shape: 3 x 32"),
    "exits_in_peace": ("exception", "SystemExit: 0"),
    "dies": ("crash", "its process is gone"),
    "segfaults": ("crash", "its process is gone"),
    "memory": ("oom", "MemoryError"),
    "reports_nan": ("nan", "'val_loss' is nan"),
    "reports_text": ("bad_report", "'val_loss' is no number: 'small'"),
}
OF_A_LEARNER = ["raises", "segfaults", "reports_nan"]
OF_A_FUNCTION = ["memory", "reports_text"]
AT_THE_START = ("exits_in_peace", "dies")


def spec(trainable, does, **fields):
    space = {"does": f"grid_search({list(does)!r})", **fields}
    return {
        "trainable": f"faulty:{trainable}",
        "search": {"strategy": "grid", "space": space},
        "scheduler": {"max_t": 3, "grace_period": 3},
    }


@pytest.fixture(scope="module")
def learners(searched):
    """One after the other; the fourth follows the one whose process is not used again."""
    return searched(
        **spec(
            "Learner", [GOOD, "reports_nan", "raises", "tells_its_process", "segfaults"]
        )
    )


@pytest.fixture(scope="module")
def functions(searched):
    ends_well = (
        GOOD,
        "saves",
        "returns_early",
        "returns_a_mapping",
        "tells_its_process",
    )
    fails = (*OF_A_FUNCTION, "returns_at_once")  # each takes its process with it
    return searched(**spec("train", [*ends_well, *fails]))


@pytest.fixture(scope="module", params=["Learner", "train"])
def at_the_start(request, searched):
    return searched(**spec(request.param, AT_THE_START, when="at the start"))


def trial_that(results, does):
    return next(
        trial for trial in results.trials.values() if trial.config["does"] == does
    )


def log_of(results, trial):
    return results.log_path(trial).read_text()


def assert_failed(results, does, epochs):
    trial = trial_that(results, does)
    kind, message = KINDS[does]
    assert (trial.status, trial.error.kind, trial.last_epoch) == (
        "failed",
        kind,
        epochs,
    )
    assert trial.error.message.startswith(message)
    assert "\n" not in trial.error.message
    return trial


@pytest.mark.parametrize("does", OF_A_LEARNER)
def test_learner_fails_alone(learners, does):
    log = log_of(learners, assert_failed(learners, does, 1))
    assert log.startswith(f"{OUTPUT} {does} 1\n")
    assert (f"in {does}" in log) == (does in faulty.ACTS)  # the traceback
    # What dies twice in an epoch would do so again
    tries = 2 if does == "segfaults" else 1
    assert log.count(f"{OUTPUT} {does} 2\n") == tries


@pytest.mark.parametrize("does", OF_A_FUNCTION)
def test_function_fails_alone(functions, does):
    log = log_of(functions, assert_failed(functions, does, 1))
    assert log.startswith(f"{OUTPUT} {does}\n")
    assert (f"in {does}" in log) == (does in faulty.ACTS)


@pytest.mark.slow
@pytest.mark.parametrize("does", AT_THE_START)
def test_fault_at_start_fails_trial(at_the_start, does):
    trial = assert_failed(at_the_start, does, 0)
    if does != "dies":
        assert f"in {does}" in log_of(at_the_start, trial)


def test_trials_beside_failed_trials_complete(learners, functions):
    for results in (learners, functions):
        assert results.status == "completed"
        for does in (GOOD, "tells_its_process"):
            trial = trial_that(results, does)
            assert (trial.status, trial.last_epoch) == ("completed", 3)


def test_report_leaves_out_values_that_are_not_finite(learners):
    trial = trial_that(learners, GOOD)
    assert set(trial.results[0].metrics) == {"val_loss", "pid", *MEASURED}
    assert "not recorded: ['odd', 'name']" in log_of(learners, trial)


def test_function_may_return_early_or_return_report(functions):
    early, mapping = (
        trial_that(functions, d) for d in ("returns_early", "returns_a_mapping")
    )
    assert (early.status, early.last_epoch) == ("completed", 1)
    assert (mapping.status, mapping.list_values("val_loss")) == (
        "completed",
        [(1, 0.25)],
    )
    # None of Ray's own
    assert set(trial_that(functions, GOOD).results[0].metrics) == {"val_loss"}


def test_function_without_a_report_fails_with_a_hint(functions):
    trial = trial_that(functions, "returns_at_once")
    assert trial.error.kind == "bad_report"
    assert trial.error.message.startswith(
        "returned without a report; each epoch has to end with "
    )
    assert trial.error.message.endswith("tune.report({'val_loss': ...})")


def test_a_functions_checkpoints_are_kept_as_a_learners(functions):
    trial = trial_that(functions, "saves")
    assert [record.epoch for record in trial.checkpoints] == [1, 2, 3]
    checkpoint = functions.best_checkpoint(trial)
    assert (
        checkpoint.path
        == functions.folder / "trials" / trial.trial_id / "checkpoints/3"
    )
    assert (checkpoint.path / "epoch.txt").read_text() == "3"
    assert len(list(checkpoint.path.parent.iterdir())) == 1


def test_process_of_a_trial_has_the_reserved_threads_and_the_commands_niceness(
    learners, functions
):
    for results in (learners, functions):
        metrics = trial_that(results, "tells_its_process").results[0].metrics
        assert (metrics["threads"], metrics["nice"]) == (1, os.nice(0))


@pytest.mark.slow
def test_reused_actor_keeps_no_state(searched):
    tells = ["tells_its_process"] * 2
    for trainable in ("Learner", "train"):
        fields = spec(trainable, tells, number="grid_search([0, 1, 2])")
        results = searched(**fields)
        pids = {
            report.metrics["pid"]
            for t in results.trials.values()
            for report in t.results
        }
        assert len(pids) == 1
        assert [t.last_epoch for t in results.trials.values()] == [3] * 6
        lines = {log_of(results, trial) for trial in results.trials.values()}
        assert len(lines) == 1  # each log has its own trial's lines and no others
        assert lines.pop().count(OUTPUT) == (3 if trainable == "Learner" else 1)


def test_process_of_a_failed_trial_is_not_used_again(learners):
    good, nan, raises, tells, _ = (
        {report.metrics["pid"] for report in trial.results}
        for trial in learners.trials.values()
    )
    assert good == nan == raises  # a value that is not finite leaves nothing behind
    assert tells.isdisjoint(raises)


@pytest.mark.slow
def test_process_of_unfinished_function_is_not_reused(searched):
    results = searched(
        trainable="faulty:stubborn",
        search={
            "strategy": "grid",
            "space": {
                "does": "grid_search(['goes_on', 'takes_long_to_end', 'goes_on'])"
            },
        },
        scheduler={"max_t": 1, "grace_period": 1},
    )
    ends = [(trial.status, trial.last_epoch) for trial in results.trials.values()]
    assert ends == [("completed", 1)] * 3
    assert (
        len({trial.results[0].metrics["pid"] for trial in results.trials.values()}) == 3
    )
    assert log_of(results, results.trials["00000"]).endswith(
        "this process is not used again: the function of a trial has not ended in 2 s\n"
    )


def held(pid):
    """Bytes of a process that are no file's; 0 where it is gone."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.NoSuchProcess:
        return 0
    return memory.rss - memory.shared


@pytest.mark.slow
def test_a_trial_that_takes_all_memory_is_ended_and_no_other(
    searched, tmp_path, monkeypatch
):
    """The machine is played: it has 4 GiB, and what our workers hold is really held."""
    pids = partial(
        guard.find_marked, os.environ[guard.MARK], cluster.find_scratch_folder()
    )

    def free_and_all():
        return 4 * GIB - sum(map(measure_held_bytes, pids())), 4 * GIB

    monkeypatch.setenv(NOTES, str(tmp_path))
    with watch_memory(tmp_path, pids, free_and_all):
        results = searched(
            **spec("Leaky", ["leaks", *["tells_its_process"] * 3]), max_concurrent=3
        )
    outcome = {
        t.config["does"]: (t.status, t.last_epoch) for t in results.trials.values()
    }
    assert outcome == {"leaks": ("failed", 1), "tells_its_process": ("completed", 3)}
    error = trial_that(results, "leaks").error
    assert error.kind == "oom"
    assert re.fullmatch(r"ended at \d{4} MiB, .*: memory ran out", error.message)


def test_hanging_start_is_ended_and_logged(searched, monkeypatch):
    """And it is not tried again; of a class by value, which imports nothing in that time."""
    monkeypatch.setattr(tune_run, "_PATIENCE", 60)  # so that the driver does not end it

    class Hangs:
        def __init__(self, config, constants, *, device, rank, world_size):
            print(OUTPUT, flush=True)
            time.sleep(3600)

        def step(self):
            pass

        def state_dict(self):
            pass

        def load_state_dict(self, state):
            pass

    space = {"space": {"x": "uniform(0, 1)"}}
    for limit_s in (
        4,
        60,
    ):  # a busy machine may need more than 4 s to come to the class
        timeouts = {"report_s": limit_s}
        results = searched(
            trainable=Hangs, search=space, num_samples=1, timeouts=timeouts
        )
        [trial] = results.trials.values()
        expected = f"did not start in {limit_s} s; its log shows where it hung"
        assert (trial.status, trial.error) == ("failed", ("timeout", expected))
        log = log_of(results, trial)
        if OUTPUT in log:
            break
    assert "test_faults.py" in log
    assert log.count(f"{OUTPUT}\n") == 1


BY_DRIVER = "and its process did not end itself: the driver did"


@pytest.fixture
def impatient(monkeypatch):
    """The driver ends a worker after a twentieth of the time after which it would end itself.

    Its start may take any time: on a busy machine it takes longer than that.
    """
    report_s = 100

    def build_watch(_limit_s):
        watch = workers.WorkerWatch(report_s / 20)
        watch.start_s = math.inf
        return watch

    monkeypatch.setattr(tune_run.ray_compat, "WorkerWatch", build_watch)
    return {"report_s": report_s}


@pytest.mark.slow
def test_driver_ends_silent_worker(searched, impatient):
    """One is stopped; the other has called off what would have ended it."""
    fields = spec("Learner", ["is_stopped", "calls_off"])
    results = searched(**fields, timeouts=impatient, max_concurrent=2)
    ends = [(t.status, t.last_epoch, t.error) for t in results.trials.values()]
    assert ends == [("failed", 1, ("timeout", f"no report in 100 s, {BY_DRIVER}"))] * 2


@pytest.mark.slow
def test_worker_that_hangs_after_trial_does_not_fail_next_trial(searched, impatient):
    fields = spec("Learner", ["hangs_when_dropped", GOOD])
    results = searched(**fields, timeouts=impatient)
    ends = [(t.status, t.last_epoch) for t in results.trials.values()]
    assert ends == [("completed", 3)] * 2
