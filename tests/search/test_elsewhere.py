"""Specs and folders of experiments whose trials run elsewhere; what else refuses them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from commands import call

from tuner.errors import SpecError, UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.planning.validation import validate
from tuner.search.elsewhere import recorded, validated
from tuner.search.provenance import create
from tuner.search.resuming import Extension
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.code import code_named
from tuner.spec.experiment import ExperimentSpec, build_spec


@pytest.fixture
def spec(tmp_path: Path) -> ExperimentSpec:
    return spec_of(tmp_path)


def spec_of(storage: Path, **changes: Any) -> ExperimentSpec:
    search = {"space": {"lr": "uniform(0, 1)"}}
    fields = {"name": "far", "trainable": "elsewhere", "search": search, "num_samples": 4}
    return build_spec({**fields, "storage": str(storage), **changes})


def test_its_spec_names_no_code_and_goes_to_text_and_back(spec: ExperimentSpec) -> None:
    assert code_named(spec.model_dump(mode="json")) == []
    assert ExperimentSpec.from_text(spec.to_yaml()) == spec
    assert validated(spec).scheduler == validate(spec).scheduler
    assert validated(validate(spec)) == validate(spec)


def test_its_folder_has_the_spec_that_it_goes_on_with(spec: ExperimentSpec, tmp_path: Path) -> None:
    whole = validated(spec)
    create(whole)
    folder = ExperimentFolder(spec.folder.rename(tmp_path / "renamed"))
    found = recorded(folder, Extension())
    assert found.name == "renamed"
    assert found.replace(name="far") == whole.replace(storage=found.storage)
    longer = recorded(folder, Extension(add_samples=3, time_budget_s=60))
    assert (longer.num_samples, longer.time_budget_s) == (7, 60)
    assert longer.scheduler == whole.scheduler


def test_an_earlier_experiment_that_cannot_serve_leaves_no_folder(tmp_path: Path) -> None:
    search = {"strategy": "bohb", "space": {"lr": "uniform(0, 1)"}}
    spec = validated(spec_of(tmp_path, search=search, warm_start="none"))
    with pytest.raises(UsageError, match="no experiment 'none'"):
        create(spec)
    assert not spec.folder.exists()


REFUSED = "trials of trainable 'elsewhere' run elsewhere.*drive it by tuner.AskTell or by `tuner s"


def test_what_trains_here_refuses_it_before_anything_starts(spec: ExperimentSpec) -> None:
    with pytest.raises(UsageError, match=REFUSED):
        run_experiment(spec)
    assert not spec.folder.exists()
    create(validated(spec))
    with pytest.raises(UsageError, match=REFUSED):
        resume_experiment(spec.folder)


def test_the_command_line_shows_its_plan_and_refuses_to_run_it(
    spec: ExperimentSpec, tmp_path: Path
) -> None:
    (tmp_path / "far.yaml").write_text(spec.to_yaml())
    shown = call("validate", str(tmp_path / "far.yaml")).stdout
    assert "Each trial   10 epochs\n" in shown
    assert "At once      as many as ask\n" in shown
    refused = call("run", str(tmp_path / "far.yaml")).exception
    assert re.search(REFUSED, str(refused))
    create(validated(spec))
    assert re.search(REFUSED, str(call("resume", str(spec.folder)).exception))


@pytest.mark.parametrize(
    ("changes", "key"), [({"training": {"x": 1}}, "training"), ({"resources": {"gpus": 1}}, "reso")]
)
def test_what_has_no_meaning_elsewhere_is_refused(
    tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(SpecError, match=f"1 fault:\n  {key}"):
        validated(spec_of(tmp_path, **changes))
