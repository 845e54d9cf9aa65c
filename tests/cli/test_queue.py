"""tuner queue; tests/service/queue and tests/integration/test_queue.py have what it runs."""

import json

import pytest
from commands import A_FUNCTION, GOOD, call, fetch_json, refusal, text_of
from stories import search
from synthetic import Writer, make_folder

from tuner.cli import queue as command
from tuner.errors import UsageError
from tuner.experiment.results.confirmation import find_linked_folders
from tuner.service.queue.entries import Queue


@pytest.fixture
def spec(here):
    text_of(here / "mine.json", GOOD)
    return "mine.json"


def test_queue_add_stores_the_resolved_spec(here, spec):
    done = call(
        "queue", "add", spec, "--num-samples", 3, "scheduler.max_t=1", "--user", "ann"
    )
    assert (done.return_value, done.stdout) == (None, "mine\n")
    (here / spec).unlink()  # nobody needs it any more
    entry = Queue("results").read_entry("mine")
    assert (entry.user, entry.directory, entry.paths) == ("ann", str(here), ())
    assert entry.spec["num_samples"] == 3
    assert entry.spec["scheduler"]["max_t"] == 1
    assert entry.spec["scheduler"]["grace_period"]  # what was left open is decided


def test_queue_confirm_adds_an_experiment_that_the_search_names(here):
    searched = search(here / "results/digits", 12, trainable=A_FUNCTION, training={})
    arguments = ("queue", "confirm", "digits", "--top", 2, "--seeds", 3, "--trust")
    assert call(*arguments).stdout == "digits-confirm\n"
    entry = Queue("results").read_entry("digits-confirm")
    assert entry.spec["confirms"]["name"] == "digits"
    assert len(entry.spec["search"]["seeds"]) == 3
    assert [path.name for path in find_linked_folders(searched)] == ["digits-confirm"]
    assert "digits-confirm" in refusal(*arguments)  # it waits already
    Writer(make_folder(here / "results/digits-confirm", **entry.spec)).end()
    assert "has trained the same configs" in refusal(*arguments)


def test_queue_add_keeps_module_paths(here, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "queued_code.py").write_text("def train(config):\n    pass\n")
    spec = {key: value for key, value in GOOD.items() if key != "training"}
    text_of(elsewhere / "theirs.json", {**spec, "trainable": "queued_code:train"})
    call("queue", "add", elsewhere / "theirs.json", "--yes")
    assert Queue("results").read_entry("theirs").paths == (str(elsewhere),)


def test_queue_ls_as_table_and_json(snapshot, here, spec):
    assert call("queue", "ls").stdout == "the queue is empty\n"
    assert call("queue", "ls", "--json").stdout == "[]\n"
    call("queue", "add", spec, "--user", "ann")
    call("queue", "add", spec, "--user", "bob")
    snapshot(refusal("queue", "add", spec, "--name", "mine"))
    Queue("results").end("mine", "failed", code=1, why="error: \x1b[31mfirst\nlast")
    snapshot(
        call("queue", "ls").stdout, varying={r"20\d\d-\d\d-\d\d \d\d:\d\d": "TIME"}
    )
    listed = fetch_json("queue", "ls")
    assert all(each.pop("added") for each in listed)
    assert listed[0].pop("ended")
    snapshot(json.dumps(listed, indent=1))


def test_queue_run_with_nothing_to_run_succeeds(here, spec):
    """An earlier failure is not this run's."""
    call("queue", "add", spec)
    Queue("results").end("mine", "failed", code=1, why="error")
    assert call("queue", "run").return_value == 0


def test_queue_rm_removes_entries(snapshot, here, spec):
    for _ in range(2):
        call("queue", "add", spec)
    snapshot(call("queue", "rm", "mine", "mine-2").stdout)
    assert call("queue", "ls").stdout == "the queue is empty\n"
    assert "no entry 'mine'" in refusal("queue", "rm", "mine")


@pytest.mark.parametrize(
    "share", ["ann", "ann=", "=2", "ann=0", "ann=-1", "ann=inf", "ann=x"]
)
def test_share_must_be_above_0(snapshot, share):
    with snapshot.raises(UsageError):
        command._parse_weight(share)
