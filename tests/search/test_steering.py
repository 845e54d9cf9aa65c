"""What is asked of a search is journaled, then done; without Ray, with a search that only notes."""

import pytest
from synthetic import Writer, make_folder

from tuner.errors import ExperimentError
from tuner.experiment.control import build_control, send_request
from tuner.experiment.events import CONTROL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.driver import Driver
from tuner.search.preparation import Plan
from tuner.search.schedulers._stopping import InOrder
from tuner.search.searchers._numbered import NumberedSearch
from tuner.search.tune_callbacks import TuneSearcher
from tuner.trial.context import Assignment


class Search(Driver):
    """A search on a real journal, whose trials only the test runs."""

    def __init__(self, folder, *, resumed=False):
        self.writer = Writer(folder, resumed=resumed)
        super().__init__(
            Plan(Results(folder).spec), ExperimentFolder(folder), self.writer.journal
        )
        for event in read(folder):
            self.history.apply(event)
        self.scheduler = InOrder()
        self.searcher = NumberedSearch(
            "random", lambda number: {"lr": 0.1 + number / 100}
        )
        self.begin([], fits=lambda: 8)
        self.source = TuneSearcher(self)

    def hear(self):
        """Answer what was asked, as Tune's thread does once the listener has read it."""
        self.steering._read()
        self.steering.answer_requests()

    def ask(self, control):
        request_id = send_request(self.folder, control, by="ada")
        self.hear()
        return request_id

    def start(self, ray_id):
        """The next trial, journaled as started; its id and origin."""
        given = self.source.suggest(ray_id)
        trial_id = given["trial_id"]
        config = given["config"]
        origin = {"origin": given["origin"]} if given["origin"] else {}
        self.emit("trial_started", trial_id=trial_id, config=config, **origin)
        return trial_id, given["origin"], config

    def report(self, trial_id, epoch):
        """Journal a report; whether the trial is to leave."""
        self.emit(
            "result", trial_id=trial_id, epoch=epoch, metrics={"val_accuracy": 0.5}
        )
        return self.scheduler.leaves(trial_id)

    def controls(self):
        self.writer.journal.sync()
        answers = [e for e in read(self.folder.path) if e["event"] == CONTROL]
        return [(e["control"]["verb"], e.get("refused")) for e in answers]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "1")
    return make_folder(tmp_path / "digits", max_concurrent=2, num_samples=6)


@pytest.fixture
def search(folder):
    made = Search(folder)
    yield made
    made.writer.journal.close()


def test_pause_frees_slots_and_go_on_resumes_first(search):
    first = search.start("a")[0]
    request_id = search.ask(build_control("pause"))
    assert (search.steering.count_slots(), search.steering.count_spare_workers()) == (
        0,
        0,
    )
    assert search.source.suggest("b") is None
    assert search.report(first, 1)
    assert search.steering.pop_requested_end(first) == ("interrupted", request_id)
    search.source.on_trial_complete("a", {"val_accuracy": 0.5})
    search.end(first, "interrupted", control=request_id)
    search.queue.retry(Assignment(first, {"lr": 0.1}, epoch=1))
    assert search.source.suggest("c") is None
    search.ask(build_control("go-on"))
    assert search.start("d")[0] == first
    assert not search.report(first, 2)
    assert search.steering.count_spare_workers() is None


def test_stop_trial_ends_a_waiting_trial(search):
    first = search.start("a")[0]
    search.ask(build_control("pause"))
    search.report(first, 1)
    search.source.on_trial_complete("a", {})
    search.end(first, "interrupted")
    search.queue.retry(Assignment(first, {"lr": 0.1}, epoch=1))
    request_id = search.ask(build_control("stop-trial", first))
    trial = search.history.trials[first]
    assert (trial.status, trial.ended_by) == ("stopped", request_id)
    search.ask(build_control("go-on"))
    assert search.start("b")[0] == "00001"


def test_max_concurrent_limits_live_trials(search):
    assert search.steering.apply_max_concurrent(8) == 2
    search.start("a"), search.start("b")
    assert search.source.suggest("c") is None
    search.ask(build_control("max-concurrent", 3))
    search.start("c")
    search.ask(build_control("max-concurrent", 1))
    search.source.on_trial_complete("a", {"val_accuracy": 1})
    assert search.source.suggest("d") is None
    assert search.steering.count_spare_workers() == 0
    search.ask(build_control("max-concurrent", None))
    assert search.steering.count_slots() == 8


def test_kill_before_a_requested_trial_starts_repeats_no_config(search, folder):
    first = search.start("a")
    search.ask(build_control("try", {"lr": 0.5}))
    search.end(first[0], "completed")
    search.source.on_trial_complete("a", {"val_accuracy": 0.5})
    assert search.source.suggest("b")["trial_id"] == "00001"  # killed before it starts
    later = search.start("c")
    search.writer.kill()
    again = Search(folder, resumed=True)
    assert again.start("a") == ("00001", "asked", {"lr": 0.5})
    again.ask(build_control("max-concurrent", 3))
    started = [first, later, again.start("b"), again.start("c")]
    assert [c["lr"] for _, _, c in started] == pytest.approx([0.1, 0.11, 0.12, 0.13])
    again.writer.journal.close()


def test_control_that_cannot_be_journaled_is_not_done(search):
    search.error = ExperimentError("the disk is full")
    for control in (build_control("try", {"lr": 0.5}), build_control("num-samples", 9)):
        search.ask(control)
    assert search.controls() == []
    assert search.spec.num_samples == 6
    assert search.source.suggest("a") == "FINISHED"


def test_impossible_controls_are_refused_in_the_journal(snapshot, search):
    first = search.start("a")[0]
    early = send_request(search.folder, build_control("stop-trial", first))
    search.end(first, "completed")
    search.hear()
    verbs = ["go-on", "pause", "pause", "finish", "finish"]
    for control in (*map(build_control, verbs), build_control("try", {"lr": 0.5})):
        search.ask(control)
    snapshot("\n".join(map(str, search.controls())))
    assert search.history.steered.tries == []
    assert search.history.steered.answers[0].id == early


def test_requests_are_answered_once_despite_kills(search, folder):
    # Journaled, and killed before it is done
    search.ask(build_control("try", {"lr": 0.5}))
    send_request(
        search.folder, build_control("time-budget", 60)
    )  # and this one before it is journaled
    search.writer.kill()
    again = Search(folder, resumed=True)
    assert again.start("a") == ("00000", "asked", {"lr": 0.5})
    again.hear()
    again.hear()
    assert again.controls() == [("try", None), ("time-budget", None)]
    assert again.spec.time_budget_s == 60
    again.writer.kill()
    third = Search(folder, resumed=True)
    third.hear()
    assert third.start("a") == ("00001", "random", {"lr": 0.1})
    assert len(third.controls()) == 2
    third.writer.kill()


def test_request_at_the_end_is_refused(search):
    with search.steering.receive_requests():
        request_id = send_request(search.folder, build_control("pause"))
    answers = {answer.id: answer.refused for answer in search.history.steered.answers}
    assert answers == {request_id: "the search has ended"}


def test_error_while_controls_are_read_ends_the_search(search):
    # Of the first read, which the thread does
    errors = [RuntimeError("no such\nbucket")]

    class Broken(ExperimentFolder):
        def list_files(self, name):
            if errors:
                raise errors.pop()
            return []

    search.folder = Broken(search.folder.path)
    with search.steering.receive_requests():
        pass
    assert search.is_over()
    assert str(search.stop.error) == "the controls cannot be read: no such bucket"
