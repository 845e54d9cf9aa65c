"""The documentation is true: what a page shows is what comes, and names and figures are the code's.

tests/integration/test_docs.py runs the commands that start a search.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from commands import call
from pages import Page
from PIL import Image
from synthetic import Writer, make_folder

from tuner.cli import control
from tuner.cli.main import cli
from tuner.cli.serve import serve
from tuner.errors import FAILURE_KINDS
from tuner.experiment import files, reading
from tuner.experiment.control import read_requests
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote import lease
from tuner.experiment.verbs import VERBS
from tuner.reporting import notifier
from tuner.reporting.advice import finding
from tuner.reporting.reference import render_reference
from tuner.search import warm_start
from tuner.service import advice, watch
from tuner.service.api import router
from tuner.service.queue import runner, searches
from tuner.service.watch import HERE, STORE
from tuner.spec import plain_values
from tuner.spec import text as spec_text
from tuner.spec.code import NamedCode
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Resources
from tuner.spec.space import parsing
from tuner.spec.space.parsing import CALLS
from tuner.vision.catalog import DATASETS, SOURCES
from tuner.vision.metrics import METRICS, OPTIONAL_METRICS
from tuner.vision.model_catalog import MODELS
from tuner.vision.models._foreign import LIBRARIES
from tuner.vision.pipeline import PARTS_PER_STAGE
from tuner.vision.recipe import STEP_FACTOR, RecipeSettings
from tuner.vision.sources._images import LARGEST_SIZE, SHARE
from tuner.vision.sources.folder import SUFFIXES

NAMES = (
    "advice",
    "control",
    "data",
    "experiments",
    "models",
    "moving",
    "notify",
    "queue",
    "security",
    "serve",
    "training",
    "troubleshooting",
)
PAGES = {name: Page(f"docs/{name}.md") for name in NAMES}
WORDS = {name: " ".join(page.text.split()) for name, page in PAGES.items()}
SPELLED = {
    1: "second",
    2: "twice",
    3: "three",
    4: "four",
    60: "a minute",
    120: "two minutes",
}
FIGURES = {
    "data": [
        f"gets {100 * SHARE:g} % of",
        f"at most {LARGEST_SIZE};",
        f"about {2 * (Image.MAX_IMAGE_PIXELS or 0) / 10**6:.0f} million pixels",
    ],
    "notify": [
        f"at most every {notifier.BEST_EVERY_S / 60:g} minutes",
        f"for at most {notifier.FLUSH_S:g} seconds",
        f"within {notifier.ANSWER_S:g} seconds",
        f"is tried {SPELLED[len(notifier.PAUSES_S)]} more",
    ],
    "queue": [
        f"up to {SPELLED[searches._TRIES]} starts in all",
        f"on another machine, after {lease.PATIENCE_S:g} s",
        f"the runner waits for it, for {SPELLED[runner._PATIENCE_S]}",
    ],
    "security": [
        f"at most {files.LARGEST >> 20} MiB",
        f"a line of the journal {reading.LONGEST >> 20} MiB",
        *(f"{most:,} values" for most in (plain_values.MOST, spec_text.MOST)),
        f"{spec_text.LONGEST:,} characters",
        f"numbers of {spec_text.LONGEST_NUMBER:,} characters",
        f"A domain may have {parsing.MAX_LENGTH:,} characters",
        f"limit is {warm_start.MOST_VALUES:,} values",
    ],
    "serve": [
        *(
            f"`--{option.name} {option.default}`"
            for option in serve.params
            if option.name in ("port", "host")
        ),
        f"about every {SPELLED[HERE.running]} ({STORE.running:g} s in a bucket)",
        f"a new experiment after {HERE.new:g} s ({STORE.new:g} s)",
        f"does not run after {HERE.over:g} s ({SPELLED[STORE.over]})",
        f"the last {SPELLED[watch._MOST_KEPT]} that were opened",
    ],
    "training": [
        f"({PARTS_PER_STAGE} for each stage)",
        f"for `step`: default {STEP_FACTOR}",
        "half and three quarters of the epochs",
    ],
}


@pytest.mark.parametrize("name", FIGURES)
def test_page_figures_equal_code(name):
    assert [figure for figure in FIGURES[name] if figure not in WORDS[name]] == []


COMMANDS = [
    command
    for group in cli.commands.values()
    for command in (group, *getattr(group, "commands", {}).values())
]
SECTIONS = "search|scheduler|stop|resources|objective|training|timeouts"


@pytest.fixture(scope="module")
def reference():
    return render_reference()


@pytest.mark.parametrize("name", NAMES)
def test_page_keys_and_options_exist(name, reference):
    text = PAGES[name].text
    if name == "moving":  # the right columns of its tables
        text = "\n".join(re.findall(r"^\|[^|]*\| (.*) \|$", text, re.MULTILINE))
        assert set(re.findall(r"`(\w+)\(a, b", text)) <= set(CALLS)
    keys = {*re.findall(rf"`((?:{SECTIONS})\.\w+)", text)} - {"training.md"}
    assert [key for key in keys if f"\n- `{key}` (" not in reference] == []
    params = [param for command in COMMANDS for param in command.params]
    options = {name for each in params for name in (*each.opts, *each.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= options


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory, on the import path while the test runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    yield tmp_path
    sys.modules.pop("my_net", None)


@pytest.fixture
def running(here, monkeypatch):
    """A search that runs, of which nobody awaits an answer."""
    monkeypatch.setattr(control, "_wait_for_answer", lambda *arguments: None)
    space = {"lr": "loguniform(0.0001, 1)", "batch_size": "choice([32, 64])"}
    search = {"strategy": "random", "space": space}
    writer = Writer(make_folder(here / "results/first", search=search))
    writer.trial(3, [0.5], end=None, config={"lr": 0.5, "batch_size": 32})
    yield ExperimentFolder(writer.folder)
    writer.journal.close()


def test_advice_page_has_a_row_for_every_kind():
    sources = Path(finding.__file__).parent.glob("*.py")
    code = "".join(path.read_text() for path in sources)
    kinds = re.findall(r"Finding\(\s*\"(\w+)\"", code)
    rows = re.findall(r"^\| `(\w+)` \|", PAGES["advice"].text, re.MULTILINE)
    assert {*rows} == {*kinds} - {"isolation"}


def test_control_page_commands_request_every_verb(running):
    for done in PAGES["control"].run_commands():
        assert "requested; the driver of first has not answered yet" in done.stdout
    controls = [
        request.control.model_dump(mode="json") for request in read_requests(running)
    ]
    assert {each["verb"] for each in controls} == set(VERBS)


def test_data_page_names_exist_in_code():
    text = PAGES["data"].text
    table = text.partition("| | |")[2].partition("\n\n")[0]
    for form in (*DATASETS, *(source.form for source in SOURCES.values())):
        assert f"`{form}`" in table
    formats = re.search(r"tuner reads (.*?)\. Other", text, re.DOTALL)
    assert formats
    names = {name.upper() for name in re.findall(r"\b[A-Z]\w*[A-Z]\w*\b", formats[1])}
    registered = Image.registered_extensions()
    same = {"PGM": "PPM"}
    assert {same.get(n, n) for n in names} == {
        registered[suffix] for suffix in SUFFIXES
    }


@pytest.fixture
def finished(here):
    """The storage of two finished searches."""
    for name in ("first", "wide"):
        spec = {"trainable": "commands:a_function", "training": {}, "num_samples": 3}
        writer = Writer(
            make_folder(here / "results" / name, metric="val_loss", mode="min", **spec)
        )
        for number in range(3):
            values = [
                {"val_loss": 0.5 - 0.1 * number},
                {"val_loss": 0.3 - 0.1 * number},
            ]
            trial_id = writer.trial(number, values, config={"lr": 10.0**-number})
            writer.checkpoint(trial_id, 2, b"x" * 1000)
        writer.end()
    return here / "results"


def test_experiments_page_commands_run(finished):
    NamedCode("trainable", "commands:a_function").remember()
    page = PAGES["experiments"]
    for line in page.commands:
        more = ["--dry-run"] if line.startswith("tuner run ") else []
        assert page.run_command(line, *more).stdout, line
    assert [folder.name for folder in finished.iterdir()] == ["first"]
    assert len(list(finished.rglob("state.pt"))) == 2


def test_experiments_page_trial_equals_output(finished):
    shown = call("trials", "first", "--trial", "2").stdout
    assert shown == PAGES["experiments"].blocks("text")[0]


def test_experiments_page_lists_every_name_of_ls(finished):
    error = str(call("ls", "--sort", "nothing").exception)
    names = set(error.partition("available: ")[2].split(", "))
    section = (
        PAGES["experiments"].text.partition("## Finding one")[2].partition("## ")[0]
    )
    assert names - {"val_loss"} <= set(re.findall(r"`(\w+)`", section))


def test_models_page_summary_equals_output(here):
    PAGES["models"].write_files(here)
    (shown,) = PAGES["models"].blocks("text")
    assert shown in call("validate", "my.yaml", "--summary").stdout


def test_models_page_names_exist_in_code():
    text = PAGES["models"].text
    rows = {
        row.partition(" | ")[0] for row in text.splitlines() if row.startswith("| `")
    }
    names = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    elsewhere = {"my_module:MyNet", "torchvision:resnet50", "timm:NAME"}
    assert names - {"training.model"} == {*MODELS, *elsewhere}
    assert {name.partition(":")[0] for name in elsewhere} >= {*LIBRARIES}


def test_notify_page_shows_a_message_and_a_spec(writer):
    writer.trial(0, [0.5])
    writer.end()
    results = writer.results
    sent = notifier.build_message(notifier.END, results.spec, results.history, 3.0)
    shown = json.loads(PAGES["notify"].blocks("json")[0])
    assert [*sent, *sent["best"]] == [*shown, *shown["best"]]
    spec = ExperimentSpec.from_text(PAGES["notify"].files["noted.yaml"])
    hook = "https://hooks.slack.com/services/${SLACK_HOOK}"
    assert json.loads(spec.to_json())["notify"] == [hook]


def test_security_page_names_every_command_that_reads_a_folder():
    others = [
        "run",
        "validate",
        "spec",
        "doctor",
        "submit",
        "jobs",
        "logs",
        "stop",
        "weights",
    ]
    section = WORDS["security"].partition("### None of its code")[2]
    named = re.findall(r"`(\w+)`", section.partition("### ")[0])
    assert {*cli.commands} - {*others} <= {*named}


def test_serve_page_names_endpoints_options_and_verbs():
    text = PAGES["serve"].text
    rows = re.findall(
        r"^\| (?:`(/NAME[^`?]*)[^`]*`|\(nothing\)).* \| `tuner", text, re.MULTILINE
    )
    shown = {row.replace("NAME", "{name}").replace("ID", "{trial_id}") for row in rows}
    routes = [*router.routes, *advice.router.routes]
    paths = {route.path.removeprefix(router.prefix) for route in routes}
    of_the_page = ("figures", "spec", "report", "findings")
    paths -= {f"/{{name}}/{name}" for name in of_the_page}
    assert shown == {path for path in paths if "/trials/{trial_id}/" not in path}
    queries = {name.alias for route in routes for name in route.dependant.query_params}
    for name in queries - {"metric", "mode"}:
        assert f"`{name}`" in text or f"?{name}=" in text
    assert {option.opts[0] for option in serve.params} <= {
        *re.findall(r"--[\w-]+", text)
    }
    assert '{"verb": "max-concurrent", "max_concurrent": 4}' in text


def test_training_page_settings_exist_in_code():
    text = PAGES["training"].text
    names = {*re.findall(r"`(?:training|resources)\.(\w+)", text)}
    plain = {"crop_padding", "flip", "cutout"}
    assert names >= {*Resources.model_fields, *RecipeSettings.model_fields} - plain
    assert all(f"`{name}`" in text for name in OPTIONAL_METRICS)
    assert set(re.findall(r"`(micro_\w+)`", text)) <= set(METRICS)
    split = next(line for line in text.splitlines() if "can be split, such as" in line)
    assert set(re.findall(r"`(\w+)`", split)) <= {
        n for n, m in MODELS.items() if m.layers > 1
    }


def test_troubleshooting_page_commands_show_why_a_trial_failed(here):
    writer = Writer(make_folder(here / "results/first"))
    writer.trial(0, [0.5, 0.6])
    writer.trial(2, [0.4], error=("oom", "CUDA out of memory"))
    writer.end()
    for done in PAGES["troubleshooting"].run_commands():
        assert "oom" in done.stdout, done.stdout


def test_troubleshooting_page_has_a_row_for_every_failure_kind():
    kinds = re.findall(r"^\| `(\w+)` \|", PAGES["troubleshooting"].text, re.MULTILINE)
    assert sorted(kinds) == sorted(FAILURE_KINDS)
