"""The commands run and resume."""

import contextlib
import json

import pytest
from commands import A_FUNCTION, CONNECT, GOOD, call, text_of
from confirmed import FOUND, searched
from synthetic import Writer, make_folder

from tuner.experiment.folder import ExperimentFolder
from tuner.search.extension import Extension
from tuner.spec.code import IMAGE_CLASSIFIER


@pytest.fixture
def no_ray(monkeypatch):
    monkeypatch.setattr(CONNECT, lambda *_, **__: contextlib.nullcontext())


@pytest.fixture
def resumed(no_ray, ended, monkeypatch):
    """(folder, extension) of each search that would have been resumed."""
    calls = []
    monkeypatch.setattr(
        "tuner.search.run.resume_experiment",
        lambda folder, *, more: calls.append((folder.resolve(), more)) or ended,
    )
    return calls


def test_run_with_a_name_taken_meanwhile_takes_the_next(
    here, ended, no_ray, monkeypatch
):
    tried = []

    def run(plan):
        spec = plan.spec
        tried.append(spec.name)
        ExperimentFolder(spec.folder).create({"format": 1})
        if len(tried) == 1:
            ExperimentFolder(spec.folder).create({"format": 1})  # the second of two
        return ended

    monkeypatch.setattr("tuner.search.run.run_experiment", run)
    text_of("mine.yaml", GOOD)
    assert call("run", "mine.yaml").return_value == 0
    assert tried == ["mine", "mine-2"]


def test_run_of_a_bad_spec_shows_every_fault(here, run_main):
    done = run_main(
        "run", "digits", "num_samples=0", "serch=1", "--search", "bo", "--cpus", "9999"
    )
    assert (done.code, done.stdout) == (2, "")
    assert "with the arguments of the command line has 4 faults:" in done.stderr
    assert "serch: unknown key 'serch' (did you mean 'search'?)" in done.stderr
    assert "search.strategy: unknown search 'bo'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(here.iterdir())


def test_resume_says_that_a_refit_has_not_come_to_its_end(here, no_ray, monkeypatch):
    searched(here / "results" / "digits", FOUND, trainable=IMAGE_CLASSIFIER, refit=True)
    monkeypatch.setattr("tuner.search.retraining.run_experiment", lambda spec: None)
    done = call("resume", "digits", "--no-evaluate")
    assert done.return_value == 3  # one of its trials has failed
    assert (
        "warning: the refit has not come to its end, so the best trial stays the model; "
        "go on with: tuner resume digits"
    ) in done.stderr


@pytest.fixture
def interrupted(here):
    writer = Writer(make_folder(here / "results" / "digits", trainable=A_FUNCTION))
    writer.trial(0, [0.5], end=None)
    writer.kill()
    return writer.folder


def test_resume_options_extend_the_search(interrupted, resumed):
    assert call("resume", "digits", "--trust").return_value == 0
    done = call(
        "resume",
        "digits",
        "--retry-failed",
        "--add-samples",
        "3",
        "--time-budget",
        "2m",
        "--trust",
    )
    assert "Best trial 00000" in done.stdout
    assert resumed == [
        (interrupted, Extension(0, None, False)),
        (interrupted, Extension(3, 120, True)),
    ]


def test_resume_with_assignments_changes_the_spec(interrupted, resumed):
    assert (
        call("resume", "digits", "scheduler.max_t=20", "log=[]", "--trust").return_value
        == 0
    )
    changes = Extension(changes={"scheduler.max_t": 20, "log": []})
    assert resumed == [(interrupted, changes)]
    refused = call(
        "resume", "digits", "search.strategy=bohb", "scheduler.max_t=5"
    ).exception
    assert "tuner run --like digits search.strategy=bohb" in str(refused)
    assert "scheduler.max_t: can only grow on a resume, from 10, got 5" in str(refused)
    assert len(resumed) == 1


def test_resume_of_a_completed_search_starts_nothing(digits, monkeypatch):
    monkeypatch.setattr(CONNECT, None)
    done = call("resume", "digits")
    assert done.return_value == 3  # a trial has failed
    [line] = done.stdout.splitlines()
    assert line.startswith(
        "digits is completed, nothing is left to do; for more trials: "
    )
    assert done.stderr == ""
    done = call("resume", "digits", "--json", "--no-evaluate")
    assert json.loads(done.stdout)["status"] == "completed"
    assert done.stderr.startswith("digits is completed")
