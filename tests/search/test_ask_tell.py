"""Searches whose trials run elsewhere: suggest, report, should_stop, complete; and restarts."""

import json
import math
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from commands import call
from synthetic import Clock, read_document

from tuner.errors import (
    JournalError,
    NameTakenError,
    NoUsableTrialError,
    SpecError,
    UsageError,
)
from tuner.experiment.control import build_control, read_current_document, send_request
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read, read_last_event
from tuner.experiment.remote.segments import fetch
from tuner.experiment.results.results import Results
from tuner.experiment.storage import find_experiment
from tuner.places import ROOT, find_local_folder
from tuner.search.ask_tell import LONGEST_CLIENT, AskTell, _prepare_elsewhere
from tuner.search.run import create, resume_experiment, run_experiment
from tuner.spec.experiment import ExperimentSpec, build_spec

ASHA = {"name": "asha", "max_t": 4, "grace_period": 1, "reduction_factor": 2}


@pytest.fixture
def spec(tmp_path):
    return spec_of(tmp_path)


def spec_of(storage, **changes):
    return build_spec(
        {
            "name": "far",
            "trainable": "elsewhere",
            "search": {"space": {"lr": "loguniform(1e-4, 1)"}},
            "scheduler": ASHA,
            "num_samples": 3,
            "seed": 7,
            "storage": str(storage),
        }
        | changes
    )


def events_of(folder):
    names = (
        "event",
        "trial_id",
        "epoch",
        "status",
        "client",
        "reason",
        "never_started",
    )
    return [tuple(e[n] for n in names if n in e) for e in read(folder)]


def report(search, number, epoch, loss=1.0):
    """Whether the trial should stop."""
    return search.report(f"{number:05}", epoch, {"val_loss": loss})


def train(search, number, losses):
    for epoch, loss in enumerate(losses, start=1):
        if report(search, number, epoch, loss):
            return
    search.complete(f"{number:05}")


def suggested(search, count=1, client=None):
    """The ids of the next trials, and the last epoch of each."""
    trials = [search.suggest(client) for _ in range(count)]
    return [(trial.trial_id, trial.epoch) for trial in trials]


@contextmanager
def killed(folder, to):
    """The search in `folder` as another driver finds it after a kill of the first."""
    shutil.copytree(folder, to / folder.name)
    with AskTell(to / folder.name) as search:
        yield search


def test_ask_tell_journals_a_search_from_its_first_trial_to_its_last(snapshot, spec):
    with AskTell(spec) as search:
        assert Results(spec.folder).status == "running"
        first = search.suggest()
        assert (first.trial_id, first.seed, first.epoch) == ("00000", 7, 0)
        assert not report(search, 0, 1, 0.5)
        assert report(search, 0, 4, 0.4)  # the last epoch
        for number in (1, 2):
            search.suggest()
            train(search, number, [0.6, 0.6])
        assert search.suggest() is None
        assert search.ended
        assert search.is_over
    snapshot("\n".join(map(str, events_of(spec.folder))))
    results = Results(spec.folder)
    end = read_last_event(spec.folder)
    assert end["counts"] == results.counts
    best = results.describe_best()
    assert {key: best[key] for key in end["best"]} == end["best"] | {
        "metrics": best["metrics"]
    }
    assert best["trial_id"] == "00000"
    assert results.spec.trainable == "elsewhere"
    assert list((spec.folder / "trials/00000").glob("events.out.tfevents.*"))
    with snapshot.raises(NoUsableTrialError):
        results.best_checkpoint()


def test_calls_after_the_end_record_nothing(spec):
    with AskTell(spec.replace(num_samples=1)) as search:
        search.suggest()
        train(search, 0, [1.0])
        journal = (spec.folder / "journal.jsonl").read_bytes()
        assert search.is_over
        assert search.should_stop("00000")
        assert report(search, 0, 2, 0.0)
        search.complete("00000", failure="too late")
        assert search.suggest() is None
    with AskTell(spec.folder) as search:
        assert (search.ended, search.is_over, search.suggest()) == (True, True, None)
        assert search.should_stop("00000")
        with AskTell(spec.folder) as another:  # nobody drives it
            assert another.is_over
    assert (spec.folder / "journal.jsonl").read_bytes() == journal
    with AskTell(spec.folder, add_samples=1) as search:
        assert suggested(search) == [("00001", 0)]
    assert Results(spec.folder).spec.num_samples == 2


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_CLIENT + 1), "a\nb"])
def test_suggest_refuses_a_client_name_that_cannot_be_shown(snapshot, spec, name):
    with AskTell(spec) as search, snapshot.raises(UsageError):
        search.suggest(name)


def test_report_twice_is_recorded_once(snapshot, spec):
    with AskTell(spec) as search:
        search.suggest()
        for _ in range(2):
            assert not search.report("00000", 2, {"val_loss": 1.0, "lr": 0.1})
        for epoch, loss in ((2, 0.9), (1, 1.0)):
            with snapshot.raises(UsageError):
                report(search, 0, epoch, loss)
    assert events_of(spec.folder).count(("result", "00000", 2)) == 1


def test_report_and_complete_refuse_wrong_arguments(snapshot, spec):
    with AskTell(spec) as search:
        search.suggest()
        with snapshot.raises(UsageError):
            search.report("00000", 1, {"loss": 1.0})
        for epoch in (0, True, 1.0, "1", 10**15):
            with snapshot.raises(UsageError):
                report(search, 0, epoch)
        with snapshot.raises(UsageError):
            report(search, 1, 1)
        with snapshot.raises(UsageError):
            search.complete("00000", failure="?", kind="cras")
        assert not search.report("00000", 1, {"val_loss": 1.0, "note": math.nan})
    [recorded] = Results(spec.folder).trials["00000"].results
    assert recorded.metrics == {"val_loss": 1.0}


def test_trials_that_diverge_or_report_nothing_fail(spec):
    with AskTell(spec) as search:
        search.suggest()
        assert report(search, 0, 1, math.nan)
        search.suggest()
        search.complete("00001")
    errors = [trial.error for trial in Results(spec.folder).trials.values()]
    assert errors == [
        ("nan", "'val_loss' is nan"),
        ("bad_report", "completed without a report"),
    ]


def test_silent_trial_times_out_counted_from_the_restart(spec):
    clock = Clock(tick=0.001)
    with AskTell(spec.replace(timeouts={"report_s": 60}), clock=clock) as search:
        suggested(search, 2)
    clock.now += 500
    with AskTell(spec.folder, clock=clock) as search:
        assert not search.should_stop("00000")
        clock.now += 50
        search.should_stop("00001")
        clock.now += 50
        assert search.suggest()
        assert search.should_stop("00000")
        assert not search.should_stop("00001")
        assert search.trial("00000").error == ("timeout", "nothing heard of it in 60 s")


@pytest.mark.parametrize("rule", ["target", "patience_trials"])
def test_ask_tell_ends_the_search_before_its_trials(spec, rule):
    with AskTell(spec.replace(stop={rule: 1})) as search:
        suggested(search, 2)
        report(search, 0, 1, 0.5)
        report(search, 1, 1, 0.6)
        assert search.is_over
        assert search.suggest() is None
        end = ("experiment_ended", "completed", rule.removesuffix("_trials"))
        assert events_of(spec.folder)[-1][:3] == end
        with AskTell(spec.folder):  # nobody holds it
            pass
    assert not Results(spec.folder).history.list_by_status("running")


def test_time_budget_counts_for_all_drivers(spec):
    clock = Clock(tick=0.001)
    with AskTell(spec.replace(time_budget_s=100), clock=clock) as search:
        search.suggest()
        clock.now += 99
        report(search, 0, 1)
    clock.now += 1000
    with AskTell(spec.folder, clock=clock) as search:
        report(search, 0, 2)
        clock.now += 5
        search.suggest()
        assert not search.is_over
    with AskTell(spec.folder, clock=clock) as search:
        assert search.is_over
    with AskTell(spec.folder, time_budget_s=200, clock=clock) as search:
        assert not search.is_over
    assert Results(spec.folder).spec.time_budget_s == 200


def test_failures_of_one_cause_end_the_search_and_go_to_any_client_later(spec):
    with AskTell(spec.replace(num_samples=9)) as search:
        for number in range(3):
            search.complete(search.suggest(f"client {number}").trial_id, failure="boom")
        assert search.is_over
    end = ("experiment_ended", "failed", "same_failure", 6)
    assert events_of(spec.folder)[-1] == end
    for _ in range(2):
        with AskTell(spec.folder):
            pass
    with AskTell(spec.folder) as search:
        assert search.suggest("new").trial_id == "00000"


def test_resume_hands_out_trials_whose_clients_were_told_to_stop(spec):
    with AskTell(spec.replace(stop={"patience_trials": 1}, scheduler=None)) as search:
        suggested(search, 2)
        report(search, 0, 1)
        search.complete("00001", failure="lost", kind="node_lost")
        assert search.is_over
    with AskTell(spec.folder) as search:
        assert search.should_stop("00000")
        assert not search.ended
        assert suggested(search) == [("00000", 1)]
        assert not report(search, 0, 1, 2.0)
        assert not report(search, 0, 2, 0.5)


def test_ask_tell_of_a_running_search_is_refused(snapshot, spec):
    with AskTell(spec):
        with snapshot.raises(NameTakenError), AskTell(spec):
            pass
        with snapshot.raises(UsageError), AskTell(spec.folder):
            pass


def test_ask_tell_refuses_a_spec_that_trains_here(snapshot, spec, tmp_path):
    for changes in (
        {"trainable": "noisy:function"},
        {"resources": {"cpus": 2}},
        {"training": {"width": 2}},
    ):
        with snapshot.raises(SpecError):
            AskTell(spec.replace(**changes))
    with snapshot.raises(UsageError):
        AskTell(tmp_path / "nothing")
    with AskTell(spec):
        pass
    document = read_document(spec.folder / "experiment.json")
    document["spec"]["trainable"] = "noisy:function"
    (spec.folder / "experiment.json").write_text(json.dumps(document))
    with snapshot.raises(UsageError):
        AskTell(spec.folder)
    space = {"space": {"lr": "uniform(0, 1)"}}
    unnamed = ExperimentSpec(search=space, num_samples=1, storage=str(tmp_path))
    assert AskTell(unnamed).spec.trainable == "elsewhere"


def test_ask_tell_with_a_failed_journal_raises_in_every_call(snapshot, spec, tmp_path):
    with AskTell(spec) as search:
        search.suggest()
        spec.folder.rename(tmp_path / "moved")
        for _ in range(2):
            with snapshot.raises(JournalError):
                report(search, 0, 1)
        assert search.is_over
    assert ("result", "00000", 1) not in events_of(tmp_path / "moved")


def test_exit_with_a_full_disk_raises(snapshot, spec, monkeypatch):
    def refuse(journal):
        raise JournalError("the disk is full")

    search = AskTell(spec).__enter__()
    search.suggest()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", refuse)
        with snapshot.raises(JournalError):
            search.__exit__(None, None, None)
    assert search.is_over


def test_many_clients_at_once_complete_a_search(tmp_path):
    search = {"strategy": "bayesopt", "space": {"lr": "loguniform(1e-4, 1)"}}
    spec = spec_of(tmp_path, search=search, num_samples=24, max_concurrent=6)
    with AskTell(spec) as driver:

        def work():
            while not driver.ended:
                if trial := driver.suggest():
                    losses = [trial.config["lr"] / epoch for epoch in range(1, 5)]
                    train(driver, int(trial.trial_id), losses)

        with ThreadPoolExecutor(8) as pool:
            for client in [pool.submit(work) for _ in range(8)]:
                client.result(60)
        assert driver.is_over
    results = Results(spec.folder)
    assert (results.status, len(results.trials)) == ("completed", 24)
    assert {t.status for t in results.trials.values()} == {"completed", "stopped"}


@pytest.fixture
def steered(tmp_path, monkeypatch):
    """A search of two running trials, whose `ask(control)` returns once that is answered."""
    monkeypatch.setattr("tuner.search.driver._EVERY_S", 0.005)
    monkeypatch.setattr("tuner.search.ask_tell._TICK_S", 0.005)

    def ask(control):
        request_id = send_request(ExperimentFolder(search.spec.folder), control)
        while request_id not in search.history.steered.ids:
            time.sleep(0.005)
        return request_id

    with AskTell(spec_of(tmp_path, scheduler=None, max_concurrent=2)) as search:
        suggested(search, 2)
        search.ask = ask
        yield search


def test_stop_trial_ends_it_with_its_next_call(steered):
    requests = [
        steered.ask(build_control("stop-trial", trial_id))
        for trial_id in ("00000", "00001")
    ]
    assert report(steered, 0, 1)  # is still recorded
    assert steered.should_stop("00001")
    ends = [e for e in read(steered.spec.folder) if e["event"] == "trial_ended"]
    assert [(e["status"], e["control"]) for e in ends] == [
        ("stopped", i) for i in requests
    ]
    assert steered.trial("00000").last_epoch == 1


def test_pause_takes_trials_back_until_go_on(steered, tmp_path):
    report(steered, 0, 1)
    steered.ask(build_control("pause"))
    assert report(steered, 0, 2)
    assert steered.trial("00000").status == "interrupted"
    assert steered.suggest() is None
    assert not steered.ended
    with killed(steered.spec.folder, tmp_path / "moved") as other:  # a restart goes on
        assert not other.should_stop("00001")
        assert other.should_stop("00000")
        assert suggested(other) == [("00000", 2)]
    steered.ask(build_control("go-on"))
    assert suggested(steered) == [("00000", 2)]
    assert not report(steered, 0, 2)  # trained again
    assert not report(steered, 0, 3)
    assert not report(steered, 1, 1)


def test_controls_change_the_trials_that_are_handed_out(steered, tmp_path):
    assert steered.suggest() is None
    steered.ask(build_control("max-concurrent", 9))
    suggested(steered)
    assert steered.ended
    steered.ask(build_control("try", {"lr": 0.25}))
    assert not steered.ended
    assert steered.suggest().config == {"lr": 0.25}
    assert steered.ended
    steered.ask(build_control("num-samples", 9))
    assert not steered.ended
    with killed(steered.spec.folder, tmp_path / "moved") as other:
        assert (other.spec.num_samples, other.spec.max_concurrent) == (9, 9)
        assert other.trial("00003").config == {"lr": 0.25}
        assert suggested(other, 2) == [("00004", 0), ("00005", 0)]
    steered.ask(build_control("finish"))
    assert steered.ended
    assert steered.suggest() is None
    for number in range(4):
        train(steered, number, [1.0])
    assert steered.is_over
    assert events_of(steered.spec.folder)[-1][:3] == (
        "experiment_ended",
        "completed",
        "finish",
    )


def test_another_machine_goes_on_from_a_bucket(snapshot, tmp_path, monkeypatch):
    storage = f"memory://{uuid4().hex}/runs"
    monkeypatch.setenv(ROOT, str(tmp_path / "here"))
    with AskTell(spec_of(Path()).replace(storage=storage)) as search:
        search.suggest("a")
        report(search, 0, 1)
    monkeypatch.setenv(ROOT, str(tmp_path / "there"))
    with AskTell(find_local_folder(storage) / "far") as search:
        assert suggested(search, client="a") == [("00000", 1)]
        with snapshot.raises(UsageError):
            AskTell(find_local_folder(storage) / "far").__enter__()
    shutil.rmtree(tmp_path)
    assert Results(find_experiment("far", storage)).history.resumed == 1


def test_what_is_answered_is_in_the_bucket(snapshot, tmp_path, monkeypatch):
    storage = f"memory://{uuid4().hex}/runs"
    monkeypatch.setenv(ROOT, str(tmp_path / "here"))
    with AskTell(
        spec_of(Path()).replace(storage=storage, scheduler={"max_t": 4})
    ) as search:
        objects = ExperimentFolder(search.spec.folder).mirror.objects

        def compare_last():
            line = json.loads(fetch(objects).data.splitlines()[-1])
            snapshot.compare_value(
                (line["event"], line.get("epoch"), line.get("status"))
            )

        search.suggest("a")
        compare_last()
        report(search, 0, 1)
        compare_last()
        search.complete("00000", failure="no")
        compare_last()
        search.suggest("b")
        send_request(
            ExperimentFolder(search.spec.folder), build_control("stop-trial", "00001")
        )
        until = time.monotonic() + 20
        while not search.should_stop("00001"):
            assert time.monotonic() < until
        compare_last()


def test_searches_that_train_here_refuse_trials_elsewhere(snapshot, spec, tmp_path):
    with snapshot.raises(UsageError):
        run_experiment(spec)
    (tmp_path / "far.yaml").write_text(spec.to_yaml())
    shown = call("validate", str(tmp_path / "far.yaml")).stdout
    assert "At once      as many as ask\n" in shown
    assert not spec.folder.exists()
    create(_prepare_elsewhere(spec))
    with snapshot.raises(UsageError):
        resume_experiment(spec.folder)


def test_a_control_journaled_after_a_resume_was_prepared_is_not_lost(steered, tmp_path):
    folder = tmp_path / "moved"
    shutil.copytree(steered.spec.folder, folder)
    late = AskTell(folder, add_samples=1)
    steered.ask(build_control("num-samples", 9))
    shutil.copy(steered.spec.folder / "journal.jsonl", folder)
    with late:
        pass
    assert read_current_document(ExperimentFolder(folder))["spec"]["num_samples"] == 9


@pytest.mark.parametrize("more", [{"add_samples": 1}, {"time_budget_s": 60}])
def test_a_new_search_takes_its_length_from_the_spec(spec, more):
    with pytest.raises(UsageError):
        AskTell(spec, **more)
    assert not spec.folder.exists()
