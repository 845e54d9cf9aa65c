"""What a kill has left among the checkpoints goes; what a line of the journal names stays."""

from uuid import uuid4

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.events import CHECKPOINT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.remote.objects import Objects
from tuner.places import ROOT, local, url_of
from tuner.search.leftovers import sweep

LEFT = (
    "00000/checkpoints/3/state.pt",  # written, and not journaled
    "00000/checkpoints/2/state.partial",
    "00000/checkpoints/4/state.partial",
    "00002/checkpoints/2.partial/weights/a.pt",
)
OURS = (
    "00000/log.txt",
    "00000/checkpoints/notes.txt",
    "00000/checkpoints/best/state.pt",
    "00001/checkpoints/9/state.pt",  # of a trial that has ended well
    "00002/checkpoints/1/weights/a.pt",  # its folder is named, with whatever it holds
    "00002/checkpoints/1/state.partial",
    "README",
)


@pytest.fixture(params=["folder", "store"])
def killed(request, tmp_path, monkeypatch):
    """An experiment that was killed, with files of all kinds below trials/."""
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    root = tmp_path if request.param == "folder" else local(f"memory://{uuid4().hex}/runs")
    writer = Writer(make_folder(root / "digits"))
    writer.trial(0, [0.1, 0.2], end=None)
    for epoch in (1, 2):  # the first is replaced by now, and stays
        writer.checkpoint("00000", epoch)
    writer.trial(1, [0.1])
    writer.trial(2, [0.1], error=("crash", "m"))
    digest = {"path": "trials/00002/checkpoints/1", "sha256": "0" * 64}
    writer.add(CHECKPOINT, trial_id="00002", epoch=1, **digest)
    for name in (*LEFT, *OURS):
        path = writer.folder / "trials" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    writer.kill()
    return ExperimentFolder(writer.folder)


def test_only_what_no_line_names_goes(killed):
    before = killed.files_below("trials")
    sweep(killed, fold(killed.events()).trials.values())
    left = {f"trials/{name}" for name in LEFT}
    assert killed.files_below("trials") == [name for name in before if name not in left]
    assert not (killed.path / "trials" / "00000" / "checkpoints" / "3").exists()


@pytest.mark.parametrize("killed", ["store"], indirect=True)
def test_it_goes_from_the_store_too(killed):
    objects = Objects(url_of(killed.path))
    name = f"trials/{LEFT[0]}"
    objects.write(name, b"x")
    (killed.path / name).unlink()
    sweep(killed, fold(killed.events()).trials.values())
    assert not objects.has(name)


def test_what_cannot_be_removed_is_told_and_no_more(killed, monkeypatch, caplog):
    def refuse(self, name):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ExperimentFolder, "remove_file", refuse)
    sweep(killed, fold(killed.events()).trials.values())
    assert caplog.messages == ["cannot remove what a kill has left: Permission denied"]
