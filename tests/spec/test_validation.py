"""Validation of trainables and machines: refused whole, quickly, and without Ray."""

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from tuner.errors import SpecError
from tuner.experiment.journal import Journal
from tuner.experiment.owner import build_owner
from tuner.experiment.reading import LONGEST
from tuner.spec.experiment import build_spec
from tuner.spec.plain_values import CONFIG_BYTES, CONFIG_LEVELS
from tuner.spec.text import apply_assignments
from tuner.spec.validation import Machine, validate

MACHINE = Machine(cpus=4, gpus=1)
DIGITS: dict[str, Any] = {
    "training": {"model": "cnn", "dataset": "digits"},
    "search": {
        "space": {"lr": "loguniform(1e-3, 1)", "batch_size": "choice([16, 32])"}
    },
    "num_samples": 4,
}
LR = {"lr": "loguniform(1e-3, 1)"}


def with_default_first(**search: Any) -> dict[str, Any]:
    settings = {
        "strategy": "hyperopt",
        "default_first": True,
        **DIGITS["search"],
        **search,
    }
    return {**DIGITS, "search": settings}


def test_default_first_is_the_declared_default_before_other_points():
    space = {**LR, "momentum": "uniform(0, 0.99, prior=0.8)", "optimizer": "sgd"}
    raw = with_default_first(points_to_evaluate=[{"lr": 0.5}], space=space)
    spec = validate(raw, machine=MACHINE)
    first = {"lr": 0.1, "momentum": 0.8, "optimizer": "sgd"}
    assert spec.search.points_to_evaluate == (first, {"lr": 0.5})
    assert validate(spec, machine=MACHINE) == spec
    searcher = spec.search.build(3, objective=spec.objective)
    assert searcher.suggest("00000") == first


@pytest.mark.parametrize(
    ("assignments", "points"),
    [
        ([], ({"lr": 0.1},)),
        (["search.strategy=bohb"], ({"lr": 0.1},)),
        (["search.forbid=[lr == 0.1]"], ()),
        (["search.space.lr=loguniform(0.5, 1)"], ()),
        (["search.space.width=choice([8, 16])"], ()),
        (["search.points_to_evaluate=[{lr: 0.5}]"], ({"lr": 0.5},)),
        (["search.default_first=false"], ()),
    ],
)
def test_default_config_comes_first_where_it_is_one_of_the_space(assignments, points):
    search = {"strategy": "random", "space": LR}
    raw = apply_assignments({**DIGITS, "search": search}, assignments)
    spec = validate(raw, machine=MACHINE)
    assert spec.search.points_to_evaluate == points
    assert validate(spec, machine=MACHINE) == spec
    recorded = validate(raw, machine=MACHINE, recorded=True)
    assert recorded.search == build_spec(raw).search
    one = validate({**raw, "num_samples": 1}, machine=MACHINE)
    assert one.search == recorded.search


@pytest.mark.parametrize(
    "space",
    [{"width": "choice([8, 16])"}, {"lr": "loguniform(0.5, 1)"}],
)
def test_default_first_needs_a_default_inside_each_domain(space, snapshot):
    with snapshot.raises(SpecError):
        validate(with_default_first(space=space), machine=MACHINE)


class GoodLearner:
    metrics = ("val_loss", "f1")

    def __init__(
        self, config: Any, constants: Any, *, device: Any, rank: int, world_size: int
    ):
        pass

    def step(self) -> dict[str, float]:
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class HalfLearner:
    def step(self) -> dict[str, float]:
        return {}


def train(config: dict[str, Any]) -> None:
    pass


def two_arguments(config: dict[str, Any], more: int) -> None:
    pass


class Steps(tune.Trainable):
    """A class of Ray Tune's."""


def faults(**changes):
    with pytest.raises(SpecError) as refused:
        validate({**DIGITS, **changes}, machine=MACHINE)
    return "\n".join(map(str, refused.value.faults))


def test_validated_spec_equals_its_spec():
    spec = build_spec({**DIGITS, "scheduler": {"grace_period": 1}})
    assert validate(spec) == spec
    assert spec == validate(spec)
    assert validate(spec) != spec.replace(seed=1)
    assert validate(spec) != DIGITS


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        ("storage=s3://", "storage"),
        ("storage='s3:'", "storage"),
        ("storage=https://host/x", "storage"),
        ("storage=$HOME/x", "storage"),
        (f"storage={__file__}", "storage"),
        ("search={space: {lr: 'uniform(0.1, 1)'}, forbid: [lr > 0]}", "search.forbid"),
        ("search={space: {flip: 'choice([True])'}, forbid: [flip]}", "search.forbid"),
    ],
)
def test_validate_refuses_a_search_that_cannot_begin(assignment, key):
    with pytest.raises(SpecError) as refused:
        validate(apply_assignments(DIGITS, [assignment]), machine=MACHINE)
    assert [fault.key for fault in refused.value.faults] == [key]


def test_validate_of_a_command_with_a_typo_reports_that_alone():
    changes = {
        "trainable": {"command": "run {lrr}"},
        "objective": {"metric": "m"},
        "training": {},
    }
    with pytest.raises(SpecError) as refused:
        validate({**DIGITS, **changes}, machine=MACHINE)
    assert [fault.key for fault in refused.value.faults] == ["trainable.command"]


def test_validate_settles_grace_period_once():
    few = validate({**DIGITS, "num_samples": 8, "scheduler": {"max_t": 9}})
    assert few.scheduler is not None
    assert few.scheduler.rungs() == ()
    # As a resume with more trials adds to them
    recorded = few.dump_values() | {"num_samples": 80}
    assert validate(recorded).scheduler == few.scheduler
    as_written = few.dump_values(exclude_unset=True) | {"num_samples": 1000}
    decided = validate(as_written).scheduler
    assert decided is not None
    assert decided.rungs() == (1, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"model": "cn"}},
        {"objective": {"metric": "val_los"}},
        {"objective": {"limits": ["lr > 0 and memory_mib < 9", "flops <= 20"]}},
        {"trainable": GoodLearner, "refit": True},
        {"resources": {"cpus": 8}},
        {"resources": {"cpus": 3, "workers": 2}},
        {"resources": {"cpus": 1, "workers": 3}},
        {"trainable": GoodLearner, "resources": {"split": 2}},
        {"trainable": train, "training": {}, "resources": {"workers": 2}},
        {"scheduler": "none"},
        {"trainable": "nowhere:X"},
        {"trainable": "logging.config:dictConfig"},
        {"trainable": HalfLearner, "training": {}},
        {"trainable": "yaml:nodes"},
        {"trainable": two_arguments},
        {"trainable": train},
        {"trainable": Steps},
        {"trainable": Steps, "training": {}, "resources": {"workers": 2}},
        {"search": {"space": {"lr": "uniform(-1, 1)", "batch_size": "choice([1, 2])"}}},
        {"trainable": GoodLearner, "refit": "final"},
        {"refit": "last"},
    ],
)
def test_validate_invalid_value_is_refused(snapshot, changes):
    snapshot(faults(**changes), {r"/\S+/site-packages": "PACKAGES"})


def test_validate_missing_data_dir_is_refused_locally(tmp_path):
    def spec_of(folder: Path | str) -> dict[str, Any]:
        return {"trainable": GoodLearner, "training": {"data_dir": str(folder)}}

    missing = tmp_path / "photos"
    message = f"training.data_dir: must be a folder that exists on this machine, got '{missing}'"
    assert message in faults(**spec_of(missing))
    # A path on each node of a cluster
    validate({**DIGITS, **spec_of(missing)}, machine=None)
    missing.mkdir()
    validate({**DIGITS, **spec_of(missing)}, machine=MACHINE)


PLUGINS = {"trackers": ("lines", "use"), "notifiers": ("pager", "use")}


def test_plugins_of_packages_are_accepted(install):
    install("tuner-lab", "def use(target): ...", **PLUGINS)
    named = {"log": ["lines"], "notify": ["pager://x", "https://host/x"]}
    spec = validate({**DIGITS, **named}, machine=MACHINE)
    assert (spec.log, spec.notify) == (("lines",), ("pager://x", "https://host/x"))


@pytest.mark.parametrize("code", ["import nothing_of_that_name", "def use(): ..."])
def test_broken_and_unknown_plugins_are_refused_together(
    install, uninstall, snapshot, code
):
    uninstall("apprise")
    install("tuner-lab", code, **PLUGINS)
    with snapshot.raises(SpecError):
        validate(
            {**DIGITS, "log": ["lines"], "notify": ["pager://x", "bell://x"]},
            machine=MACHINE,
        )
    with snapshot.raises(SpecError):
        validate({**DIGITS, "log": ["line"]}, machine=MACHINE)


def test_recorded_tracker_of_missing_package_is_shown_and_not_run(snapshot):
    spec = build_spec({**DIGITS, "log": ["lines"]}, recorded=True)
    assert spec.log == ("lines",)
    with snapshot.raises(SpecError):
        validate(spec, machine=MACHINE, recorded=True)
    with pytest.raises(SpecError, match="unknown log 'lines'"):
        validate({**DIGITS, "log": ["lines"]}, machine=MACHINE, recorded=True)


LOG = {**DIGITS, "log": ["wandb"]}


def test_validate_wandb_without_key_is_refused_unless_offline(
    snapshot, tmp_path, monkeypatch, forget
):
    (tmp_path / "wandb.py").write_text("class api:\n    api_key = None\n")
    forget("wandb")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with snapshot.raises(SpecError):
        validate(LOG, machine=MACHINE)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert validate(LOG, machine=MACHINE).log == ("wandb",)


@pytest.mark.parametrize(
    ("assignments", "order"),
    [
        ([], "rows"),
        (["num_samples=9"], "rows"),
        (["num_samples=4"], "spread"),
        (["time_budget_s=60"], "spread"),
        (["search.through={lr: 0.02}"], "spread"),
        (["num_samples=4", "search.order=rows"], "rows"),
    ],
)
def test_validate_settles_grid_order(assignments, order):
    search = {"strategy": "grid", "space": {"lr": "uniform(0.01, 0.1)"}, "points": 9}
    raw = {**DIGITS, "num_samples": None, "search": search}
    spec = validate(apply_assignments(raw, assignments), machine=None)
    assert spec.search.order == order
    assert validate(spec.model_dump(mode="json"), machine=None).search == spec.search


def nested(levels):
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_validate_deepest_config_fits_the_journal(tmp_path):
    deepest = {"a": nested(CONFIG_LEVELS - 1)}
    search = {"strategy": "random", "space": deepest}
    assert validate({**DIGITS, "training": {}, "trainable": train, "search": search})
    with Journal.open(tmp_path) as journal:
        journal.append("experiment_started", resumed=False, owner=build_owner())
        journal.append("trial_started", trial_id="00000", config=deepest)
    assert CONFIG_BYTES < LONGEST


@pytest.mark.parametrize("key", ["search.space", "search.configs.1"])
def test_validate_refuses_too_deep_or_large_configs(key):
    bad = {"a": nested(CONFIG_LEVELS), "b": "x" * CONFIG_BYTES}
    search: dict[str, Any] = {"strategy": "grid", "space": bad}
    if key != "search.space":
        search |= {"space": {"a": 1, "b": 1}, "configs": [{"a": 1, "b": 1}, bad]}
    with pytest.raises(SpecError) as refused:
        validate({"trainable": train, "search": search, "scheduler": {"max_t": 2}})
    deep, large = map(str, refused.value.faults)
    assert deep == f"{key}: must be nested at most 20 levels deep, got 21"
    assert large.startswith(
        f"{key}: must give configs of at most 15,728,640 bytes as JSON"
    )
