"""An experiment's folder that someone else has made: a good read or an error in words, no more."""

import contextlib
import io
import json
import os
import pickle
import pty
import shutil
import sys
import threading
import time

import hostile
import pytest
import torch
from click import ClickException
from confirmed import retrained, searched
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import Served
from synthetic import Writer, read_document

from tuner import load_model
from tuner.cli import main as cli
from tuner.cluster import connect as cluster
from tuner.errors import CheckpointError, TunerError, UsageError
from tuner.experiment.files import compute_sha256
from tuner.experiment.journal import Journal
from tuner.experiment.results.results import Results
from tuner.reporting import tensorboard_server
from tuner.reporting.live_view import format_status
from tuner.search import run as driver
from tuner.search import tune_run
from tuner.service.api import router
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.trial.checkpoints import CheckpointStore
from tuner.vision.image_classifier import ImageClassifier

READING = [
    line.split()
    for line in (
        "ls",
        "ls --json",
        "show x",
        "show x --json",
        "best x-confirm",
        "best x",
        "best x --top 9 --json",
        "refine x --to x.yaml",
        "advise x",
        "advise x --ask lr --json",
        "export x --to out",
        "compare x x-confirm",
    )
]
SLOWER = (["evaluate", "x"], ["report", "x"], ["report", "x", "--format", "json"])
RESUMING = (["resume", "x"], ["resume", "x", "--add-samples", "1", "--retry-failed"])
# The same ones each time: what is new among so few would come to light at someone else's change
FEW = settings(
    max_examples=settings.default.max_examples // 3,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
ARGUMENTS = {
    "name": "earlier",
    "trials": [
        {
            "trial_id": "00001",
            "config": {"lr": 0.1},
            "values": [[1, 0.5], [2, 0.6]],
            "failed": True,
        }
    ],
    "notes": ["given 1"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A storage with a search that was interrupted, its confirmation, and all files there can be.

    Ray is never started: of `tune.run` there is only the first suggestion.
    """
    storage = tmp_path_factory.mktemp("foreign")
    search = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    fields = {"trainable": IMAGE_CLASSIFIER, "search": search, "num_samples": 9}
    values = {0.1: 0.5, 0.2: 0.6, 0.3: 0.7, 0.4: 0.8}
    results = searched(storage / "x", values, **fields, warm_start="earlier")
    writer = Writer(results.folder, resumed=True)
    writer.trial(7, [0.3], end=None, config={"lr": 0.01})
    writer.kill()
    confirming = retrained(results, [[0.8, 0.9], [0.7, 0.75]]).folder
    process = {"device": torch.device("cpu"), "rank": 0, "world_size": 1}
    learner = ImageClassifier({"lr": 0.1}, results.spec.constants, **process)
    for folder, trial_id, epoch in (
        *((results.folder, "00003", 2), (results.folder, "00007", 1)),
        *((confirming, f"0000{number}", 2) for number in range(4)),
    ):
        saved = CheckpointStore(folder, trial_id).save(epoch, learner.state_dict())
        with Journal.open(folder) as journal:
            journal.append("checkpoint", trial_id=trial_id, **saved.as_dict())
    (results.folder / "warm_start.json").write_text(json.dumps(ARGUMENTS))
    test = {
        "trial_id": "00003",
        "checkpoint_sha256": saved.sha256,
        "test_accuracy": 0.5,
    }
    (results.folder / "trials/00003/test.json").write_text(json.dumps(test))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUNER_STORAGE", str(storage))
        patch.chdir(storage)
        patch.setattr(
            cluster, "connect", lambda *args, **kwargs: contextlib.nullcontext()
        )
        patch.setattr(cluster, "count_slots", lambda resources: 2)
        patch.setattr(driver, "_detect_machine", lambda: None)
        patch.setattr(tune_run, "build_trainable", lambda plan: None)
        patch.setattr(
            "ray.tune.run", lambda *args, search_alg, **kwargs: search_alg.suggest("a")
        )
        yield storage


@pytest.fixture
def folder(made):
    """The storage as it was made, again after the test."""
    with untouched(made):
        yield made / "x"


@contextlib.contextmanager
def untouched(storage):
    """Puts the storage back as it was."""
    kept = storage.with_name("kept")
    shutil.copytree(storage, kept, symlinks=True)
    try:
        yield
    finally:
        for entry in storage.iterdir():
            shutil.rmtree(
                entry
            ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        shutil.copytree(kept, storage, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(kept)


def call(*arguments):
    """What a command says on stdout, as bytes of UTF-8 hold it; whatever else it ends in raises."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        cli.cli.main(list(arguments), standalone_mode=False)
    printed.flush()
    return printed.buffer.getvalue().decode()


def assert_fault_or_output(*arguments):
    """Run a command that may end in an error of ours, and in nothing else."""
    try:
        output = call(*arguments)
    except (TunerError, ClickException) as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert all(char.isprintable() or char == "\n" for char in output)


def ask_for_all(storage):
    """Ask `tuner serve` for what there is of "x": an answer or a refusal, and nothing else."""
    served = Served(storage)
    for route in router.routes:
        if "GET" in route.methods and not route.path.endswith("/report"):
            answer = served.ask("GET", route.path.format(name="x", trial_id="3"))
            assert answer.status_code < 500 or answer.json()["error"]


@FEW
@given(data=st.data())
def test_commands_on_arbitrary_files_report_fault_or_output(made, data):
    beside = ("confirmed.json", "warm_start.json", "trials/00003/test.json")
    names = ("experiment.json", "../x-confirm/experiment.json", *beside)
    name = f"x/{data.draw(st.sampled_from(names))}"
    with untouched(made):
        document = read_document(made / name)
        (made / name).write_text(json.dumps(data.draw(hostile.mutated(document))))
        assert_fault_or_output(*data.draw(st.sampled_from(SLOWER)))
        ask_for_all(made)
        for command in (*READING, *RESUMING):
            assert_fault_or_output(*command)


@FEW
@given(data=st.data())
def test_commands_on_arbitrary_journal_report_fault_or_output(made, data):
    name = data.draw(st.sampled_from(["x/journal.jsonl", "x-confirm/journal.jsonl"]))
    with untouched(made):
        lines = (made / name).read_text().splitlines()
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(data.draw(hostile.mutated(json.loads(lines[at]))))
        (made / name).write_text("".join(f"{line}\n" for line in lines))
        with contextlib.suppress(TunerError):
            assert format_status(Results(made / "x"), now=time.time())
        assert_fault_or_output(*data.draw(st.sampled_from(SLOWER)))
        ask_for_all(made)
        for command in (*READING, *RESUMING):
            assert_fault_or_output(*command)


def test_unchanged_folder_is_read_and_resumed(folder):
    for command in (*READING, *SLOWER, *RESUMING):
        assert call(*command), command


@FEW
@given(data=st.data())
def test_commands_on_arbitrary_export_report_fault_or_output(made, data):
    with untouched(made):
        call("export", "x", "--to", "out")
        config = read_document(made / "out/config.json")
        (made / "out/config.json").write_text(
            json.dumps(data.draw(hostile.mutated(config)))
        )
        with contextlib.suppress(TunerError):
            assert load_model("out")
        assert_fault_or_output("evaluate", "out")


# A terminal that obeys it writes the clipboard
CLIPBOARD = "\x1b]52;c;ZWNobyBoaQ==\x07"
UNDER = f"val_{CLIPBOARD}loss"
BESIDE = f"y{CLIPBOARD}"


@pytest.fixture
def obeyed(folder):
    """The folder with an escape sequence wherever one can be, and another named by one."""
    journal = folder / "journal.jsonl"
    document = folder / "experiment.json"
    bent = read_document(document)
    bent["spec"]["objective"]["metric"] = UNDER
    bent["spec"]["name"] = BESIDE
    document.write_text(json.dumps(bent))
    lines = []
    for line in journal.read_text().splitlines():
        event = json.loads(line)
        if "metrics" in event:
            event["metrics"] = {UNDER: 0.5, CLIPBOARD: 1.0, **event["metrics"]}
        if "config" in event:
            event["config"][CLIPBOARD] = CLIPBOARD
        if "error" in event:
            event["error"] = {"kind": CLIPBOARD, "message": CLIPBOARD}
        lines.append(json.dumps(event))
    journal.write_text("".join(f"{line}\n" for line in lines))
    for test in folder.glob("trials/*/test.json"):
        test.write_text(json.dumps({**read_document(test), CLIPBOARD: CLIPBOARD}))
    path = f"trials/00003/{CLIPBOARD}"
    shutil.copytree(folder / "trials/00003/checkpoints/2", folder / path)
    with Journal.open(folder) as events:
        sha256 = compute_sha256(folder / path)
        for epoch in (1, 2):
            events.append(
                "checkpoint", trial_id="00003", epoch=epoch, path=path, sha256=sha256
            )
    (folder.parent / BESIDE).mkdir()
    (folder.parent / BESIDE / "experiment.json").write_text(json.dumps([CLIPBOARD]))
    return folder


def on_a_terminal(monkeypatch, *arguments):
    """What a command sends to a terminal, stdout and stderr."""
    shown, terminal = pty.openpty()
    sent = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(shown, 65536):
                sent.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with (
        open(terminal, "w", encoding="utf-8") as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["tuner", *arguments])
        assert stream.isatty()
        with contextlib.suppress(SystemExit):
            cli.main()
    reader.join()
    os.close(shown)
    return bytes(sent)


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls --json",
        "show x",
        "best x",
        "best x --top 9",
        "best x --json",
        "evaluate x --trial 3",
        "refine x --to x.yaml",
        "compare x x-confirm",
        "doctor",
        "report x",
        "report x --format json",
        "resume x",
        "confirm x",
        f"report {BESIDE}",
        f"show {BESIDE}",
        f"best x --metric {BESIDE}",
        f"export x --to out{CLIPBOARD}",
        f"validate {BESIDE}.yaml",
    ],
    ids=lambda command: command.encode("unicode_escape").decode(),
)
def test_escape_sequences_never_reach_terminal(obeyed, monkeypatch, command):
    sent = on_a_terminal(monkeypatch, *command.split())
    assert sent.strip()
    assert b"\x1b]" not in sent
    assert b"\x07" not in sent


MEASURING = ["evaluate", "x", "--trial", "3"]
MODULE = """
import sys
from pathlib import Path
print("imported", file=sys.stderr)
from tuner.vision.image_classifier import ImageClassifier

class Learner(ImageClassifier):
    def __init__(self, config, constants, **place):
        super().__init__(config, {k: v for k, v in constants.items() if k != "data_dir"}, **place)
"""


@pytest.fixture
def with_code(folder, tmp_path_factory, monkeypatch):
    """The folder, whose spec names a module elsewhere, and with code wherever it may be.

    Whatever runs any of it makes a folder `ran`, or says `imported`.
    """
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "their_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(elsewhere))
    document = read_document(folder / "experiment.json")
    document["spec"]["trainable"] = "their_module:Learner"
    document["spec"]["training"]["data_dir"] = "their\x1b[2Jdata"
    document["spec"]["log"] = ["mlflow"]
    (folder / "experiment.json").write_text(json.dumps(document))
    code = pickle.dumps(Code(), protocol=2)
    for name in (
        "tuner.pkl",
        "experiment_state-1.json",
        "searcher-state-1.pkl",
        "__init__.py",
    ):
        (folder / name).write_bytes(code)
        (folder / "trials/00003" / name).write_bytes(code)
    yield folder
    sys.modules.pop("their_module", None)
    assert not (folder.parent / "ran").exists()


class Code:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_reading_commands_import_no_code_of_folder(with_code, capfd, monkeypatch):
    monkeypatch.setattr(
        tensorboard_server, "serve", lambda folder, port, find: print(f"port {port}")
    )
    for command in (*READING, *SLOWER[1:], ["tensorboard", "x"]):
        assert call(*command)
    ask_for_all(with_code.parent)
    assert "their_module" not in sys.modules
    assert "imported" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "command", [MEASURING, RESUMING[0], ["confirm", "x"]], ids=" ".join
)
def test_code_of_foreign_folder_needs_trust(
    snapshot, with_code, command, capfd, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with_code.joinpath("trials", "00003", "test.json").unlink()
    with snapshot.raises(UsageError):
        call(*command)
    assert "imported" not in capfd.readouterr().err
    with contextlib.suppress(TunerError):
        cli.cli.main([*command, "--trust"], standalone_mode=False)
    assert "imported" in capfd.readouterr().err


@pytest.mark.parametrize(
    "command", [["export", "x", "--to", "out"], MEASURING], ids=" ".join
)
def test_checkpoint_with_code_is_refused(snapshot, with_code, command):
    for folder, trial_id in (
        (with_code, "00003"),
        (with_code.parent / "x-confirm", "00001"),
    ):
        path = folder / "trials" / trial_id / "checkpoints/2/state.pt"
        path.write_bytes(pickle.dumps({"model": Code()}, protocol=2))
        digest = {
            "path": path.relative_to(folder).as_posix(),
            "sha256": compute_sha256(path),
        }
        with Journal.open(folder) as journal:
            journal.append("checkpoint", trial_id=trial_id, epoch=2, **digest)
    (with_code / "trials/00003/test.json").unlink()
    trust = ["--trust"] if command == MEASURING else []
    with snapshot.raises(CheckpointError):
        call(*command, *trust)
