"""Searches whose trials run elsewhere: suggest, report, should_stop, complete; and restarts."""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from commands import call
from synthetic import Clock

from tuner.errors import JournalError, NameTakenError, NoUsableTrialError, SpecError, UsageError
from tuner.experiment.control import (
    Control,
    Finish,
    GoOn,
    MaxConcurrent,
    NumSamples,
    Pause,
    StopTrial,
    TimeBudget,
    TryConfig,
    request,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.journal import Journal
from tuner.experiment.reading import last_event, read
from tuner.experiment.results.results import Results
from tuner.experiment.storage import find_experiment
from tuner.places import ROOT, local
from tuner.planning.validation import validate
from tuner.search import warm_start
from tuner.search.ask_tell import LONGEST_CLIENT, AskTell, Suggestion, _recorded, _validated
from tuner.search.resuming import Extension
from tuner.search.run import create, resume_experiment, run_experiment
from tuner.spec.code import code_named
from tuner.spec.experiment import ExperimentSpec, build_spec

ASHA = {"name": "asha", "max_t": 4, "grace_period": 1, "reduction_factor": 2}


@pytest.fixture
def spec(tmp_path: Path) -> ExperimentSpec:
    return spec_of(tmp_path)


def spec_of(storage: Path, **changes: Any) -> ExperimentSpec:
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


def events_of(folder: Path) -> list[tuple[Any, ...]]:
    names = ("event", "trial_id", "epoch", "status", "client", "reason", "never_started")
    return [tuple(e[n] for n in names if n in e) for e in read(folder)]


def train(search: AskTell, trial: Suggestion, losses: list[float]) -> None:
    for epoch, loss in enumerate(losses, start=1):
        if search.report(trial.trial_id, epoch, {"val_loss": loss}):
            return
    search.complete(trial.trial_id)


@contextmanager
def killed(folder: Path, to: Path) -> Iterator[AskTell]:
    """The search in `folder` as another driver finds it whose own was killed just now."""
    shutil.copytree(folder, to / folder.name)
    with AskTell(to / folder.name) as search:
        yield search


def test_a_search_from_its_first_trial_to_its_last(spec: ExperimentSpec) -> None:
    with AskTell(spec) as search:
        assert Results(spec.folder).status == "running"
        first = search.suggest()
        assert first is not None
        assert (first.trial_id, first.seed, first.epoch) == ("00000", 7, 0)
        assert not search.report("00000", 1, {"val_loss": 0.5, "lr": first.config["lr"]})
        assert search.report("00000", 4, {"val_loss": 0.4})  # the last epoch
        while trial := search.suggest():
            train(search, trial, [0.6, 0.6])
        assert search.ended
        assert search.is_over
    assert events_of(spec.folder) == [
        ("experiment_started",),
        ("trial_started", "00000"),
        ("result", "00000", 1),
        ("result", "00000", 4),
        ("trial_ended", "00000", "completed"),
        ("trial_started", "00001"),
        ("result", "00001", 1),
        ("trial_ended", "00001", "stopped"),
        ("trial_started", "00002"),
        ("result", "00002", 1),
        ("trial_ended", "00002", "stopped"),
        ("experiment_ended", "completed"),
    ]
    results = Results(spec.folder)
    end = last_event(spec.folder)
    assert end is not None
    assert end["counts"] == results.counts
    best = results.best_json()
    assert end["best"]["metrics"].items() <= best["metrics"].items()
    assert {key: best[key] for key in end["best"]} == end["best"] | {"metrics": best["metrics"]}
    assert results.get_best_trial().trial_id == "00000"
    assert results.spec.trainable == "elsewhere"
    assert list((spec.folder / "trials" / "00000").glob("events.out.tfevents.*"))
    with pytest.raises(NoUsableTrialError, match="kept no checkpoint: it ran elsewhere, and its"):
        results.best_checkpoint()


def test_what_has_ended_is_told_to_whoever_still_trains(spec: ExperimentSpec) -> None:
    with AskTell(spec.replace(num_samples=1)) as search:
        search.suggest()
        search.report("00000", 1, {"val_loss": 1.0})
        search.complete("00000")
        assert search.is_over
        assert search.should_stop("00000")
        assert search.report("00000", 2, {"val_loss": 0.0})
        search.complete("00000", failure="too late")
        assert search.suggest() is None
    assert Results(spec.folder).trials["00000"].last_epoch == 1


def test_no_more_trials_run_than_may_at_a_time(spec: ExperimentSpec) -> None:
    with AskTell(spec.replace(max_concurrent=2)) as search:
        assert search.suggest()
        assert search.suggest()
        assert search.suggest() is None
        assert not search.ended
        search.complete("00000", failure="out of memory", kind="oom")
        third = search.suggest()
        assert third is not None
        assert third.trial_id == "00002"
        assert search.ended
        assert not search.is_over


def test_who_asks_again_by_its_name_has_its_trial(spec: ExperimentSpec, tmp_path: Path) -> None:
    with AskTell(spec) as search:
        first = search.suggest("a")
        assert search.suggest("b") != first
        assert search.suggest("a") == first
        search.report("00000", 1, {"val_loss": 1.0})
        with killed(spec.folder, tmp_path / "moved") as again:
            mine = again.suggest("a")
            assert mine is not None
            assert (mine.trial_id, mine.epoch) == ("00000", 1)
            assert not again.report("00000", 1, {"val_loss": 1.5})  # which it trained again
            assert not again.report("00000", 2, {"val_loss": 0.5})
            assert [r.epoch for r in again.trial("00000").results] == [1, 2]
            assert again.trial("00000").best.value == 0.5


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_CLIENT + 1), "a\nb"])
def test_a_client_has_a_name_that_can_be_shown(spec: ExperimentSpec, name: str) -> None:
    with AskTell(spec) as search, pytest.raises(UsageError, match="client: must be 1 to 200"):
        search.suggest(name)


def test_a_report_that_comes_twice_is_recorded_once(spec: ExperimentSpec) -> None:
    with AskTell(spec) as search:
        search.suggest()
        for _ in range(2):
            assert not search.report("00000", 2, {"val_loss": 1.0, "lr": 0.1})
        with pytest.raises(UsageError, match=r"epoch 2 .* after 2, .* recorded with other values"):
            search.report("00000", 2, {"val_loss": 1.0, "lr": 0.2})
        with pytest.raises(UsageError, match=r"epoch 1 of trial 00000 must come after 2, which"):
            search.report("00000", 1, {"val_loss": 1.0})
    assert events_of(spec.folder).count(("result", "00000", 2)) == 1


def test_what_is_no_report_is_refused_and_leaves_the_trial(spec: ExperimentSpec) -> None:
    with AskTell(spec) as search:
        search.suggest()
        with pytest.raises(UsageError, match="'val_loss'; it reported loss"):
            search.report("00000", 1, {"loss": 1.0})
        for epoch in (0, True, 1.0, "1", 10**15):
            with pytest.raises(UsageError, match="epoch: must be a whole number from 1 on"):
                search.report("00000", epoch, {"val_loss": 1.0})  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="far has no trial '00001'"):
            search.report("00001", 1, {"val_loss": 1.0})
        with pytest.raises(UsageError, match="unknown kind of failure 'cras'"):
            search.complete("00000", failure="?", kind="cras")
        assert not search.report("00000", 1, {"val_loss": 1.0, "note": math.nan})
    [report] = Results(spec.folder).trials["00000"].results
    assert report.metrics == {"val_loss": 1.0}


def test_a_trial_that_diverges_has_failed(spec: ExperimentSpec) -> None:
    with AskTell(spec) as search:
        search.suggest()
        assert search.report("00000", 1, {"val_loss": math.nan})
        search.suggest()
        search.complete("00001")
    errors = [trial.error for trial in Results(spec.folder).trials.values()]
    assert errors == [("nan", "'val_loss' is nan"), ("bad_report", "completed without a report")]


def test_a_trial_of_which_nothing_is_heard_makes_room(spec: ExperimentSpec) -> None:
    clock = Clock(tick=0.001)
    patient = spec.replace(max_concurrent=2, timeouts={"report_s": 60})
    with AskTell(patient, clock=clock) as search:
        search.suggest()
        search.suggest()
        clock.now += 50
        search.should_stop("00001")
        clock.now += 50
        assert search.suggest()
        assert search.should_stop("00000")
        assert not search.should_stop("00001")
        assert search.trial("00000").error == ("timeout", "nothing heard of it in 60 s")


def test_silence_is_counted_from_the_restart(spec: ExperimentSpec, tmp_path: Path) -> None:
    clock = Clock(tick=0.001)
    patient = spec.replace(timeouts={"report_s": 60})
    with AskTell(patient, clock=clock) as search:
        search.suggest()
    clock.now += 500
    with AskTell(spec.folder, clock=clock) as search:
        assert not search.should_stop("00000")


def test_trials_that_run_stay_with_who_has_them(spec: ExperimentSpec, tmp_path: Path) -> None:
    with AskTell(spec) as search:
        search.suggest()
        search.suggest()
        search.report("00000", 1, {"val_loss": 0.5})
    assert Results(spec.folder).status == "interrupted"
    with AskTell(spec.folder) as search:
        assert not search.report("00000", 2, {"val_loss": 0.4})
        assert search.report("00001", 1, {"val_loss": 0.6})
        third = search.suggest()
        assert third is not None
        assert third.trial_id == "00002"
        train(search, third, [0.1, 0.1, 0.1, 0.1])
        for epoch in (3, 4):
            search.report("00000", epoch, {"val_loss": 0.4})
    history = fold(read(spec.folder))
    assert {t.trial_id: t.status for t in history.trials.values()} == {
        "00000": "completed",
        "00001": "stopped",
        "00002": "completed",
    }
    assert (history.status, history.resumed) == ("completed", 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stop": {"target": 0.1}}, "target"),
        ({"stop": {"patience_trials": 1}}, "patience"),
        ({"time_budget_s": 1e-6}, "time_budget"),
    ],
)
def test_a_search_ends_before_its_trials_do(
    spec: ExperimentSpec, changes: dict[str, Any], reason: str
) -> None:
    with AskTell(spec.replace(**changes)) as search:
        if search.suggest():
            search.suggest()
            search.report("00000", 1, {"val_loss": 0.05})
            search.report("00001", 1, {"val_loss": 0.06})
        assert search.is_over
        assert search.suggest() is None
        assert events_of(spec.folder)[-1][:3] == ("experiment_ended", "completed", reason)
        with AskTell(spec.folder):  # nobody holds it any more
            pass
    assert not Results(spec.folder).history.of_status("running")


def test_ask_and_tell_after_failures_of_one_cause_ends_and_hands_them_out_again(
    spec: ExperimentSpec,
) -> None:
    with AskTell(spec.replace(num_samples=9)) as search:
        search.suggest("runs on")
        for _ in range(3):
            trial = search.suggest("fails")
            assert trial is not None
            search.complete(trial.trial_id, failure="no such file: a.csv")
        assert search.is_over
    assert events_of(spec.folder)[-1] == ("experiment_ended", "failed", "same_failure", 5)
    with AskTell(spec.folder) as search:
        trials = [search.suggest(f"mended {number}") for number in range(5)]
        ids = [trial and trial.trial_id for trial in trials]
        assert ids == ["00000", "00001", "00002", "00003", "00004"]
        search.report("00001", 4, {"val_loss": 0.5})
    assert Results(spec.folder).get_best_trial().trial_id == "00001"


def test_a_time_budget_is_that_of_all_drivers(spec: ExperimentSpec) -> None:
    clock = Clock(tick=0.001)
    with AskTell(spec.replace(time_budget_s=100), clock=clock) as search:
        search.suggest()
        clock.now += 99
        search.report("00000", 1, {"val_loss": 1.0})
    clock.now += 1000
    with AskTell(spec.folder, clock=clock) as search:
        search.report("00000", 2, {"val_loss": 1.0})
        clock.now += 5
        search.suggest()
        assert not search.is_over
    with AskTell(spec.folder, clock=clock) as search:
        assert search.is_over
    with AskTell(spec.folder, time_budget_s=200, clock=clock) as search:
        assert not search.is_over
    assert Results(spec.folder).spec.time_budget_s == 200


def test_who_was_told_to_stop_does_not_keep_a_trial(spec: ExperimentSpec) -> None:
    with AskTell(spec.replace(stop={"patience_trials": 1}, scheduler=None)) as search:
        for _ in range(2):
            search.suggest()
        search.report("00000", 1, {"val_loss": 1.0})
        search.complete("00001", failure="lost", kind="node_lost")
        assert search.is_over
    with AskTell(spec.folder) as search:
        assert search.should_stop("00000")
        assert not search.ended
        again = search.suggest()
        assert again is not None
        assert (again.trial_id, again.epoch) == ("00000", 1)
        assert not search.report("00000", 1, {"val_loss": 2.0})
        assert not search.report("00000", 2, {"val_loss": 0.5})


def test_what_has_ended_stays_as_it_is(spec: ExperimentSpec) -> None:
    with AskTell(spec.replace(num_samples=1)) as search:
        search.suggest()
        train(search, Suggestion("00000", {}, 7), [1.0])
    journal = (spec.folder / "journal.jsonl").read_bytes()
    with AskTell(spec.folder) as search:
        assert search.ended
        assert search.is_over
        assert search.suggest() is None
        assert search.should_stop("00000")
        with AskTell(spec.folder) as another:  # nobody drives it
            assert another.is_over
    assert (spec.folder / "journal.jsonl").read_bytes() == journal
    with AskTell(spec.folder, add_samples=1) as search:
        second = search.suggest()
        assert second is not None
        assert second.trial_id == "00001"
    assert Results(spec.folder).spec.num_samples == 2


def test_there_is_one_driver(spec: ExperimentSpec) -> None:
    with AskTell(spec):
        with pytest.raises(NameTakenError, match="experiment 'far' exists"), AskTell(spec):
            pass
        with pytest.raises(UsageError, match="is held by another driver"), AskTell(spec.folder):
            pass


def test_only_what_runs_elsewhere_is_driven(spec: ExperimentSpec, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="trainable: must be 'elsewhere', or left out"):
        AskTell(spec.replace(trainable="noisy:function"))
    with pytest.raises(SpecError, match=r"resources: must not be set: nothing is reserved"):
        AskTell(spec.replace(resources={"cpus": 2}))
    with pytest.raises(SpecError, match=r"training: is for Learners; trials elsewhere get const"):
        AskTell(spec.replace(training={"width": 2}))
    with pytest.raises(UsageError, match="is no experiment"):
        AskTell(tmp_path / "nothing")
    with AskTell(spec.replace(trainable="elsewhere")):
        pass
    document = json.loads((spec.folder / "experiment.json").read_text())
    document["spec"]["trainable"] = "noisy:function"
    (spec.folder / "experiment.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="of far do not run elsewhere: it trains noisy:function"):
        AskTell(spec.folder)


def test_a_trainable_that_is_left_out_is_elsewhere(tmp_path: Path) -> None:
    space = {"space": {"lr": "uniform(0, 1)"}}
    spec = ExperimentSpec(search=space, num_samples=1, storage=str(tmp_path))  # type: ignore[arg-type]
    assert AskTell(spec).spec.trainable == "elsewhere"


def test_a_journal_that_fails_is_raised_by_every_call(spec: ExperimentSpec, tmp_path: Path) -> None:
    with AskTell(spec) as search:
        search.suggest()
        spec.folder.rename(tmp_path / "moved")
        for _ in range(2):
            with pytest.raises(JournalError, match="was moved or removed while the search ran"):
                search.report("00000", 1, {"val_loss": 1.0})
        assert search.is_over
    assert ("result", "00000", 1) not in events_of(tmp_path / "moved")


def test_a_disk_that_refuses_at_the_end_is_told(
    spec: ExperimentSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(journal: Journal) -> None:
        raise JournalError("the disk is full")

    search = AskTell(spec).__enter__()
    search.suggest()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", refuse)
        with pytest.raises(JournalError, match="the disk is full"):
            search.__exit__(None, None, None)
    assert search.is_over


@pytest.mark.parametrize("strategy", ["random", "bayesopt"])
def test_many_clients_at_once(tmp_path: Path, strategy: str) -> None:
    search = {"strategy": strategy, "space": {"lr": "loguniform(1e-4, 1)"}}
    spec = spec_of(tmp_path, search=search, num_samples=24, max_concurrent=6)
    with AskTell(spec) as driver:

        def work() -> None:
            while not driver.ended:
                if trial := driver.suggest():
                    train(driver, trial, [trial.config["lr"] / epoch for epoch in range(1, 5)])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert driver.is_over
    results = Results(spec.folder)
    assert results.status == "completed"
    assert len(results.trials) == 24
    assert {t.status for t in results.trials.values()} == {"completed", "stopped"}


class Steered:
    """A search that is asked for things while it runs."""

    def __init__(self, search: AskTell) -> None:
        self.search, self.folder = search, ExperimentFolder(search.spec.folder)

    def ask(self, control: Control) -> str:
        """Ask, and wait for the answer; its id."""
        asked = request(self.folder, control)
        while asked not in self.search.history.steered.ids:
            time.sleep(0.005)
        return asked

    def report(self, number: int, epoch: int) -> bool:
        return self.search.report(f"{number:05}", epoch, {"val_loss": 1.0})


@pytest.fixture
def steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steered]:
    monkeypatch.setattr("tuner.search.steering._EVERY_S", 0.005)
    monkeypatch.setattr("tuner.search.ask_tell._TICK_S", 0.005)
    with AskTell(spec_of(tmp_path, scheduler=None, max_concurrent=2)) as search:
        for _ in range(2):
            search.suggest()
        yield Steered(search)


def test_somebody_stops_a_trial(steered: Steered) -> None:
    asked = [steered.ask(StopTrial(trial_id=trial_id)) for trial_id in ("00000", "00001")]
    assert steered.report(0, 1)  # which is recorded still
    assert steered.search.should_stop("00001")
    ends = [e for e in steered.folder.events() if e["event"] == "trial_ended"]
    assert [(e["status"], e["control"]) for e in ends] == [("stopped", one) for one in asked]
    assert steered.search.trial("00000").last_epoch == 1


def test_a_pause_takes_trials_back_until_it_is_over(steered: Steered, tmp_path: Path) -> None:
    search = steered.search
    steered.report(0, 1)
    steered.ask(Pause())
    assert steered.report(0, 2)
    assert search.trial("00000").status == "interrupted"
    assert search.suggest() is None
    assert not search.ended
    with killed(steered.folder.path, tmp_path / "moved") as other:  # a restart goes on
        assert not other.should_stop("00001")
        assert other.should_stop("00000")
        again = other.suggest()
        assert again is not None
        assert (again.trial_id, again.epoch) == ("00000", 2)
    steered.ask(GoOn())
    again = search.suggest()
    assert again is not None
    assert (again.trial_id, again.epoch) == ("00000", 2)
    assert not steered.report(0, 2)  # trained again
    assert not steered.report(0, 3)
    assert not steered.report(1, 1)


def test_more_trials_other_configs_and_an_end_are_asked_for(
    steered: Steered, tmp_path: Path
) -> None:
    search = steered.search
    assert search.suggest() is None
    steered.ask(MaxConcurrent(max_concurrent=9))
    assert search.suggest()
    assert search.ended
    steered.ask(TryConfig(config={"lr": 0.25}))
    assert not search.ended
    tried = search.suggest()
    assert tried is not None
    assert tried.config == {"lr": 0.25}
    assert search.ended
    steered.ask(NumSamples(num_samples=9))
    assert not search.ended
    assert search.spec.num_samples == 9
    with killed(steered.folder.path, tmp_path / "moved") as other:
        assert (other.spec.num_samples, other.spec.max_concurrent) == (9, 9)
        assert other.trial("00003").config == {"lr": 0.25}
        assert [other.suggest().trial_id for _ in range(2)] == ["00004", "00005"]  # type: ignore[union-attr]
    steered.ask(Finish())
    assert search.ended
    for number in range(4):
        steered.report(number, 1)
        search.complete(f"{number:05}")
    assert search.is_over
    assert events_of(steered.folder.path)[-1][:3] == ("experiment_ended", "completed", "finish")


def test_fewer_at_a_time_take_no_trial_from_anybody(steered: Steered, tmp_path: Path) -> None:
    steered.ask(MaxConcurrent(max_concurrent=1))
    with killed(steered.folder.path, tmp_path / "moved") as other:
        assert not other.should_stop("00000")
        assert not other.should_stop("00001")
        other.complete("00000", failure="x")
        assert other.suggest() is None


def test_another_time_budget_is_that_of_all_drivers(steered: Steered) -> None:
    steered.ask(TimeBudget(time_budget_s=1e-6))
    assert steered.search.suggest() is None
    assert steered.search.is_over


def test_a_resume_reads_its_warm_start_once_and_tries_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = {"strategy": "grid", "space": {"lr": "grid_search([0.1, 0.2, 0.3])"}}
    fields: dict[str, Any] = {"search": search, "num_samples": None}
    with AskTell(spec_of(tmp_path, **{**fields, "num_samples": 1}, name="first")) as first:
        trial = first.suggest()
        assert trial is not None
        train(first, trial, [0.5, 0.4, 0.3, 0.2])
    second = spec_of(tmp_path, **fields, warm_start="first")
    with AskTell(second):
        pass
    read_here = []
    reading = warm_start.read_json

    def counted(path: Path, **how: Any) -> Any:
        read_here.append(path.name)
        return reading(path, **how)

    monkeypatch.setattr(warm_start, "read_json", counted)
    with AskTell(second.folder) as again:
        assert again.spec.trials == 2
        others = [again.suggest() for _ in range(2)]
        assert trial.config not in [other.config for other in others if other]
        assert again.ended
    assert read_here == [warm_start.WARM_START]


def test_another_machine_goes_on_from_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = f"memory://{uuid4().hex}/runs"
    monkeypatch.setenv(ROOT, str(tmp_path / "here"))
    with AskTell(spec_of(Path()).replace(storage=storage)) as search:
        search.suggest("a")
        search.report("00000", 1, {"val_loss": 1.0})
    monkeypatch.setenv(ROOT, str(tmp_path / "there"))
    with AskTell(local(storage) / "far") as search:
        mine = search.suggest("a")
        assert mine is not None
        assert (mine.trial_id, mine.epoch) == ("00000", 1)
        with pytest.raises(UsageError, match="is held by another driver"):
            AskTell(local(storage) / "far").__enter__()
    shutil.rmtree(tmp_path)
    assert Results(find_experiment("far", storage)).history.resumed == 1


def test_every_command_shows_it(spec: ExperimentSpec, tmp_path: Path) -> None:
    for name in ("far", "further"):
        with AskTell(spec.replace(name=name)) as search:
            while trial := search.suggest():
                train(search, trial, [trial.config["lr"]] * 4)
    for words in ("ls", "show far", "best far", "trials far", "compare far further"):
        done = call(*words.split(), "--storage", str(tmp_path))
        assert not done.exception, words
        assert "far" in done.stdout or "0000" in done.stdout
    refused = call("confirm", "far", "--storage", str(tmp_path)).exception
    assert "run elsewhere, and ask for their configs" in str(refused)


def test_its_spec_names_no_code_and_goes_to_text_and_back(spec: ExperimentSpec) -> None:
    assert code_named(spec.model_dump(mode="json")) == []
    assert ExperimentSpec.from_text(spec.to_yaml()) == spec
    assert _validated(spec).scheduler == validate(spec).scheduler
    assert _validated(validate(spec)) == validate(spec)


def test_its_folder_has_the_spec_that_it_goes_on_with(spec: ExperimentSpec, tmp_path: Path) -> None:
    whole = _validated(spec)
    create(whole)
    folder = ExperimentFolder(spec.folder.rename(tmp_path / "renamed"))
    recorded = _recorded(folder, Extension())
    assert recorded.name == "renamed"
    assert recorded.replace(name="far") == whole.replace(storage=recorded.storage)
    longer = _recorded(folder, Extension(add_samples=3, time_budget_s=60))
    assert (longer.num_samples, longer.time_budget_s) == (6, 60)
    assert longer.scheduler == whole.scheduler


def test_an_earlier_experiment_that_cannot_serve_leaves_no_folder(tmp_path: Path) -> None:
    search = {"strategy": "bohb", "space": {"lr": "uniform(0, 1)"}}
    spec = _validated(spec_of(tmp_path, search=search, warm_start="none"))
    with pytest.raises(UsageError, match="no experiment 'none'"):
        create(spec)
    assert not spec.folder.exists()


REFUSED = "trials of trainable 'elsewhere' run elsewhere.*drive it by tuner.AskTell or by `tuner s"


def test_what_trains_here_refuses_it_before_anything_starts(spec: ExperimentSpec) -> None:
    with pytest.raises(UsageError, match=REFUSED):
        run_experiment(spec)
    assert not spec.folder.exists()
    create(_validated(spec))
    with pytest.raises(UsageError, match=REFUSED):
        resume_experiment(spec.folder)


def test_the_command_line_shows_its_plan_and_refuses_to_run_it(
    spec: ExperimentSpec, tmp_path: Path
) -> None:
    (tmp_path / "far.yaml").write_text(spec.to_yaml())
    shown = call("validate", str(tmp_path / "far.yaml")).stdout
    assert "Each trial   4 epochs\n" in shown
    assert "At once      as many as ask\n" in shown
    refused = call("run", str(tmp_path / "far.yaml")).exception
    assert re.search(REFUSED, str(refused))
    create(_validated(spec))
    assert re.search(REFUSED, str(call("resume", str(spec.folder)).exception))
