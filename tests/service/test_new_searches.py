"""New searches from the page: the check of a text, and the queue."""

import pytest
from served import Served
from stories import search

from tuner.service.new_searches import find_line, list_faults
from tuner.service.queue.entries import Queue
from tuner.spec.text import find_lines, read_value

pytestmark = pytest.mark.usefixtures("commands_here")

SPEC = """\
name: mine
training: {model: cnn, dataset: digits}
search:
  space:
    lr: loguniform(1, 0.1)
num_samples: 3
"""
IMAGES = "tuner.vision.image_classifier:ImageClassifier"


def plan(served, text):
    return served.ask("POST", "/api/plans", json={"text": text}).json()


def test_check_gives_the_plan_or_the_faults_with_their_lines(tmp_path):
    served = Served(tmp_path)
    answer = plan(served, "digits num_samples=3")
    assert answer["faults"] == []
    assert answer["plan"].startswith("digits would run")
    [fault] = plan(served, SPEC)["faults"]
    assert fault["line"] == 5
    assert fault["text"].startswith("search.space.lr: ")
    [fault] = plan(served, "name: [")["faults"]
    assert fault["line"] == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "nope", "trainable: os:system", "'"])
def test_check_refuses_what_is_no_search(tmp_path, text):
    answer = plan(Served(tmp_path), text)
    assert answer["plan"] == ""
    assert answer["faults"]


def test_lines_are_those_of_the_keys(snapshot):
    lines = find_lines(SPEC)
    snapshot.compare_value(lines)
    assert find_line("search.space.lr.low: is above", lines) == 5
    assert find_line("scheduler.max_t: is missing", lines) is None
    [fault] = list_faults("the spec has 1 fault:\n  name: bad", SPEC)
    assert fault == {"line": 1, "text": "name: bad"}


def test_queue_gets_the_search_of_a_text(snapshot, tmp_path):
    served = Served(tmp_path)
    for name in ("digits", "digits-2"):
        answer = served.ask("POST", "/api/queue", json={"text": "digits num_samples=2"})
        assert (answer.status_code, answer.json()) == (201, {"name": name})
    entry = Queue(str(tmp_path)).read_entry("digits-2")
    assert (entry.user, entry.spec["num_samples"]) == ("browser", 2)
    start = served.ask("GET", "/api/start").json()
    snapshot.compare_value([row[:3] for row in start["sections"][0]["rows"][1:]])
    assert dict(start["examples"])["digits"].startswith("A small CNN on scikit-learn's")
    assert served.ask("POST", "/api/queue", json={"text": SPEC}).status_code == 400


def test_variation_is_a_spec_that_trains_the_config_once(tmp_path):
    space = {"lr": "loguniform(0.001, 1)", "momentum": "uniform(0, 0.99)"}
    space["width"] = "choice([16, 32])"
    settings = {"trainable": IMAGES, "training": {"model": "cnn", "dataset": "digits"}}
    results = search(
        tmp_path / "x", 3, search={"strategy": "random", "space": space}, **settings
    )
    served = Served(tmp_path)
    text = served.get("x", "trials", "00001", "variation").text
    spec = read_value(text)
    assert spec["search"]["points_to_evaluate"] == [results.trials["00001"].config]
    assert (spec["name"], spec["num_samples"]) == ("x-variation", 1)
    assert plan(served, text)["faults"] == []
