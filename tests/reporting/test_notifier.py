"""Notifications to a real HTTP server, a command, and apprise; no Ray."""

import json
import sys

import pytest
from synthetic import Writer, make_folder
from webhook import Server

from tuner.errors import UsageError
from tuner.experiment.events import (
    EXPERIMENT_ENDED,
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_ENDED,
    TRIAL_STARTED,
)
from tuner.experiment.history import History
from tuner.reporting.notifier import END, FAILURE, Notifier, build_deliveries
from tuner.spec.experiment import build_spec


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


class Searched:
    """A search that is played to a Notifier, as a driver notifies its observers."""

    def __init__(self, tmp_path, *notify, best_every_s=0.0, **timing):
        search = {"space": {"lr": "uniform(0, 1)"}}
        fields = {
            "name": "digits",
            "storage": str(tmp_path),
            "search": search,
            "num_samples": 4,
        }
        self.spec = build_spec({**fields, "notify": list(notify)})
        self.history = History(self.spec.objective)
        self.now = 1000.0
        self.notifier = Notifier(
            self.spec, self.history, best_every_s=best_every_s, **timing
        )
        self.event(EXPERIMENT_STARTED, resumed=False)

    def event(self, event, **fields):
        self.now += 1
        record = {"event": event, "time": self.now, **fields}
        self.history.apply(record)
        self.notifier(record)

    def start(self, trial_id):
        self.event(TRIAL_STARTED, trial_id=trial_id, config={"lr": 0.5})

    def report(self, trial_id, epoch, loss):
        self.event(RESULT, trial_id=trial_id, epoch=epoch, metrics={"val_loss": loss})

    def end(self, trial_id, status, **fields):
        self.event(TRIAL_ENDED, trial_id=trial_id, status=status, **fields)


ERROR = {"kind": "exception", "message": "ValueError: no\nsuch"}


def test_notifier_posts_new_best_first_failure_and_end(snapshot, server, tmp_path):
    search = Searched(tmp_path, server.url)
    search.start("00000")
    search.report("00000", 1, 0.5)
    snapshot(json.dumps(server.message(), indent=1))
    search.report("00000", 2, 0.6)  # no new best
    search.start("00001")
    search.end("00001", "failed", error=ERROR)
    snapshot(json.dumps(server.message(), indent=1))
    search.start("00002")
    search.end("00002", "failed", error=ERROR)  # not the first
    search.end("00000", "completed")
    search.event(EXPERIMENT_ENDED, status="completed", reason="time_budget")
    search.notifier.close()
    snapshot(json.dumps(server.message(), indent=1))
    assert server.got.empty()


def test_notifier_limits_rate_of_new_bests(server, tmp_path):
    search = Searched(tmp_path, server.url, best_every_s=6)
    search.start("00000")
    for epoch in range(1, 7):  # an event each second
        search.report("00000", epoch, 1 / epoch)
    assert server.message()["best"]["epoch"] == 5
    search.event(EXPERIMENT_ENDED, status="completed")
    search.notifier.close()
    assert server.message()["event"] == END  # which names the best as well
    assert server.got.empty()


def test_notifier_after_resume_ignores_earlier_best_and_failure(server, tmp_path):
    search = Searched(tmp_path, server.url)
    earlier = Writer(make_folder(tmp_path / "digits"))
    earlier.trial(0, [{"val_loss": 0.1}], error=("exception", "ValueError: no"))
    earlier.trial(0, end=None)
    earlier.kill()
    for event in earlier.events:  # as a resume restores them: observers do not see them
        search.history.apply(event)
    search.start("00001")
    search.report("00001", 1, 0.2)
    search.event(EXPERIMENT_ENDED, status="interrupted")
    search.notifier.close()
    assert server.message()["event"] == END
    assert server.got.empty()


def test_notifier_retries_without_blocking_the_search(server, tmp_path):
    server.answers = [500, 429, 200]
    server.held.clear()
    search = Searched(tmp_path, server.url, pauses_s=(0.0, 0.0))
    search.start("00000")
    # Returns although the server does not answer
    search.end("00000", "failed", error=ERROR)
    server.held.set()
    assert [server.message()["event"] for _ in range(3)] == [FAILURE] * 3
    search.notifier.close()


def test_notifier_refused_twice_warns_once_without_the_secret(server, tmp_path, caplog):
    server.answers = [403, 302]
    search = Searched(tmp_path, server.url)
    search.start("00000")
    search.end("00000", "failed", error=ERROR)
    server.message()
    search.event(EXPERIMENT_ENDED, status="failed")
    search.notifier.close()
    assert server.message()["event"] == END  # tried nevertheless, and not once more
    [warning] = caplog.messages
    assert warning.startswith("cannot notify http://127.0.0.1:")
    assert warning.endswith("/***: it answers 403 Forbidden")
    assert server.got.empty()


def test_close_with_silent_target_waits_for_flush_s(server, tmp_path, caplog):
    server.held.clear()
    search = Searched(tmp_path, server.url, flush_s=0.05)
    search.event(EXPERIMENT_ENDED, status="interrupted")
    search.notifier.close()
    assert caplog.messages[0].endswith("/***: no answer in 0.05 s")
    search.notifier.close()  # once more does nothing
    assert len(caplog.messages) == 1


def test_notifier_skips_hidden_target_with_warning(tmp_path, caplog):
    Searched(tmp_path, "https://hooks.slack.com/***").notifier.close()
    [warning] = caplog.messages
    assert warning.startswith("https://hooks.slack.com/*** is not notified")


MESSAGE = {"experiment": "digits", "text": "digits: completed"}


def deliver(target):
    [delivery] = build_deliveries((target,)).values()
    delivery(MESSAGE)


PAGER = """
pages = []

def build_pager(url):
    if url == "pager://0":
        raise ValueError("it needs a number")
    return lambda message: pages.append((url, message["text"]))
"""


def test_notifier_of_a_package_gets_url_and_message(install, monkeypatch):
    install("tuner-lab", PAGER, notifiers=("pager", "build_pager"))
    monkeypatch.setenv("NUMBER", "5550100")
    monkeypatch.setenv("URL", "pager://5550199")
    for target in ("pager://${NUMBER}", "${URL}"):
        deliver(target)
    numbers = ["pager://5550100", "pager://5550199"]
    assert sys.modules["tuner_lab"].pages == [
        (number, MESSAGE["text"]) for number in numbers
    ]


def test_notifier_that_refuses_its_url_is_named_without_secrets(install, snapshot):
    install("tuner-lab", PAGER, notifiers=("pager", "build_pager"))
    with snapshot.raises(UsageError):
        deliver("pager://0")
    install("tuner-lamp", "def build_lamp(): ...", notifiers=("lamp", "build_lamp"))
    with snapshot.raises(UsageError):
        deliver("lamp://5550100")


def test_apprise_target_gets_title_and_text(snapshot, server):
    pytest.importorskip(
        "apprise", reason="no test of apprise: pip install 'tuner[notify]'"
    )
    deliver(server.url.replace("http://", "json://"))
    message = server.message()
    assert (message["title"], message["message"]) == (
        "tuner digits",
        "digits: completed",
    )
    with snapshot.raises(UsageError):
        build_deliveries(("nonsense://x",))


def test_target_without_apprise_names_the_package_and_no_secret(snapshot, monkeypatch):
    monkeypatch.setenv("WEBHOOK_URL", "slack://s3cret")
    monkeypatch.setitem(sys.modules, "apprise", None)
    with snapshot.raises(UsageError):
        deliver("${WEBHOOK_URL}")
