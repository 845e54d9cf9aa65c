"""Warm start: which trials of an earlier experiment are used, as what, and with which notes."""

import shutil

import pytest
from synthetic import TRAINABLE, Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.search.preparation import Plan
from tuner.search.warm_start import build_warm_start, load_warm_start
from tuner.spec.experiment import build_spec
from tuner.spec.validation import settle_spec

SPACE = {"lr": "loguniform(0.001, 1)", "momentum": "uniform(0, 1)"}
GRID = {"lr": "choice([0.1, 0.01, 0.9])", "momentum": "choice([0.5, 0.9, 0.1])"}
TRAINING = {"model": "cnn", "dataset": "digits", "width": 8}


@pytest.fixture
def earlier(tmp_path):
    """Five trials: completed, stopped, failed, lost with its node, and one that still runs."""
    search = {"strategy": "random", "space": SPACE}
    writer = Writer(make_folder(tmp_path / "first", search=search, training=TRAINING))
    for number, (lr, momentum, values, how) in enumerate(
        [
            (0.1, 0.5, [0.5, 0.6, 0.7], {}),
            (0.01, 0.9, [0.2], {"end": "stopped"}),
            (0.9, 0.1, [0.9], {"error": ("nan", "m")}),
            (0.2, 0.1, [0.4], {"error": ("node_lost", "m")}),
            (0.3, 0.1, [0.4], {"end": None}),
        ]
    ):
        writer.trial(number, values, config={"lr": lr, "momentum": momentum}, **how)
    writer.kill()
    return writer.folder


def spec_of(earlier, **changes):
    search = {
        "strategy": "hyperopt",
        "space": SPACE,
        "startup": 2,
        **changes.pop("search", {}),
    }
    return build_spec(
        {
            "name": "second",
            "search": search,
            "training": TRAINING,
            "objective": {"metric": "val_accuracy", "mode": "max"},
            "trainable": TRAINABLE,
            "scheduler": {"max_t": 10},
            "num_samples": 4,
            "storage": str(earlier.parent),
            "warm_start": "first",
            **changes,
        }
    )


def skipping(earlier, strategy="grid", search=None, num_samples=9, **changes):
    """The spec of a search that does not learn."""
    raw = spec_of(earlier).model_dump(mode="json")
    search = {"strategy": strategy, "space": GRID, **(search or {})}
    return settle_spec(
        build_spec({**raw, "search": search, "num_samples": num_samples, **changes})
    )


def test_warm_start_has_finished_trials_of_an_experiment_by_name_or_path(earlier):
    warm_start = build_warm_start(spec_of(earlier))
    assert [trial.trial_id for trial in warm_start.trials] == [
        "00000",
        "00001",
        "00002",
    ]
    assert warm_start.notes == ("3 of the 3 finished trials of first are given",)
    assert build_warm_start(spec_of(earlier, warm_start=None)) is None
    named = spec_of(earlier, warm_start=str(earlier), storage="elsewhere")
    assert build_warm_start(named) == warm_start


def test_warm_start_takes_trials_that_have_not_measured_what_is_limited(earlier):
    objective = {"metric": "val_accuracy", "mode": "max", "limits": "ms < 20"}
    given = build_warm_start(spec_of(earlier, objective=objective)).trials
    assert [len(trial.values) for trial in given[:2]] == [3, 1]


def test_warm_start_notes_each_hyperparameter_that_does_not_match(snapshot, earlier):
    search = {"space": {"lr": "loguniform(0.05, 1)", "width": "choice([4, 8])", "k": 3}}
    training = {"model": "net", "dataset": "digits", "norm": "group"}
    changes = {"search": search, "training": training, "scheduler": {"max_t": 9}}
    warm_start = build_warm_start(spec_of(earlier, **changes))
    assert [t.config for t in warm_start.trials] == [
        {"lr": 0.1, "width": 8, "k": 3},
        {"lr": 0.9, "width": 8, "k": 3},
    ]
    snapshot("\n".join(warm_start.notes))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"search": {"space": {**SPACE, "depth": "randint(1, 4)"}}}, SpecError),
        (
            {
                "objective": {"metric": "f1", "mode": "max"},
                "search": {"space": {"lr": "uniform(0, 0.5)"}},
            },
            SpecError,
        ),
        ({"warm_start": "firts"}, UsageError),
    ],
)
def test_warm_start_without_a_match_is_refused_with_every_reason(
    earlier, changes, error, snapshot
):
    with snapshot.raises(error):
        build_warm_start(spec_of(earlier, **changes))


@pytest.mark.parametrize("strategy", ["grid", "random"])
def test_add_to_a_search_that_does_not_learn_skips_tried_configs(earlier, strategy):
    second = skipping(earlier, strategy, num_samples=8)
    warm_start = build_warm_start(second)
    assert warm_start.notes == (
        "2 of the 3 finished trials of first are not tried again",
    )
    assert warm_start.count_skipped(second.search) == 2
    assert (second.trials, Plan(second, warm_start=warm_start).trials) == (8, 7)
    search = second.search.build(0)
    warm_start.apply(search)
    configs = [search.suggest(f"{number:05}") for number in range(7)]
    assert {"lr": 0.1, "momentum": 0.5} not in configs
    assert {"lr": 0.9, "momentum": 0.1} in configs  # which failed
    assert search.suggest("00007") == "FINISHED"
    second.folder.mkdir()
    assert load_warm_start(second) == warm_start


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {**TRAINING, "width": 4}},
        {"training": {**TRAINING, "norm": "group"}},
        {"scheduler": {"max_t": 11}},
        {"search": {"seeds": [1, 2]}},
    ],
)
def test_left_out_counts_no_config_that_would_be_trained_otherwise(earlier, changes):
    second = skipping(earlier, **changes)
    warm_start = build_warm_start(second)
    assert warm_start.count_skipped(second.search) == 0


def test_warm_start_that_has_tried_every_config_is_refused(snapshot, earlier):
    space = {"lr": "choice([0.1])", "momentum": 0.5}
    with snapshot.raises(SpecError):
        build_warm_start(skipping(earlier, search={"space": space}))


def test_load_warm_start_saves_it_in_the_folder(snapshot, earlier):
    second = spec_of(earlier)
    second.folder.mkdir()
    warm_start = load_warm_start(second)
    assert warm_start == build_warm_start(second)
    shutil.rmtree(earlier)
    assert load_warm_start(second) == warm_start
    (second.folder / "warm_start.json").write_text('{"name": "first", "trials": [1]}')
    with snapshot.raises(UsageError, varying={r"\d+ validation errors.*": "REASON"}):
        load_warm_start(second)
    assert load_warm_start(spec_of(earlier, name="third", warm_start=None)) is None


def add_experiment(storage, name, lrs, *, curves=None, **spec):
    """An experiment on other data. curves: values of each trial; None: they fall with `lrs`."""
    fields = {
        "search": {"strategy": "random", "space": SPACE},
        "training": {**TRAINING, "dataset": name},
        **spec,
    }
    writer = Writer(make_folder(storage / name, **fields))
    for number, lr in enumerate(lrs):
        values = curves[number] if curves else [0.9 - number / 10] * 2
        reports = [{fields.get("metric", "val_accuracy"): value} for value in values]
        writer.trial(number, reports, config={"lr": lr, "momentum": 0.5})
    writer.end()


@pytest.mark.parametrize(("choose", "best"), [("estimate", 0.2), ("best_epoch", 0.02)])
def test_several_experiments_choose_their_best_as_they_were_recorded(
    earlier, choose, best
):
    objective = {"metric": "val_accuracy", "mode": "max", "choose": choose}
    # Steady and lucky
    curves = [[0.7] * 19 + [0.66], [*[0.5] * 10, 0.9, *[0.5] * 8, 0.68]]
    add_experiment(
        earlier.parent, "other", [0.2, 0.02], curves=curves, objective=objective
    )
    warm_start = build_warm_start(spec_of(earlier, warm_start=["first", "other"]))
    assert [config["lr"] for config in warm_start.portfolio] == [best]
    note = "2 trials of the same task count as trials of this search"
    assert warm_start.notes[1] == note


@pytest.mark.parametrize(
    "strategy", ["random", "hyperopt", "bohb", "bayesopt", "mixed"]
)
def test_several_experiments_are_saved_so_that_a_resume_suggests_the_same(
    earlier, strategy
):
    add_experiment(earlier.parent, "other", [0.2, 0.02])
    changes = {"warm_start": ["first", "other"], "num_samples": 12}
    if strategy == "random":
        second = skipping(earlier, strategy, search={"space": SPACE}, **changes)
    else:
        second = spec_of(earlier, search={"strategy": strategy}, **changes)
    second.folder.mkdir()
    load_warm_start(second)
    shutil.rmtree(earlier.parent / "other")
    add_experiment(earlier.parent, "other", [0.4])

    def complete(search, number, config):
        result = {"val_accuracy": config["lr"], "training_iteration": 10}
        search.on_trial_complete(f"{number:05}", result)

    def resume(configs):
        search = second.search.build(0, objective=second.objective, max_t=10)
        load_warm_start(second).apply(search)
        for number, config in enumerate(configs):
            if hasattr(search, "take_trial"):
                search.take_trial(f"{number:05}", config)
            complete(search, number, config)
        return search

    configs = []
    undisturbed = resume([])
    for number in range(6):
        configs.append(resume(configs).suggest(f"{number:05}"))
        assert undisturbed.suggest(f"{number:05}") == configs[-1]
        complete(undisturbed, number, configs[-1])
    assert configs[0] == {"lr": 0.2, "momentum": 0.5}
    assert undisturbed.origin("00000") == "initial"  # the config to beat
    assert {"lr": 0.1, "momentum": 0.5} not in configs


def test_complete_storage_leaves_out_what_does_not_match(snapshot, earlier):
    storage = earlier.parent
    add_experiment(storage, "other", [0.2, 0.02])
    add_experiment(storage, "losses", [0.2], metric="val_loss", mode="min")
    alien = {"strategy": "random", "space": {"depth": "randint(1, 5)"}}
    writer = Writer(make_folder(storage / "alien", search=alien))
    writer.trial(0, [0.5], config={"depth": 2})
    writer.end()
    (storage / "broken").mkdir()
    (storage / "broken/experiment.json").write_text("{")
    space = {**SPACE, "layers": "randint(1, 6)"}
    second = spec_of(earlier, warm_start=".", num_samples=9, search={"space": space})
    warm_start = build_warm_start(second)
    assert warm_start.portfolio[0]["layers"] == 3
    assert warm_start.name == "first and other"
    snapshot("\n".join(sorted(warm_start.notes)))


def test_empty_storage_begins_without(snapshot, tmp_path):
    second = spec_of(tmp_path / "first", warm_start=".")
    assert build_warm_start(second).notes == (
        "0 configs of 0 experiments begin the search",
    )
    add_experiment(tmp_path, "losses", [0.2], metric="val_loss", mode="min")
    with snapshot.raises(SpecError):
        build_warm_start(spec_of(tmp_path / "first", warm_start=["losses", "."]))


def test_grid_skips_the_configs_of_several_experiments(earlier):
    add_experiment(earlier.parent, "other", [0.9, 0.1], training=TRAINING)
    warm_start = build_warm_start(skipping(earlier, warm_start=["first", "other"]))
    assert warm_start.portfolio == ()
    assert warm_start.notes[0] == "4 trials of the same task are not tried again"
    assert warm_start.count_skipped(skipping(earlier).search) == 3


@pytest.mark.parametrize("strategy", ["bayesopt", "bohb", "hyperopt"])
def test_add_to_a_learning_search_begins_with_its_model(tmp_path, strategy):
    lrs = [10 ** (-number / 10) for number in range(30)]
    # The best lr is 10 ** -1.5
    curves = [[1 - abs(number - 15) / 30] * 3 for number in range(30)]
    add_experiment(tmp_path, "first", lrs, curves=curves, training=TRAINING)
    search = {"strategy": strategy, "startup": 4}
    if strategy == "bohb":
        search["random_share"] = 0
    second = spec_of(tmp_path / "first", search=search)
    search, cold = (
        second.search.build(0, objective=second.objective, max_t=3) for _ in range(2)
    )
    build_warm_start(second).apply(search)
    configs = [search.suggest(number) for number in "01234"]
    assert {search.origin(number) for number in "01234"} == {"warm"}
    assert sum(0.003 < config["lr"] < 0.3 for config in configs) >= 4
    for number in "0123":
        result = {"val_accuracy": 0.5, "training_iteration": 1}
        search.on_trial_result(number, result)
    search.suggest("5")
    assert search.origin("5") == "model"  # its reports alone would be enough
    cold.suggest("0")
    assert cold.origin("0") == "random"
