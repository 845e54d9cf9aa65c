"""The real TensorBoard, as `tuner tensorboard` starts it, by its HTTP interface."""

import os
import time
from pathlib import Path

import pytest
from sockets import listening, outside
from tensorboard_process import RunningTensorBoard

from tuner.errors import UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.reporting.tensorboard import find_logdir
from tuner.reporting.tensorboard_server import serve


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    board = RunningTensorBoard(tmp_path_factory.mktemp("storage"))
    yield board
    board.close()


def test_board_has_a_row_for_each_trial(snapshot, board):
    rows = board.sessions()
    snapshot.compare_value(
        {
            trial_id: (row["sessions"][0]["status"], row["hparams"]["status"])
            for trial_id, row in sorted(rows.items())
        }
    )
    session = rows["00000"]["sessions"][0]
    assert 0 < session["startTimeSecs"] < session["endTimeSecs"]


def test_serve_listens_on_this_machine_only(board):
    board.sessions()
    pids = [board.process.pid]
    assert board.port in [address.port for _, address in listening(pids)]
    assert outside(pids) == []


def test_serve_has_no_projector(tmp_path):
    served = []
    serve([ExperimentFolder(tmp_path)], main=lambda board: served.append(board) or 0)
    plugins = [getattr(each, "plugin_class", None) for each in served[0].plugin_loaders]
    names = {plugin.plugin_name for plugin in plugins if plugin}
    assert "scalars" in names
    assert "projector" not in names


class Logdirs(list):
    """The experiments that TensorBoard was started on: run -> what it leads to."""

    def __call__(self, board):
        folder = Path(board.flags.logdir)
        self.append({link.name: link.resolve() for link in folder.iterdir()})


@pytest.fixture
def logdirs():
    return Logdirs()


@pytest.mark.parametrize(
    "name", ["trials", "trials/00001", "trials/00001/events.out.tfevents.1"]
)
@pytest.mark.parametrize("others", ["x", "ax"])
def test_serve_refuses_a_folder_with_a_link(snapshot, tmp_path, logdirs, name, others):
    (tmp_path / "a/trials").mkdir(parents=True)
    link = tmp_path / "x" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path)
    with snapshot.raises(UsageError):
        serve([ExperimentFolder(tmp_path / name) for name in others], main=logdirs)
    assert logdirs == []


def test_serve_accepts_what_tensorboard_does_not_open(tmp_path, logdirs):
    files = tmp_path / "x/trials/00001/files"
    files.mkdir(parents=True)
    (files / "epoch=1.ckpt").touch()
    (files / "last.ckpt").symlink_to("epoch=1.ckpt")
    os.mkfifo(files / "pipe")
    serve([ExperimentFolder(tmp_path / "x")], main=logdirs)
    assert len(logdirs) == 1


def test_serve_refuses_a_pipe_that_tensorboard_would_read(snapshot, tmp_path, logdirs):
    runs = tmp_path / "x/trials"
    runs.mkdir(parents=True)
    os.mkfifo(runs / "events.out.tfevents.1")
    with snapshot.raises(UsageError):
        serve([ExperimentFolder(tmp_path / "x")], main=logdirs)


def test_serve_of_several_names_their_runs(tmp_path, logdirs):
    folders = [tmp_path / name for name in ("a/digits", "b/digits", "a/cnn")]
    for folder in folders:
        (folder / "trials").mkdir(parents=True)
    again = ExperimentFolder(folders[0])
    assert serve([*map(ExperimentFolder, folders), again], main=logdirs) == 0
    trials = [find_logdir(folder).resolve() for folder in folders]
    assert logdirs == [dict(zip(("digits", "digits-2", "cnn"), trials, strict=True))]


def test_serve_adds_later_experiments(tmp_path):
    (tmp_path / "a/trials").mkdir(parents=True)

    def look(board):
        (tmp_path / "b/trials").mkdir(parents=True)
        for _ in range(1000):
            if (Path(board.flags.logdir) / "b").is_dir():
                return 0
            time.sleep(0.01)
        return 1

    folders = [ExperimentFolder(tmp_path / "a")]
    find = lambda: [ExperimentFolder(path) for path in sorted(tmp_path.iterdir())]  # noqa: E731
    assert serve(folders, find=find, every_s=0.01, main=look) == 0
