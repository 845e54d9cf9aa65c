"""The driver without Ray: what it refuses, claims, and knows of its end; see integration/."""

import json
import platform
import subprocess
from importlib.metadata import version

import photos
import pytest
from synthetic import Writer, make_folder

from tuner.errors import JournalError, SpecError, UsageError
from tuner.planning.validation import validate
from tuner.search import run as driver
from tuner.search import tune_run
from tuner.search.resuming import Extension
from tuner.search.run import create, describe, resume_experiment, run_experiment
from tuner.spec.experiment import build_spec

SHIPS = "tuner.vision.image_classifier:ImageClassifier"


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """Other tests of this process may be connected."""
    monkeypatch.setattr(driver.cluster, "is_connected", lambda: False)


@pytest.fixture
def spec(tmp_path):
    return build_spec(
        {
            "name": "digits",
            "training": {"model": "cnn", "dataset": "digits"},
            "search": {"space": {"lr": "uniform(0.1, 1)"}},
            "num_samples": 1,
            "storage": str(tmp_path),
        }
    )


@pytest.fixture
def no_search(monkeypatch):
    """Everything but the search itself; the runs that would search."""
    searched = []
    monkeypatch.setattr(tune_run.TuneRun, "search", lambda run: searched.append(run))
    return searched


def test_what_cannot_work_is_refused_before_there_is_a_folder(spec):
    with pytest.raises(SpecError, match=r"resources\.cpus"):
        run_experiment(spec.replace(resources={"cpus": 10_000}))
    assert not spec.folder.exists()


def test_run_experiment_logs_a_doubt_unless_the_spec_is_validated(spec, no_search, caplog):
    space = {"lr": "uniform(0.1, 1)", "sizes": [1, 2]}
    changes = {"trainable": "commands:a_function", "training": {}, "search": {"space": space}}
    run_experiment(spec.replace(**changes))
    [message] = [record.getMessage() for record in caplog.records]
    assert "search.space.sizes" in message
    run_experiment(validate(spec.replace(**changes, name="again")))
    assert len(caplog.records) == 1


def test_a_search_does_not_go_on_with_other_images(tmp_path, spec, no_search, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    place = photos.write(tmp_path / "photos")
    own = {"dataset": f"folder:{place}", "batch_size": 8}
    run_experiment(spec.replace(training=own))
    resume_experiment(spec.folder)
    moved = place.rename(tmp_path / "elsewhere")
    for path in moved.rglob("*.jpg"):
        path.write_bytes(path.read_bytes())  # as a copy: with new times
    moved.rename(place)
    resume_experiment(spec.folder)
    assert len(no_search) == 3
    (place / "rose" / "0001.jpg").unlink()
    with pytest.raises(UsageError, match=r"photos has other images than when digits began: put"):
        resume_experiment(spec.folder)


def test_the_folder_is_claimed_with_its_description(spec, no_search):
    run_experiment(spec)
    document = json.loads((spec.folder / "experiment.json").read_text())
    assert document["spec"] == validate(spec).model_dump(mode="json")
    assert document["format"] == 1
    assert sorted(p.name for p in spec.folder.iterdir()) == ["experiment.json", "journal.jsonl"]


def test_a_name_that_exists_is_refused(spec, no_search):
    run_experiment(spec)
    with pytest.raises(UsageError, match=r"'digits' exists .*tuner resume digits"):
        run_experiment(spec)
    assert len(no_search) == 1


def test_a_storage_that_cannot_be_made_is_told(spec, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot create"):
        run_experiment(spec.replace(storage=str(tmp_path / "file" / "inner")))


def test_a_resume_takes_the_folder_where_it_lies_now(spec, no_search, tmp_path):
    run_experiment(spec)
    (tmp_path / "elsewhere").mkdir()
    moved = spec.folder.rename(tmp_path / "elsewhere" / "renamed")
    resume_experiment(moved)
    resumed = no_search[-1].driver.spec
    assert resumed.folder.resolve() == moved.resolve()
    assert resumed.search == spec.search


def test_a_change_is_written_before_the_search_goes_on_and_stays(spec, no_search):
    run_experiment(spec)
    resume_experiment(spec.folder, changes={"scheduler.max_t": 20})
    for more in ({}, {"changes": {"scheduler.max_t": 20}}):
        resume_experiment(spec.folder, **more)
        document = json.loads((spec.folder / "experiment.json").read_text())
        assert document["spec"] == no_search[-1].driver.spec.model_dump(mode="json")
        assert (no_search[-1].driver.spec.epochs, len(document["changes"])) == (20, 1)


def test_a_change_that_cannot_be_made_changes_nothing(spec, no_search):
    run_experiment(spec)
    before = (spec.folder / "experiment.json").read_bytes()
    for key, value in {"seed": 3, "scheduler.max_t": 5, "stop.target": "low"}.items():
        with pytest.raises(SpecError, match=key):
            resume_experiment(spec.folder, changes={key: value})
    assert (spec.folder / "experiment.json").read_bytes() == before
    assert len(no_search) == 1


def test_a_resume_of_what_is_no_experiment_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no experiment"):
        resume_experiment(tmp_path)


def test_a_damaged_journal_is_not_built_upon(tmp_path, no_search):
    folder = make_folder(tmp_path / "digits", trainable=SHIPS)
    Writer(folder).end()
    (folder / "journal.jsonl").write_text("x\n{}\n")
    with pytest.raises(JournalError, match="line 1"):
        resume_experiment(folder)
    assert not no_search


def test_a_validated_spec_is_taken_as_it_is(spec, no_search, monkeypatch):
    validated = validate(spec)
    monkeypatch.setattr(driver, "validate", None)
    run_experiment(validated)
    assert no_search[0].driver.spec is validated


def test_a_resume_goes_on_by_what_the_search_was_asked_for(tmp_path, no_search):
    writer = Writer(make_folder(tmp_path / "digits", trainable="commands:a_function", training={}))
    writer.add("control", id="1", control={"verb": "num-samples", "num_samples": 9})
    writer.add("control", id="2", control={"verb": "max-concurrent", "max_concurrent": 2})
    writer.kill()
    document = json.loads((writer.folder / "experiment.json").read_text())

    def resumed(**more):
        resume_experiment(writer.folder, more=Extension(**more))
        return no_search[-1].driver.spec

    assert (resumed().num_samples, resumed().max_concurrent) == (9, 2)
    assert json.loads((writer.folder / "experiment.json").read_text()) == document
    assert resumed(add_samples=3).num_samples == 12
    assert resumed().num_samples == 12  # and not 9 again
    again = Writer(writer.folder, resumed=True)
    again.add("control", id="3", control={"verb": "num-samples", "num_samples": 5})
    again.kill()
    assert (resumed().num_samples, resumed().max_concurrent) == (5, 2)


SPEC = build_spec({"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 1, "seed": 7})


def test_the_spec_its_seed_and_the_versions():
    told = describe(SPEC)
    assert told["spec"] == SPEC.model_dump(mode="json")
    assert (told["format"], told["seed"]) == (1, 7)
    assert told["versions"]["python"] == platform.python_version()
    assert told["versions"]["ray"] == version("ray")


def test_create_records_the_baseline_of_the_validation_split(tmp_path):
    spec = validate(
        SPEC.replace(storage=str(tmp_path), search={"space": {"lr": "uniform(0.1, 1)"}})
    )
    spec.pin_data()
    document = create(spec).document()
    assert document["validation"] == {"images": 360, "baseline": 37 / 360}


def test_the_commit_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert describe(SPEC)["git_revision"] is None
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run(["git", "log", "-1", "--format=%H"], check=True, capture_output=True)
    assert describe(SPEC)["git_revision"] == head.stdout.decode().strip()
    monkeypatch.setenv("PATH", "")
    assert describe(SPEC)["git_revision"] is None
