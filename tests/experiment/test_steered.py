"""What controls have made of a search, and of its spec, from events alone."""

from tuner.experiment.events import (
    COMPLETED,
    CONTROL,
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    find_fault,
)
from tuner.experiment.history import History
from tuner.experiment.steered import LATEST, apply_controls, collect_answers

OWNER = {"host": "h", "pid": 1, "started": 1.0}
START = {"event": EXPERIMENT_STARTED, "time": 1.0, "resumed": False, "owner": OWNER}
END = {"event": EXPERIMENT_ENDED, "time": 9.0, "status": COMPLETED, "reason": "finish"}


def control(number, verb, *, refused=None, **values):
    event = {
        "event": CONTROL,
        "time": 2.0,
        "id": f"{number}",
        "control": {"verb": verb, **values},
    }
    event |= {"by": "ada"} | ({"refused": refused} if refused else {})
    assert find_fault(event) is None
    return event


def steered(*events):
    history = History()
    for event in [START, *events]:
        history.apply(event)
    return history.steered


def test_paused_until_go_on_or_resume():
    assert not steered().paused
    assert steered(control(1, "pause")).paused
    assert not steered(control(1, "pause"), control(2, "go-on")).paused
    assert not steered(control(1, "pause"), START).paused
    assert not steered(control(1, "pause", refused="it is paused")).paused


def test_finishing_until_the_end():
    assert steered(control(1, "pause"), control(2, "finish")).finishing
    assert not steered(control(1, "pause"), control(2, "finish")).paused
    assert steered(control(1, "finish"), START).finishing
    assert steered(
        control(1, "finish"), {**END, "status": "interrupted"}, START
    ).finishing
    assert not steered(control(1, "finish"), END, START).finishing
    failed = {**END, "status": "failed"}
    assert not steered(control(1, "finish"), failed, START).finishing
    running = {"event": "trial_started", "time": 1.0, "trial_id": "00000", "config": {}}
    assert steered(running, control(1, "finish"), failed, START).finishing


def test_stops_and_tries_survive_a_resume(snapshot):
    state = steered(
        control(1, "stop-trial", trial_id="00003"),
        control(2, "try", config={"lr": 1}),
        START,
        control(3, "try", config={"lr": 2}),
        control(4, "try", config={"lr": 3}, refused="no"),
        control(5, "a-verb-of-later", x=1),
    )
    assert state.ids == {"1", "2", "3", "4", "5"}
    snapshot.compare_value((state.stops, state.tries, state.answers[3].as_dict()))


def test_tries_wait_until_their_trials_begin():
    # Of a version that names none
    earlier = [control(n, "try", config={"lr": n}) for n in (1, 2)]
    later = [
        {**control(n, "try", config={"lr": n}), "trial_id": f"{n:05}"}
        for n in (5, 6, 7)
    ]
    state = steered(*earlier, *later)
    assert [each.config["lr"] for each in state.list_waiting([])] == [1, 2, 5, 6, 7]
    assert [each.config["lr"] for each in state.list_waiting(["00002", "00006"])] == [
        2,
        5,
        7,
    ]
    assert list(state.list_waiting(["00002", "00003", "00005", "00006", "00007"])) == []


def test_present_applies_controls_once():
    events = [
        control(1, "num-samples", num_samples=9),
        control(2, "time-budget", time_budget_s=60.0),
        control(3, "num-samples", num_samples=1, refused="no"),
        control(4, "time-budget", time_budget_s=None),
    ]
    document = {"format": 1, "spec": {"num_samples": 4, "seed": 1}}
    now = apply_controls(document, collect_answers(events))
    assert now["spec"] == {"num_samples": 9, "seed": 1, "time_budget_s": None}
    assert document["spec"] == {"num_samples": 4, "seed": 1}
    assert apply_controls(now, collect_answers(events)) == now
    # As a resume writes it
    extended = {**now, "spec": {**now["spec"], "num_samples": 12}}
    assert (
        apply_controls(extended, collect_answers(events))["spec"]["num_samples"] == 12
    )
    later = [*events, control(5, "num-samples", num_samples=3)]
    assert apply_controls(extended, collect_answers(later))["spec"]["num_samples"] == 3
    assert apply_controls(document, []) == document
    assert LATEST not in apply_controls(document, [])
