"""Advice on the page: how often it is computed, and what the buttons of its findings do."""

import pytest
from served import Served
from stories import SPACE, search
from synthetic import Writer, make_folder

from tuner.experiment import control
from tuner.experiment.folder import ExperimentFolder
from tuner.service.advice import Advice, find_offer
from tuner.service.queue.entries import Queue

pytestmark = pytest.mark.usefixtures("commands_here")


def test_findings_are_computed_at_a_slow_pace(tmp_path):
    results = search(tmp_path / "x", 3)
    computed = []

    def compute(name, storage):
        computed.append(name)
        return [{"action": {"command": f"tuner best {len(computed)}"}}]

    times = iter([0, 1, 29, 49, 50, 55, 299])  # it takes 1 s, and then 5 s
    advice = Advice(None, clock=lambda: next(times), compute=compute)
    for _ in range(5):
        advice.update(results)
    assert computed == ["x", "x"]
    assert advice.is_known(results, "tuner best 1")  # a page may still show it
    assert not advice.is_known(results, "tuner best 3")


def test_running_search_gets_the_trials_that_advice_misses(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], config={"lr": 0.1})
    served = Served(tmp_path)
    [finding] = served.get("x", "findings").json()
    assert (
        finding["offer"]["text"] == "This search runs 40 trials in all, in place of 4."
    )
    assert served.post("x", "advice", command=finding["command"]).status_code == 201
    [request] = control.read_requests(ExperimentFolder(writer.folder))
    assert request.control == control.build_control("num-samples", 40)
    assert request.by == "browser"
    writer.kill()


def test_running_search_hears_of_no_trials_that_are_still_to_come(tmp_path):
    writer = Writer(make_folder(tmp_path / "x", num_samples=100))
    assert Served(tmp_path).get("x", "findings").json() == []
    writer.kill()


def test_button_of_a_confirmation_adds_it_to_the_queue(tmp_path):
    results = search(tmp_path / "x", 12)
    offer = find_offer("tuner confirm x --top 2 --seeds 3", results)
    assert offer.title == "Add to the queue"
    assert offer.arguments == ("confirm", "x", "--top", "2", "--seeds", "3")
    assert find_offer("tuner resume x --add-samples 9", results) is None


def test_finding_adds_its_search_to_the_queue(tmp_path):
    space = {"strategy": "random", "space": {**SPACE, "momentum": "uniform(0, 0.99)"}}
    training = {"model": "cnn", "dataset": "digits"}
    search(
        tmp_path / "x",
        40,
        search=space,
        trainable="tuner.vision.image_classifier:ImageClassifier",
        training=training,
        scheduler=None,
    )
    served = Served(tmp_path)
    command = next(
        each["command"] for each in served.get("x", "findings").json() if each["offer"]
    )
    answer = served.post("x", "advice", command=command)
    assert Queue(str(tmp_path)).read_entry(answer.json()["name"]).user == "browser"
    assert served.post("x", "advice", command=f"{command} ").status_code == 400
