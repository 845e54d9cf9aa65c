"""The four verbs over HTTP: what is asked, what is answered, and what is refused."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from served import Served
from synthetic import make_folder
from test_ask_tell_doc import BEARER, post, serve

from tuner.errors import SearchClosedError
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search import ask_tell
from tuner.search.ask_tell import AskTell
from tuner.service.ask_tell import PATH, Searches

SPEC = {
    "name": "far",
    "search": {"space": {"lr": "loguniform(1e-4, 1)"}},
    "scheduler": {"max_t": 3, "grace_period": 1, "reduction_factor": 2},
    "num_samples": 2,
    "seed": 7,
}


class Server(Served):
    """A server of a storage, and what clients ask it below PATH."""

    def __init__(self, storage):
        super().__init__(storage)
        self.storage = storage

    def send(self, method, path, **sent):
        return self.ask(method, f"{PATH}{path}", **sent)

    def post(self, path, body=None):
        answer = self.send("POST", path, json={} if body is None else body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def refused(self, path, body):
        """The status and the message."""
        answer = self.send("POST", path, json=body)
        assert set(answer.json()) == {"error"}
        return answer.status_code, answer.json()["error"]


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    for folder in tmp_path.iterdir():
        server.post(f"/{folder.name}/close")


@pytest.fixture
def far(server):
    server.post("/", SPEC)
    return server


def test_search_runs_from_spec_to_end(snapshot, server):
    failed = {"failure": "no memory", "kind": "oom"}
    for path, body in (
        ("/", SPEC),
        ("/", SPEC),
        ("/far/suggest", {"client": "a"}),
        ("/far/suggest", {"client": "a"}),
        ("/far/trials/00000/report", {"epoch": 1, "metrics": {"val_loss": 0.5}}),
        ("/far/trials/00000/complete", {}),
        ("/far/suggest", {}),
        ("/far/trials/00001/complete", failed),
        ("/far/suggest", {}),
    ):
        answer = server.post(path, body)
        snapshot(f"{path}\n{json.dumps(answer)}")
    state = server.send("GET", "/far/trials/00000/should-stop").json()
    assert state == {"should_stop": True, "status": "completed"}
    assert Results(server.storage / "far").trials["00001"].error == ("oom", "no memory")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/none/suggest", {}),
        ("/..%2Ffar/suggest", {}),
        ("/~/suggest", {}),
        ("/far/trials/00009/should-stop", {}),
        ("/far/trials/00000/report", {"epoch": 1}),
        ("/far/trials/00000/report", {"epoch": 1, "metrics": {}}),
        ("/far/trials/00000/report", {"metrics": {"val_loss": 1}}),
        ("/far/trials/00000/report", {"loss": 1}),
        ("/far/trials/00000/complete", {"failure": 1}),
        ("/far/trials/00000/complete", {"failure": "", "kind": "x"}),
        ("/far/suggest", {"client": ""}),
        ("/far/suggest", []),
        ("/", {**SPEC, "seed": 8}),
        ("/", {"name": "new"}),
        ("/", {**SPEC, "trainable": "os:system"}),
    ],
)
def test_invalid_request_is_refused_and_records_nothing(snapshot, far, path, body):
    far.post("/far/suggest")
    before = list(read(far.storage / "far"))
    answer = far.send("POST", path, json=body)
    snapshot(f"{answer.status_code} {answer.text}")
    assert list(read(far.storage / "far")) == before
    assert os.listdir(far.storage) == ["far"]


def test_suggest_refuses_experiments_that_run_here(
    snapshot, server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path.parent)
    for folder in (tmp_path / "digits", tmp_path.parent / "outside"):
        make_folder(folder)
        answer = server.send("POST", f"/{folder.name}/suggest", json={})
        snapshot(f"{answer.status_code} {answer.text}")


def test_suggest_reopens_search_after_journal_failure(far, tmp_path):
    far.post("/far/suggest", {"client": "a"})
    away = (tmp_path / "far").rename(tmp_path / "away")
    status, message = far.refused("/far/suggest", {})
    assert status == 503
    assert "was moved or removed while the search ran" in message
    away.rename(tmp_path / "far")
    assert far.post("/far/suggest", {"client": "a"})["trial"]["trial_id"] == "00000"


@pytest.fixture
def url(tmp_path):
    """The URL of `far` at a server that listens."""
    with serve(tmp_path) as server:
        post(server, "", SPEC)
        yield f"{server}/far"
        post(server, "far/close", {})


def posted(url, body):
    """The status, Retry-After, and what was answered."""
    answer = httpx.post(url, json=body, timeout=60, headers=BEARER)
    return answer.status_code, answer.headers.get("retry-after"), answer.json()


@pytest.mark.parametrize(
    ("verb", "body", "state"),
    [
        (
            "report",
            {"epoch": 1, "metrics": {"val_loss": 0.5}},
            {"should_stop": False, "status": "running"},
        ),
        ("complete", {}, {"should_stop": True, "status": "failed"}),
    ],
)
def test_request_during_close_can_be_repeated(
    url, tmp_path, monkeypatch, verb, body, state
):
    trial_id = posted(f"{url}/suggest", {})[2]["trial"]["trial_id"]
    request = f"{url}/trials/{trial_id}/{verb}"
    arrived = threading.Event()
    is_closed = threading.Event()
    call = getattr(AskTell, verb)

    def late(self, *arguments, **options):
        arrived.set()
        is_closed.wait(60)
        return call(self, *arguments, **options)

    def list_results():
        return [event for event in read(tmp_path / "far") if event["event"] == "result"]

    with monkeypatch.context() as slow, ThreadPoolExecutor() as workers:
        slow.setattr(AskTell, verb, late)
        answer = workers.submit(posted, request, body)
        assert arrived.wait(60)
        post(url, "close", {})
        is_closed.set()
        closed = {"error": "far is closed: ask again once it is opened"}
        assert answer.result() == (503, "2", closed)
    assert list_results() == []
    status, _, answered = posted(request, body)
    assert (status, answered) == (200, state)
    assert len(list_results()) == (verb == "report")


def test_suggestions_that_wait_at_the_end_of_the_server_record_nothing(
    tmp_path, monkeypatch
):
    """The first waits for its searcher, the others for the first."""
    searches = Searches(str(tmp_path))
    searches.create(SPEC)
    began = threading.Event()
    may_end = threading.Event()
    suggest = ask_tell._Trials.start_next

    def slow(self, client):
        began.set()
        may_end.wait(60)
        return suggest(self, client)

    monkeypatch.setattr(ask_tell._Trials, "start_next", slow)
    with ThreadPoolExecutor(12) as workers:
        search = searches.open_search("far")
        first = workers.submit(search.suggest, "a")
        assert began.wait(60)
        others = [workers.submit(search.suggest, str(n)) for n in range(9)]
        ending = workers.submit(searches.close_all)
        while not search._is_closed:
            time.sleep(0.01)
        may_end.set()
        ending.result(60)
        with pytest.raises(SearchClosedError):
            first.result(60)
        for other in others:
            with pytest.raises(SearchClosedError):
                other.result(60)
    began_trials = [e for e in read(tmp_path / "far") if e["event"] == "trial_started"]
    assert len(began_trials) <= 1
    for ask in (lambda: searches.open_search("far"), lambda: searches.create(SPEC)):
        with pytest.raises(SearchClosedError):
            ask()
