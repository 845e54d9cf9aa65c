"""The reference of the spec, in docs/spec.md and by key; its examples are valid and work."""

import re
import shlex
from pathlib import Path

import pytest
from commands import call
from prepared import resolve_spec

from tuner.errors import UsageError
from tuner.reporting.reference import find_section, render_reference
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import list_warnings
from tuner.spec.schedulers import SCHEDULERS
from tuner.spec.sections import SECTIONS
from tuner.spec.space.parsing import CALLS
from tuner.spec.space.spaces import config_at
from tuner.spec.strategies import SEARCHERS
from tuner.vision.catalog import DATASETS
from tuner.vision.model_catalog import MODELS
from tuner.vision.settings import ClassifierSettings

PAGE = Path(__file__).parents[2] / "docs/spec.md"


def test_docs_page_is_the_reference():
    assert PAGE.read_text() == f"{render_reference()}\n", (
        "write it anew: make reference"
    )


def test_reference_has_every_key():
    text = render_reference()
    keys = [f"training.{name}" for name in ClassifierSettings.model_fields]
    keys += [
        f"search.{n}"
        for model in SEARCHERS.load_shipped_settings().values()
        for n in model.model_fields
    ]
    keys += [
        f"scheduler.{n}"
        for model in SCHEDULERS.load_shipped_settings().values()
        for n in model.model_fields
    ]
    keys += [
        f"{section}.{n}"
        for section, model in SECTIONS.items()
        for n in model.model_fields
    ]
    apart = {"training", "search", "scheduler", *SECTIONS}
    keys += [name for name in ExperimentSpec.model_fields if name not in apart]
    assert not [key for key in keys if f"\n- `{key}` (" not in text]
    for names, form in (
        (CALLS, "\n- `{}("),
        (MODELS, "\n- `{}`: "),
        (DATASETS, "\n- `{}`: "),
    ):
        assert not [name for name in names if form.format(name) not in text]


def test_part_is_a_section_or_the_items_of_a_key(snapshot):
    assert find_section("search.space").startswith(
        "### search.space: the domains\n\nA domain is one"
    )
    assert "max_t" not in find_section("objective")
    startup = find_section("search.startup").split("\n\n")
    strategies = [text.partition("\n")[0] for text in startup]
    assert strategies == [
        "search.bayesopt",
        "search.bohb",
        "search.hyperopt",
        "search.mixed",
    ]
    assert find_section("max_t").startswith(
        "scheduler: every scheduler\n- `scheduler.max_t` (a whole number from 1 on; default `10`): "
    )
    assert "\n- `uniform(lower, upper)`: numbers" in find_section("uniform")
    with snapshot.raises(UsageError):
        find_section("sceduler")


BLOCKS = re.findall(
    r"^```(\w+)\n(.*?)^```$", render_reference(), flags=re.MULTILINE | re.DOTALL
)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A folder with the files that the reference shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    for kind, text in BLOCKS:
        if kind != "console":
            match = re.match(r"# ([\w.]+)\n", text)
            assert match, text
            (tmp_path / match[1]).write_text(text)
    return tmp_path


def test_commands_of_reference_work():
    lines = "".join(text for kind, text in BLOCKS if kind == "console").splitlines()
    assert len(lines) == 6
    for line in lines:
        words = shlex.split(
            line.removeprefix("$ tuner ").partition(" > ")[0], comments=True
        )
        done = call(*words)
        assert not done.exception, f"{line}\n{done.output}"
        assert done.stdout


def test_examples_in_python_and_yaml_are_equal():
    python, yaml = (resolve_spec(name)[0] for name in ("my_spec.py", "my_spec.yaml"))
    assert python == yaml
    assert not list_warnings(yaml, here=False)


def test_conditional_example_gives_both_branches():
    spec = resolve_spec("conditional.py")[0]
    low, high = (config_at(spec.search.space, lambda path, u=u: u) for u in (0.3, 0.9))
    assert low["layer"] == {"activation": "relu", "mult": 1.3}
    assert high["layer"] == {"activation": "tanh"}
