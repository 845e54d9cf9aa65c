"""What a runner knows of a search that runs, and what becomes of one that has ended."""

import pytest
from confirmed import FOUND, searched
from synthetic import OWNER, Writer

from tuner.experiment.files import REFITTED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.results.confirmation import link
from tuner.search.retraining import build_refit_spec
from tuner.search.run import describe
from tuner.service.queue import searches
from tuner.service.queue.entries import COMPLETED, FAILED, INTERRUPTED, Entry, Queue
from tuner.service.queue.searches import (
    AGAIN,
    Search,
    build_entry_spec,
    choose_status,
    compute_amounts,
    count_remaining,
    find_outcome,
    is_at_work,
    read_failure,
)
from tuner.service.queue.shares import Amounts, Demand
from tuner.spec.code import IMAGE_CLASSIFIER

SPEC = {
    "name": "a",
    "search": {"space": {"lr": "uniform(0, 1)"}},
    "num_samples": 6,
    "resources": {"cpus": 2, "gpus": 0, "workers": 1},
}


def entry(**fields):
    return Entry(name="a", user="ann", added=1.0, directory="/", spec=SPEC | fields)


def event(kind, **fields):
    return {"event": kind, "time": 1.0, **fields}


def started():
    return event("experiment_started", resumed=False, owner=OWNER)


def trial(number, status=""):
    if status:
        why = {"error": {"kind": "nan", "message": "m"}} if status == "failed" else {}
        return event("trial_ended", trial_id=f"{number:05}", status=status, **why)
    return event("trial_started", trial_id=f"{number:05}", config={})


def control(limit, **fields):
    requested = {"verb": "max-concurrent", "max_concurrent": limit}
    return event("control", id="1", control=requested, **fields)


def test_left_of_counts_trials_to_end():
    spec = build_entry_spec(entry())
    assert (
        count_remaining(
            fold([started(), *map(trial, range(3)), trial(0, "completed")]), spec
        )
        == 5
    )
    gone = fold([trial(0), trial(1), trial(0, "interrupted"), started(), trial(1)])
    assert count_remaining(gone, spec) == 6
    # Tried again
    assert count_remaining(fold([trial(0), trial(0, "failed"), trial(0)]), spec) == 6
    endless = build_entry_spec(entry(num_samples=None, time_budget_s=60))
    assert count_remaining(gone, endless) is None


@pytest.mark.parametrize(
    ("requested", "left"),
    [
        ({"verb": "num-samples", "num_samples": 9}, 8),
        ({"verb": "num-samples", "num_samples": 1}, 2),  # that have begun
        ({"verb": "try", "config": {"lr": 0.5}}, 6),
        ({"verb": "finish"}, 2),
    ],
)
def test_left_of_follows_controls(requested, left):
    spec = build_entry_spec(entry())
    history = fold([started(), trial(0), trial(0, "completed"), trial(1), trial(2)])
    history.apply(event("control", id="1", control=requested, refused="why"))
    assert count_remaining(history, spec) == 5
    history.apply(event("control", id="2", control=requested))
    assert count_remaining(history, spec) == left


def search(tmp_path, *, limit=3, **fields):
    queue = Queue(str(tmp_path))
    running = entry(**fields)
    lease = queue.watch_entry("a").take_if_free()
    return Search(queue, running, build_entry_spec(running), lease, None, limit=limit)


def test_demand_of_running_search(tmp_path):
    running = search(tmp_path)
    assert running.estimate_demand() == Demand("a", "ann", Amounts(2), most=6, holds=3)
    for each in (started(), trial(0), trial(1), trial(2), control(1)):
        running._history.apply(each)
    running._requested = 1
    assert running.estimate_demand().holds == 3  # until they end
    running._history.apply(trial(0, "completed"))
    running._history.apply(trial(1, "completed"))
    assert running.estimate_demand().holds == 1
    for number in (2, 3, 4):
        running._history.apply(trial(number, "completed"))
    assert running.estimate_demand().most == 1  # of six
    running._history.apply(trial(5, "completed"))
    assert running.estimate_demand().holds == 1  # it evaluates its best


def test_limit_is_not_lowered_above_the_trials_left(tmp_path, monkeypatch):
    requests = []
    monkeypatch.setattr(
        searches,
        "send_request",
        lambda *how, by: requests.append(how[1].max_concurrent),
    )
    running = search(tmp_path)
    for each in (
        started(),
        *map(trial, range(6)),
        *(trial(n, "completed") for n in range(4)),
    ):
        running._history.apply(each)
    running.request_limit(2)
    assert (requests, running.estimate_demand().holds) == ([], 2)
    running.request_limit(1)
    assert requests == [1]


@pytest.mark.parametrize(
    ("code", "outcome", "tries", "progress", "status"),
    [
        (0, COMPLETED, 1, None, COMPLETED),
        (3, COMPLETED, 1, None, COMPLETED),  # some trials failed
        (1, FAILED, 1, 1, FAILED),  # all of them
        (1, None, 1, None, FAILED),  # its Ray has never started
        (1, None, 1, 0, AGAIN),  # its Ray has died
        (2, None, 1, 0, FAILED),
        (2, COMPLETED, 1, None, COMPLETED),  # another driver was faster
        (None, COMPLETED, 0, None, COMPLETED),
        (None, INTERRUPTED, 0, None, INTERRUPTED),
        (None, None, 0, None, AGAIN),
        (-9, INTERRUPTED, 2, None, AGAIN),  # by a driver before
        (-9, None, 3, 1, AGAIN),
        (-9, None, 3, 0, FAILED),  # before any report, each time
        (129, INTERRUPTED, 1, None, INTERRUPTED),
        (130, INTERRUPTED, 1, None, INTERRUPTED),
        (143, INTERRUPTED, 1, None, INTERRUPTED),
        (-15, None, 1, None, INTERRUPTED),  # before it had begun to listen
    ],
)
def test_verdict(code, outcome, tries, progress, status):
    assert (
        choose_status(code, outcome=outcome, tries=tries, progress=progress) == status
    )


@pytest.mark.parametrize(
    ("end", "trials", "came_to"),
    [
        ("completed", [{}], COMPLETED),
        ("completed", [{"error": ("nan", "m")}], FAILED),  # none is of use: exit code 1
        ("completed", [], FAILED),
        ("failed", [{}], FAILED),
        ("interrupted", [{}], INTERRUPTED),
        (None, [{}], None),
    ],
)
def test_outcome_of_journal(writer, end, trials, came_to):
    for number, how in enumerate(trials):
        writer.trial(number, [0.5], **how)
    if end is None:
        writer.kill()
    else:
        writer.end(end)
    assert find_outcome(writer.folder) == came_to


def test_search_ends_with_its_refit(tmp_path):
    found = searched(tmp_path / "a", FOUND, trainable=IMAGE_CLASSIFIER, refit=True)
    adopted = search(tmp_path)
    adopted.read()
    assert adopted.has_ended
    assert find_outcome(found.folder) is None  # killed before its refit
    spec = build_refit_spec(found)
    ExperimentFolder(spec.folder).create(describe(spec))
    link(found, spec.name, REFITTED)
    writer = Writer(spec.folder)
    assert is_at_work(found.files)
    assert not adopted.has_ended
    writer.trial(0, [{"epochs_trained": 2}], config=spec.search.configs[0])
    writer.end()
    assert adopted.has_ended
    assert find_outcome(found.folder) == COMPLETED


@pytest.mark.parametrize(
    ("share", "counts"), [(0.25, 0.25), (0.6, 1), (0.4, 0.5), (0.3, 1 / 3)]
)
def test_amounts_of_gpu_fraction_include_unusable_rest(share, counts):
    """As Ray places them: two trials of 0.6 on two GPUs, though three would be 1.8."""
    each = compute_amounts(
        build_entry_spec(entry(resources={"cpus": 0.1, "gpus": share}))
    )
    assert each.gpus == pytest.approx(counts)


def test_why_of_failure_is_last_error_or_last_lines(tmp_path):
    log = tmp_path / "log.txt"
    assert read_failure(log) == ""
    log.write_text("".join(f"line {n}\n\n" for n in range(9)) + "\x1b[31mno\n")
    assert read_failure(log).splitlines() == [
        *(f"line {n}" for n in range(5, 9)),
        " [31mno",
    ]
    log.write_text(
        "error: an earlier one\nwarning: x\nerror: no usable trial\n  details\n"
    )
    assert read_failure(log) == "error: no usable trial\n  details"
