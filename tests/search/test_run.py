"""Starting and resuming a search without Ray: what is refused, and what the folder records."""

import platform
import subprocess
from importlib.metadata import version

import photos
import pytest
from synthetic import Writer, make_folder, read_document

from tuner.errors import JournalError, SpecError, UsageError
from tuner.experiment.results.results import Results
from tuner.search import run as driver
from tuner.search import tune_run
from tuner.search.extension import Extension
from tuner.search.preparation import prepare
from tuner.search.retraining import refit
from tuner.search.run import describe, resume_experiment, run_experiment
from tuner.spec.experiment import build_spec
from tuner.spec.validation import validate

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
            "seed": 7,
            "storage": str(tmp_path),
        }
    )


@pytest.fixture
def searches(monkeypatch):
    """The runs that would search with Tune."""
    runs = []
    monkeypatch.setattr(tune_run.TuneRun, "run", lambda run: runs.append(run))
    return runs


def document_of(folder):
    return read_document(folder / "experiment.json")


def test_run_experiment_refuses_a_spec_before_it_creates_a_folder(
    snapshot, spec, tmp_path
):
    with snapshot.raises(SpecError):
        run_experiment(spec.replace(resources={"cpus": 10_000}))
    assert not spec.folder.exists()
    (tmp_path / "file").write_text("")
    with snapshot.raises(UsageError):
        run_experiment(spec.replace(storage=str(tmp_path / "file/inner")))


def test_run_experiment_logs_a_doubt_unless_it_gets_a_plan(spec, searches, caplog):
    space = {"lr": "uniform(0.1, 1)", "sizes": [1, 2]}
    changes = {
        "trainable": "commands:a_function",
        "training": {},
        "search": {"space": space},
    }
    run_experiment(spec.replace(**changes))
    [message] = caplog.messages
    assert "search.space.sizes" in message
    plan = prepare(spec.replace(**changes, name="again"))
    run_experiment(plan)
    assert searches[1].driver.spec is plan.spec
    assert len(caplog.records) == 1


def test_resume_refuses_a_wider_space_whose_settings_fail_together(
    snapshot, spec, searches
):
    space = {"crop_padding": "choice([0, 2])", "crop_scale": "choice([1.0])"}
    run_experiment(spec.replace(search={"strategy": "random", "space": space}))
    document = document_of(spec.folder)
    wider = {"search.space.crop_scale": "choice([1.0, 0.5])"}
    with snapshot.raises(SpecError):
        resume_experiment(spec.folder, changes=wider)
    assert document_of(spec.folder) == document
    resume_experiment(
        spec.folder, changes={"search.space.crop_padding": "choice([0, 1, 2])"}
    )
    assert len(searches) == 2


def test_run_experiment_creates_the_folder_once(snapshot, spec, searches):
    run_experiment(spec)
    document = document_of(spec.folder)
    assert document["spec"] == validate(spec).model_dump(mode="json")
    assert document["format"] == 1
    assert sorted(p.name for p in spec.folder.iterdir()) == [
        "experiment.json",
        "journal.jsonl",
    ]
    with snapshot.raises(UsageError):
        run_experiment(spec)
    assert len(searches) == 1


def test_resume_experiment_with_other_images_is_refused(
    snapshot, tmp_path, spec, searches, data_home
):
    folder = photos.write(tmp_path / "photos")
    run_experiment(
        spec.replace(training={"dataset": f"folder:{folder}", "batch_size": 8})
    )
    resume_experiment(spec.folder)
    moved = folder.rename(tmp_path / "elsewhere")
    for path in moved.rglob("*.jpg"):
        path.write_bytes(path.read_bytes())  # as a copy: with new times
    moved.rename(folder)
    resume_experiment(spec.folder)
    assert len(searches) == 3
    (folder / "rose/0001.jpg").unlink()
    with snapshot.raises(UsageError):
        resume_experiment(spec.folder)
    writer = Writer(spec.folder)
    writer.trial(0, [{"val_loss": 0.5}], config={"lr": 0.1})
    writer.end()
    with snapshot.raises(UsageError):
        refit(Results(spec.folder))


def test_resume_experiment_writes_a_change_that_stays(snapshot, spec, searches):
    run_experiment(spec)
    before = (spec.folder / "experiment.json").read_bytes()
    for key, value in {"seed": 3, "scheduler.max_t": 5, "stop.target": "low"}.items():
        with snapshot.raises(SpecError):
            resume_experiment(spec.folder, changes={key: value})
    assert (spec.folder / "experiment.json").read_bytes() == before
    assert len(searches) == 1
    longer = {"scheduler.max_t": 20}
    for changes in (longer, {}, longer):
        resume_experiment(spec.folder, changes=changes)
        document = document_of(spec.folder)
        assert document["spec"] == searches[-1].driver.spec.model_dump(mode="json")
        assert (searches[-1].driver.spec.epochs, len(document["changes"])) == (20, 1)


def test_resume_experiment_refuses_a_damaged_folder(snapshot, tmp_path, searches):
    with snapshot.raises(UsageError):
        resume_experiment(tmp_path)
    folder = make_folder(tmp_path / "digits", trainable=SHIPS)
    Writer(folder).end()
    (folder / "journal.jsonl").write_text("x\n{}\n")
    with snapshot.raises(JournalError):
        resume_experiment(folder)
    assert not searches


def test_resume_experiment_goes_on_by_earlier_controls(tmp_path, searches):
    writer = Writer(
        make_folder(tmp_path / "digits", trainable="commands:a_function", training={})
    )
    writer.add("control", id="1", control={"verb": "num-samples", "num_samples": 9})
    writer.add(
        "control", id="2", control={"verb": "max-concurrent", "max_concurrent": 2}
    )
    writer.kill()
    document = document_of(writer.folder)

    def resumed(**more):
        resume_experiment(writer.folder, more=Extension(**more))
        spec = searches[-1].driver.spec
        return spec.num_samples, spec.max_concurrent

    assert resumed() == (9, 2)
    assert document_of(writer.folder) == document
    assert resumed(add_samples=3) == (12, 2)
    assert resumed() == (12, 2)  # and not 9 again


def test_describe_has_the_spec_its_seed_versions_and_commit(
    spec, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    described = describe(spec)
    assert (described["seed"], described["git_revision"]) == (7, None)
    assert described["versions"]["python"] == platform.python_version()
    assert described["versions"]["ray"] == version("ray")
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(
        ["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], check=True
    )
    head = subprocess.run(
        ["git", "log", "-1", "--format=%H"], check=True, capture_output=True
    )
    assert describe(spec)["git_revision"] == head.stdout.decode().strip()
    monkeypatch.setenv("PATH", "")
    assert describe(spec)["git_revision"] is None
