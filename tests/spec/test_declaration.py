"""A user's Learner that declares itself is checked, shown and pinned as the one that ships is."""

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import Field

from tuner.errors import Fault, SpecError
from tuner.search.preparation import prepare
from tuner.spec.declaration import Declaration, PinnedData, load_declaration
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.plan import describe_plan
from tuner.spec.settings import FaultsError, Settings
from tuner.spec.validation import Machine, validate
from tuner.testing import DeclarationContract


class LineSettings(Settings):
    lr: float = Field(0.1, gt=0, description="the learning rate")
    points: int = Field(64, ge=2, description="points on the line")
    line: list[int] = Field([0, 1], description="its ends")


class LineDeclaration(Declaration):
    settings = LineSettings
    metrics = ("val_loss", "val_accuracy")

    def check(self, values: Any, spec: ExperimentSpec) -> list[Fault]:
        faults = super().check(values, spec)
        if not faults and values.get("lr", 0) > 1 and values.get("points", 64) < 8:
            faults.append(
                Fault("points", "must be at least 8 for lr above 1", values["points"])
            )
        return faults

    def settle(self, spec: ExperimentSpec) -> ExperimentSpec:
        return spec.model_copy(update={"training": {"points": 32, **spec.training}})

    def notes(self, spec: ExperimentSpec) -> Iterator[str]:
        yield f"{spec.constants['points']} points"

    def data(self, spec: ExperimentSpec) -> dict[str, Any]:
        return {"title": "a line"}

    def pin_data(
        self, spec: ExperimentSpec, *, download: bool, here: bool
    ) -> PinnedData | None:
        if not download:
            return None
        return PinnedData(
            {"line": [0, 1]}, "digest", {"images": 9}, ("it is straight",)
        )


class Line:
    declaration: Any = LineDeclaration()

    def __init__(
        self, config: Any, constants: Any, *, device: Any, rank: int, world_size: int
    ):
        pass

    def step(self) -> dict[str, float]:
        return {"val_loss": 0}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Undeclared(Line):
    declaration = None


class Wrong(Line):
    declaration = LineDeclaration  # the class in place of an instance


class TestLineDeclaration(DeclarationContract):
    learner = Line
    spec: ClassVar = {"search": {"space": {"lr": "uniform(0.1, 2)"}}, "num_samples": 1}
    refused: ClassVar = {"training.points": 1, "search.space.lr": -1}


def spec_of(trainable=Line, **changes):
    search = {"space": {"lr": "uniform(0.1, 2)"}}
    raw = {"trainable": trainable, "search": search, "num_samples": 2, **changes}
    return validate(raw, machine=Machine(cpus=4))


def faults_of(**changes):
    with pytest.raises(SpecError) as refused:
        spec_of(**changes)
    return [str(fault) for fault in refused.value.faults]


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"points": 1}, "search": {"space": {"lr": "uniform(0, 1)"}}},
        {"training": {"points": 4}},
        {"training": {"point": 4}},
        {"objective": {"metric": "loss"}},
    ],
)
def test_validate_checks_a_users_settings_at_every_extreme(snapshot, changes):
    snapshot("\n".join(faults_of(**changes)))


def test_settings_that_fail_together_alone_are_forbidden_or_refused():
    space = {"lr": "choice([0.1, 2])", "points": "choice([64, 4])"}
    [fault] = faults_of(search={"space": space})
    assert fault.startswith(
        "search.space.points: must be at least 8 for lr above 1 (as with lr=2, "
    )
    swapped = {"lr": "choice([2, 0.1])", "points": "choice([4, 64])"}
    for each in (space, swapped):
        allowed = spec_of(search={"space": each, "forbid": ["lr > 1 and points < 8"]})
        assert [*allowed.search.space] == ["lr", "points"]
    [fault] = faults_of(search={"space": swapped, "forbid": ["lr < 1 and points > 8"]})
    assert fault.startswith("search.space.points: must be at least 8 for lr above 1")
    first = [{"points": 4}, {"lr": 0.1, "points": 4}, {"lr": 2, "points": 4}]
    search = {"space": space, "points_to_evaluate": first}
    assert faults_of(search=search)[1].startswith(
        "search.points_to_evaluate.2.points: "
    )
    begun = {"trainable": Line, "search": {"space": space}, "num_samples": 2}
    assert validate(begun, recorded=True).num_samples == 2


def test_plan_shows_the_data_and_the_notes_that_are_declared():
    plan = describe_plan(spec_of(), here=False)
    assert (plan["data"], plan["notes"]) == ({"title": "a line"}, ["32 points"])
    plan = describe_plan(spec_of(Undeclared), here=False)
    assert "data" not in plan
    assert plan["notes"] == []


def test_pin_data_fixes_the_constants_of_all_trials():
    plan = prepare(spec_of(), machine=Machine(cpus=4))
    assert plan.pin_data(download=False).data is None
    assert plan.trained_spec == plan.spec
    pinned = plan.pin_data()
    assert plan.data is None
    assert pinned.pin_data() is pinned
    assert pinned.trained_spec.constants == {**plan.spec.constants, "line": [0, 1]}
    assert pinned.data.doubts == ("it is straight",)
    assert (pinned.data.content, pinned.data.baseline) == ("digest", {"images": 9})


def test_constants_have_a_data_folder_that_does_not_depend_on_the_trial(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    spec = spec_of(Undeclared, training={"data_dir": "data"})
    for here in (True, False):
        constants = load_declaration(spec.trainable).constants(spec, here=here)
        assert constants["data_dir"] == str(tmp_path / "data")
    assert spec.constants["data_dir"] == "data"


def test_declaration_of_an_attribute_that_is_none_is_refused(snapshot):
    with snapshot.raises(FaultsError):
        load_declaration(f"{__name__}:Wrong")
    [fault] = faults_of(trainable=Wrong)
    assert fault.startswith("trainable: must have a tuner.spec.declaration.Declaration")


def test_declaration_beside_a_learner_is_found_without_importing_it(
    tmp_path, monkeypatch
):
    package = tmp_path / "declares_beside"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "learner.py").write_text("raise RuntimeError('imported')")
    (package / "declaration.py").write_text(
        "from tuner.spec.declaration import Declaration\n"
        "DECLARATION = Declaration()\nDECLARATION.metrics = ('mine',)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_declaration("declares_beside.learner:Learner").metrics == ("mine",)
    assert "declares_beside.learner" not in sys.modules
