"""Plain functions and classes of Ray Tune's in a trial; `test_NAME` fails when Ray changes NAME."""

import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest
import ray
from ray import tune
from ray.train._internal import session
from ray.tune import Trainable

from tuner import ray_compat


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """A Trainable as Tune makes it, with a storage that keeps nothing."""
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    storage = SimpleNamespace(
        experiment_dir_name="x",
        experiment_fs_path=str(tmp_path / "x"),
        trial_driver_staging_path=str(tmp_path / "staging"),
        trial_working_directory=str(tmp_path / "working"),
        checkpoint_dir_name="checkpoint_000000",
        sync_config=SimpleNamespace(sync_artifacts_on_checkpoint=False),
        persist_artifacts=lambda force: None,
        persist_current_checkpoint=lambda checkpoint: checkpoint,
        _update_checkpoint_index=lambda metrics: None,
    )
    made = Trainable({"a": 1})
    made._storage = storage
    yield made
    ray_compat.end_function(made)
    assert session.get_session() is None


def run(trial, function):
    assert ray_compat.begin_function(trial, ray_compat.as_tune_calls(function))


def two_epochs(config):
    tune.report({"loss": config["a"]})
    tune.report({"loss": 0.5})


def test_begin_function(trial):
    for _ in range(2):  # as in a process that is used again
        run(trial, two_epochs)
        assert [ray_compat.next_report(trial).metrics for _ in range(3)] == [
            {"loss": 1},
            {"loss": 0.5},
            None,
        ]


def test_a_function_that_does_not_end_keeps_the_next_from_beginning(trial, monkeypatch):
    let_end = threading.Event()

    def stubborn(config):
        try:
            two_epochs(config)
        finally:
            let_end.wait(60)

    monkeypatch.setenv("TUNE_FUNCTION_THREAD_TIMEOUT_S", "0")
    run(trial, stubborn)
    ray_compat.next_report(trial)
    assert not ray_compat.begin_function(trial, ray_compat.as_tune_calls(two_epochs))
    let_end.set()


@pytest.mark.parametrize(
    "function",
    [lambda config: {"loss": 1}, lambda config: (yield {"loss": 1})],
    ids=["returns", "yields"],
)
def test_as_tune_calls(trial, function):
    run(trial, function)
    assert ray_compat.next_report(trial).metrics == {"loss": 1}
    assert ray_compat.next_report(trial).metrics is None
    with pytest.raises(ValueError, match="config"):
        ray_compat.as_tune_calls(lambda one, two: None)


def test_next_report(trial, tmp_path):
    def saving(config):
        tune.report({"loss": 1}, checkpoint=tune.Checkpoint.from_directory(tmp_path))
        tune.report({"loss": 2})

    run(trial, saving)
    one, two, last = (ray_compat.next_report(trial) for _ in range(3))
    assert (one.metrics, one.checkpoint) == ({"loss": 1}, tmp_path)
    assert (two.metrics, two.checkpoint) == ({"loss": 2}, None)
    assert last.metrics is None
    assert ray_compat.ended().items() <= last.raw.items()  # Tune knows by it that the trial ended


def test_end_function(trial):
    ended = []

    def guarded(config):
        try:
            two_epochs(config)
        finally:
            ended.append(True)

    run(trial, guarded)
    ray_compat.next_report(trial)
    thread = session.get_session().training_thread
    ray_compat.end_function(trial)
    thread.join(60)
    assert ended == [True]
    ray_compat.end_function(trial)  # nothing is left to end


def test_end_thread(trial):
    assert ray_compat.end_thread(0)  # there is none
    let_end = threading.Event()

    def stubborn(config):
        try:
            two_epochs(config)
        except:  # noqa: E722 - as in a user's code
            let_end.wait(60)

    run(trial, stubborn)
    assert ray_compat.end_thread(0)  # it has not begun
    ray_compat.next_report(trial)
    assert not ray_compat.end_thread(0)
    let_end.set()
    assert ray_compat.end_thread(60)


def test_name_trial_dir(trial, tmp_path):
    def telling(config):
        tune.report({"dir": tune.get_context().get_trial_dir()})

    run(trial, telling)
    ray_compat.name_trial_dir(tmp_path / "own")
    assert ray_compat.next_report(trial).metrics == {"dir": str(tmp_path / "own")}


def test_continue_from(trial, tmp_path):
    def resumed(config):
        tune.report({"found": tune.get_checkpoint().path})

    run(trial, resumed)
    ray_compat.continue_from(tmp_path)
    assert ray_compat.next_report(trial).metrics == {"found": str(tmp_path)}


def test_admit_storage(trial, tmp_path):
    from ray.train._internal import storage

    run(trial, two_epochs)
    ray_compat.admit_storage()
    assert (tmp_path / "x" / storage._VALIDATE_STORAGE_MARKER_FILENAME).is_file()
    storage.StorageContext._check_validation_file(
        SimpleNamespace(
            experiment_fs_path=str(tmp_path / "x"),
            storage_filesystem=storage.get_fs_and_path(str(tmp_path))[0],
        )
    )


def test_is_raised_by_ray(trial):
    told = []

    def watched(config):
        try:
            two_epochs(config)
        except SystemExit as error:
            told.append(ray_compat.is_raised_by_ray(error))
            raise

    run(trial, watched)
    ray_compat.next_report(trial)
    run(trial, two_epochs)  # it ends the one before
    try:
        sys.exit(0)
    except SystemExit as error:
        told.append(ray_compat.is_raised_by_ray(error))
    assert told == [True, False]


class Trained(tune.Trainable):
    def setup(self, config):
        self.a = config["a"]

    def step(self):
        if self.a is None:
            raise KeyError("mine")
        return {"loss": self.a}

    def save_checkpoint(self, checkpoint_dir):
        return {"a": self.a}

    def load_checkpoint(self, checkpoint):
        self.a = checkpoint["a"]


@pytest.fixture
def tune_trial():
    info = SimpleNamespace(trial_id="id", trial_name="name", trial_resources=None)
    return SimpleNamespace(_trial_info=info)


def test_make_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    assert isinstance(made, Trained)
    assert (made.logdir, made.trial_id, made.config) == (str(tmp_path), "id", {"a": 1})


def test_train_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    result = ray_compat.train_class(made)
    assert (result["loss"], made.iteration) == (1, 1)
    assert result.keys() - ray_compat.filled_in(made) == {"loss"}
    made.a = None
    with pytest.raises(KeyError, match="mine"):
        ray_compat.train_class(made)


def test_restore_class(tune_trial, tmp_path):
    made = ray_compat.make_class(Trained, {"a": 1}, trial=tune_trial, folder=tmp_path)
    made.save(str(tmp_path / "kept"))
    other = ray_compat.make_class(Trained, {"a": 2}, trial=tune_trial, folder=tmp_path)
    ray_compat.restore_class(other, tmp_path / "kept", iteration=3)
    assert (other.a, other.iteration) == (1, 3)


class Holding(tune.Trainable):
    def setup(self, config, data=None):
        self.data = data


@pytest.fixture
def in_ray(monkeypatch):
    """A Ray that keeps what is put into it in a list."""
    kept = []
    monkeypatch.setattr(ray, "put", lambda value: kept.append(value) or len(kept) - 1)
    monkeypatch.setattr(ray, "get", lambda number: kept[number])

    def started(is_so):
        monkeypatch.setattr(ray, "is_initialized", lambda: is_so)

    started(False)
    return started


def read(holder):
    if isinstance(holder, type):
        return holder({}).data
    return holder({})


@pytest.mark.parametrize("wrapped", [lambda made: made, partial], ids=["itself", "partial"])
@pytest.mark.parametrize("kind", [lambda config, data: data, Holding], ids=["function", "class"])
def test_renew_parameters(in_ray, kind, wrapped, monkeypatch, tmp_path):
    monkeypatch.setattr(Holding, "_setup_logdir", lambda self: None)
    holder = tune.with_parameters(kind, data=[1, 2])
    held = wrapped(holder) if not isinstance(holder, type) else holder
    ray_compat.note_parameters(held)
    (registry,) = ray_compat.trainables._registries(held)
    for _ in range(2):
        in_ray(True)
        registry.flush()  # as ray.init does: what it was made of is dropped
        registry.references.clear()  # and Ray has ended
        ray_compat.note_parameters(held)
        ray_compat.renew_parameters(held)
        assert read(holder) == [1, 2]


class Uncopied(Exception):
    def __init__(self, one, two):
        super().__init__(one)


@pytest.mark.parametrize("error", [KeyError("mine"), Uncopied("mine", 2)])
def test_error_of_function(trial, error):
    def failing(config):
        raise error

    run(trial, failing)
    with pytest.raises(Exception, match=r"^$") as raised:
        ray_compat.next_report(trial)
    found = ray_compat.error_of_function(raised.value)
    assert (type(found), found.args) == (type(error), ("mine",))
