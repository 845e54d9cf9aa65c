"""Warm start: which trials of an earlier experiment are given, as what, and what is told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from synthetic import TRAINABLE, Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.planning.validation import ValidatedSpec, settled
from tuner.search.searchers._background import BackgroundSearch
from tuner.search.warm_start import load_warm_start, warm_start_of
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.strategies import SEARCHERS

SPACE = {"lr": "loguniform(0.001, 1)", "momentum": "uniform(0, 1)"}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """Five trials: completed, stopped, failed, lost with its node, and one that still runs."""
    folder = make_folder(
        tmp_path / "first",
        search={"strategy": "random", "space": SPACE},
        training={"model": "cnn", "dataset": "digits", "width": 8},
    )
    writer = Writer(folder)
    writer.trial(0, [0.5, 0.6, 0.7], config={"lr": 0.1, "momentum": 0.5})
    writer.trial(1, [0.2], config={"lr": 0.01, "momentum": 0.9}, end="stopped")
    writer.trial(2, [0.9], config={"lr": 0.9, "momentum": 0.1}, error=("nan", "m"))
    writer.trial(3, [0.4], config={"lr": 0.2, "momentum": 0.1}, error=("node_lost", "m"))
    writer.trial(4, [0.4], config={"lr": 0.3, "momentum": 0.1}, end=None)
    writer.kill()
    return folder


def spec(earlier: Path, **changes: Any) -> ExperimentSpec:
    search = {"strategy": "hyperopt", "space": SPACE, "startup": 2, **changes.pop("search", {})}
    return build_spec(
        {
            "name": "second",
            "search": search,
            "training": {"model": "cnn", "dataset": "digits", "width": 8},
            "objective": {"metric": "val_accuracy", "mode": "max"},
            "trainable": TRAINABLE,
            "scheduler": {"max_t": 10},
            "num_samples": 4,
            "storage": str(earlier.parent),
            "warm_start": "first",
            **changes,
        }
    )


def test_finished_trials_are_given_with_their_values_at_each_epoch(earlier: Path) -> None:
    warm_start = warm_start_of(spec(earlier))
    assert warm_start is not None
    assert [(t.trial_id, t.values, t.failed) for t in warm_start.trials] == [
        ("00000", ((1, 0.5), (2, 0.6), (3, 0.7)), False),
        ("00001", ((1, 0.2),), False),
        ("00002", ((1, 0.9),), True),
    ]
    assert warm_start.trials[0].config == {"lr": 0.1, "momentum": 0.5}
    assert warm_start.notes == ("given 3 of the 3 finished trials of first",)
    assert warm_start_of(spec(earlier, warm_start=None)) is None
    assert warm_start_of(spec(earlier, warm_start=str(earlier), storage="elsewhere")) == warm_start


def test_what_does_not_match_is_named_for_each_hyperparameter(earlier: Path) -> None:
    search = {"space": {"lr": "loguniform(0.05, 1)", "width": "choice([4, 8])", "k": 3}}
    training = {"model": "net", "dataset": "digits", "norm": "group"}
    warm_start = warm_start_of(
        spec(earlier, search=search, training=training, scheduler={"max_t": 9})
    )
    assert warm_start is not None
    assert [t.config for t in warm_start.trials] == [
        {"lr": 0.1, "width": 8, "k": 3},
        {"lr": 0.9, "width": 8, "k": 3},
    ]
    assert warm_start.notes == (
        "given 2 of the 3 finished trials of first",
        "momentum: is not searched here, its values are left out",
        "width: was not searched there, its value was 8",
        "lr: 1 trial lies outside of loguniform(0.05, 1), left out",
        "training.model: was 'cnn', is 'net'",
        "training.norm: was 'the default', is 'group'",
        "epochs of a trial: was 10, is 9",
    )


def test_where_nothing_matches_every_reason_is_told(earlier: Path) -> None:
    with pytest.raises(SpecError) as refused:
        warm_start_of(spec(earlier, search={"space": {**SPACE, "depth": "randint(1, 4)"}}))
    assert (
        "warm_start: none of the 3 finished trials of first can be given; "
        "depth: was not searched there, so its value is not known"
    ) in str(refused.value)
    objective = {"metric": "f1", "mode": "max"}
    with pytest.raises(SpecError, match="2 without a value of 'f1', left out"):
        warm_start_of(
            spec(earlier, objective=objective, search={"space": {"lr": "uniform(0, 0.5)"}})
        )
    with pytest.raises(UsageError, match="no experiment 'firts'"):
        warm_start_of(spec(earlier, warm_start="firts"))


def test_a_search_that_neither_learns_nor_skips_is_refused(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = spec(earlier).model_dump(mode="json")
    random = SEARCHERS.settings("random")
    monkeypatch.setattr(random, "skips", False)
    with pytest.raises(SpecError) as refused:
        build_spec({**raw, "search": {"strategy": "random", "space": SPACE}})
    assert [str(fault) for fault in refused.value.faults] == [
        "warm_start: (--from) needs a search that learns from trials, or leaves out what was "
        "tried, got 'random'"
    ]


GRID = {"lr": "choice([0.1, 0.01, 0.9])", "momentum": "choice([0.5, 0.9, 0.1])"}


def skipping(earlier: Path, strategy: str = "grid", **changes: Any) -> ValidatedSpec:
    search = {"strategy": strategy, "space": GRID, **changes.pop("search", {})}
    raw = spec(earlier).model_dump(mode="json")
    return settled(
        build_spec(
            {**raw, "search": search, "num_samples": changes.pop("num_samples", 9), **changes}
        )
    )


@pytest.mark.parametrize("strategy", ["grid", "random"])
def test_what_was_tried_is_skipped_by_a_search_that_does_not_learn(
    earlier: Path, strategy: str
) -> None:
    second = skipping(earlier, strategy, num_samples=8)
    warm_start = warm_start_of(second)
    assert warm_start is not None
    assert warm_start.notes == (
        "2 of the 3 finished trials of first are not tried again",
        "1 that failed there may be tried again",
    )
    assert warm_start.left_out(second.search) == 2
    assert second.trials == 8
    second.leave_out(2)
    assert second.trials == 7
    search = second.search.build(0)
    warm_start.add_to(search)
    given = [search.suggest(f"{number:05}") for number in range(7)]
    assert {"lr": 0.1, "momentum": 0.5} not in given
    assert {"lr": 0.9, "momentum": 0.1} in given  # which failed
    assert search.suggest("00007") == "FINISHED"
    second.folder.mkdir()
    assert load_warm_start(second) == warm_start


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"model": "cnn", "dataset": "digits", "width": 4}},
        {"training": {"model": "cnn", "dataset": "digits", "width": 8, "norm": "group"}},
        {"scheduler": {"max_t": 11}},
        {"search": {"seeds": [1, 2]}},
    ],
)
def test_what_would_be_trained_otherwise_is_tried_again(
    earlier: Path, changes: dict[str, Any]
) -> None:
    second = skipping(earlier, **changes)
    warm_start = warm_start_of(second)
    assert warm_start is not None
    assert warm_start.left_out(second.search) == 0
    assert warm_start.notes[:3] == (
        "0 of the 3 finished trials of first are not tried again",
        "1 that failed there may be tried again",
        "2 that were trained otherwise there may be tried again",
    )


def test_a_constant_there_and_a_hyperparameter_here_are_the_same_value(earlier: Path) -> None:
    training = {"model": "cnn", "dataset": "digits", "data_dir": "elsewhere"}
    space = {**GRID, "width": "choice([8, 16])"}
    second = skipping(earlier, training=training, search={"space": space})
    warm_start = warm_start_of(second)
    assert warm_start is not None
    assert warm_start.left_out(second.search) == 2


def test_what_is_no_cell_of_a_grid_is_not_left_out_of_it(earlier: Path) -> None:
    second = skipping(earlier, search={"space": SPACE, "points": 3})
    warm_start = warm_start_of(second)
    assert warm_start is not None
    assert [t.tried for t in warm_start.trials] == [True, True, False]
    assert warm_start.left_out(second.search) == 0
    configs = [{"lr": 0.01, "momentum": 0.9}, {"lr": 0.5, "momentum": 0.5}]
    given = skipping(earlier, search={"space": SPACE, "configs": configs})
    assert warm_start.left_out(given.search) == 1
    forbidden = skipping(earlier, search={"forbid": ["lr == 0.1"]})
    assert warm_start.left_out(forbidden.search) == 1


def test_a_search_of_which_all_was_tried_is_refused(earlier: Path) -> None:
    space = {"lr": "choice([0.1])", "momentum": 0.5}
    with pytest.raises(SpecError, match="all 1 configs were tried in first; warm_start=null"):
        warm_start_of(skipping(earlier, search={"space": space}))


def test_a_warm_start_is_saved_in_the_folder(earlier: Path) -> None:
    second = spec(earlier)
    second.folder.mkdir()
    warm_start = load_warm_start(second)
    assert warm_start == warm_start_of(second)
    shutil.rmtree(earlier)
    assert load_warm_start(second) == warm_start
    (second.folder / "warm_start.json").write_text('{"name": "first", "trials": [1]}')
    with pytest.raises(UsageError, match=r"warm_start\.json is damaged: TypeError"):
        load_warm_start(second)
    assert load_warm_start(spec(earlier, name="third", warm_start=None)) is None


def suggested(search: BackgroundSearch, trial_id: str) -> dict[str, Any]:
    while (config := search.suggest(trial_id)) is None:
        search.settle()
    return config


@pytest.mark.parametrize("strategy", ["bayesopt", "bohb", "hyperopt"])
def test_the_searcher_begins_with_its_model_and_says_so(tmp_path: Path, strategy: str) -> None:
    writer = Writer(make_folder(tmp_path / "first", search={"strategy": "random", "space": SPACE}))
    for number in range(30):
        config = {"lr": 10 ** (-number / 10), "momentum": number % 7 / 7}
        epochs = 3 if number % 3 == 0 else 1
        value = 1 - abs(number - 15) / 30  # the best lr is 10 ** -1.5
        end = "completed" if epochs == 3 else "stopped"
        writer.trial(number, [value] * epochs, config=config, end=end)
    writer.end()
    settings: dict[str, Any] = {"random_share": 0} if strategy == "bohb" else {}
    second = spec(
        writer.folder, search={"strategy": strategy, "space": SPACE, "startup": 4, **settings}
    )

    def searcher() -> BackgroundSearch:
        found = second.search.build(0, objective=second.objective, max_t=3)
        assert isinstance(found, BackgroundSearch)
        return found

    search = searcher()
    warm_start = warm_start_of(second)
    assert warm_start is not None
    warm_start.add_to(search)
    configs = [suggested(search, f"{number:05}") for number in range(5)]
    assert {search.origin(f"{number:05}") for number in range(5)} == {"warm"}
    assert sum(0.003 < config["lr"] < 0.3 for config in configs) >= 4
    for number in range(4):
        result = {"val_accuracy": 0.5, "training_iteration": 1}
        search.on_trial_result(f"{number:05}", result)
    suggested(search, "00005")
    assert search.origin("00005") == "model"  # by now it would be asked anyway
    cold = searcher()
    suggested(cold, "00000")
    assert cold.origin("00000") == "random"
