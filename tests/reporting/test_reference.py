"""The reference of the spec: whole, and what docs/spec.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.reporting.reference import part, reference
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.schema import SECTIONS, schedulers, strategies
from tuner.spec.space.parsing import CALLS
from tuner.vision.catalog import DATASETS, MODELS
from tuner.vision.settings import ClassifierSettings

PAGE = Path(__file__).parents[2] / "docs" / "spec.md"


def test_the_page_is_the_reference() -> None:
    assert PAGE.read_text() == f"{reference()}\n", "write it anew: make reference"


def test_it_depends_on_nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = reference()
    monkeypatch.setenv("TUNER_STORAGE", "/elsewhere")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    assert reference() == before


def test_it_has_every_key() -> None:
    text = reference()
    keys = [f"training.{name}" for name in ClassifierSettings.model_fields]
    keys += [f"search.{n}" for model in strategies().values() for n in model.model_fields]
    keys += [f"scheduler.{n}" for model in schedulers().values() for n in model.model_fields]
    keys += [f"{section}.{n}" for section, model in SECTIONS.items() for n in model.model_fields]
    apart = {"training", "search", "scheduler", *SECTIONS}
    keys += [name for name in ExperimentSpec.model_fields if name not in apart]
    assert not [key for key in keys if f"\n- `{key}` (" not in text]
    for names, form in ((CALLS, "\n- `{}("), (MODELS, "\n- `{}`: "), (DATASETS, "\n- `{}`: ")):
        assert not [name for name in names if form.format(name) not in text]


def test_it_fits_a_terminal_but_for_its_examples() -> None:
    code = False
    for line in reference().splitlines():
        code ^= line.startswith("```")
        assert code or len(line) <= 80, line


def test_one_section_and_one_key() -> None:
    assert part("search.space").startswith("### search.space: the domains\n\nA domain is one")
    assert "scheduler" not in part("objective")
    both = part("search.startup").split("\n\n")
    assert [text.split(":")[0].split("\n")[0] for text in both] == [
        "search, with bayesopt",
        "search, with bohb",
        "search, with hyperopt",
    ]
    assert part("max_t").startswith(
        "scheduler: whichever it is\n- `scheduler.max_t` (a whole number from 1 on; default `10`): "
    )
    gamma = " ".join(part("search.gamma").split())
    assert "(a number above 0 and below 1; default `0.1`): the share" in gamma


def test_an_unknown_key_is_told_with_the_nearest_and_the_sections() -> None:
    with pytest.raises(UsageError, match=r"no key 'sceduler' \(did you mean 'scheduler'\?\); sect"):
        part("sceduler")
