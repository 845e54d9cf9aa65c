"""Experiments that retrain the best configs, and when one is made; integration/ runs them."""

from typing import ClassVar

import pytest
from confirmed import FOUND, lengthened, refitted, retrained, searched
from synthetic import Writer, make_folder

from tuner.errors import NoUsableTrialError, SpecError, UsageError
from tuner.experiment.results.confirmation import choose_model, show_json
from tuner.experiment.results.results import Results
from tuner.search.retraining import (
    build_confirm_spec,
    build_refit_spec,
    confirm,
    refit,
    run_requested_refit,
)
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.declaration import Declaration
from tuner.spec.validation import validate

NO_RAY = "127.0.0.1:1"  # nothing listens there


@pytest.fixture
def search(tmp_path):
    return searched(
        tmp_path / "digits",
        FOUND,
        trainable=IMAGE_CLASSIFIER,
        time_budget_s=60,
        seed=7,
        stop={"target": 0.99},
    )


def test_confirming_spec_trains_leaders_completely_with_fresh_seeds(snapshot, search):
    spec = build_confirm_spec(search, top=2, seeds=3)
    assert (spec.trials, spec.epochs) == (6, 10)
    snapshot(spec.to_yaml())


def test_confirming_spec_replaces_a_searched_seed(tmp_path):
    folder = make_folder(
        tmp_path / "x",
        search={
            "strategy": "random",
            "space": {"lr": "uniform(0, 1)", "seed": "choice([2, 3])"},
        },
        scheduler=None,
        training={"model": "cnn", "dataset": "digits", "epochs": 2},
    )
    writer = Writer(folder)
    writer.trial(0, [0.9], config={"lr": 0.5, "seed": 2})
    writer.trial(1, [0.8], config={"lr": 0.5, "seed": 3})
    writer.end()
    spec = build_confirm_spec(Results(folder), top=2, seeds=2)
    assert spec.search.model_dump()["configs"] == ({"lr": 0.5},)
    assert spec.search.model_dump()["seeds"] == (4, 5)
    assert (spec.scheduler, spec.epochs) == (None, 2)


def test_confirming_spec_of_an_unsuitable_search_is_refused(snapshot, tmp_path, search):
    failed = Writer(make_folder(tmp_path / "failed"))
    failed.trial(0, [], error=("nan", "m"))
    space = {"seed": "choice([1])"}
    seeds = Writer(
        make_folder(tmp_path / "seeds", search={"strategy": "random", "space": space})
    )
    seeds.trial(5, [0.9], config={"seed": 1})
    seeds.end()
    for results in (retrained(search, [[0.9, 0.8]]), failed.results, seeds.results):
        with snapshot.raises(UsageError):
            build_confirm_spec(results, top=1, seeds=1)
    failed.end()
    with pytest.raises(NoUsableTrialError):
        build_confirm_spec(failed.results, top=1, seeds=1)


def test_confirm_twice_reads_the_first_confirmation(snapshot, search):
    before = retrained(search, [[0.9, 0.8], [0.7, 0.7]])
    assert confirm(search, top=2, seeds=2).results.folder == before.folder
    with snapshot.raises(UsageError):
        confirm(search, top=2, seeds=3, address=NO_RAY)
    with snapshot.raises(UsageError):
        confirm(lengthened(search), top=2, seeds=2, address=NO_RAY)


def test_refitting_spec_trains_the_best_config_to_its_best_epoch_on_the_schedule_of_the_search(
    snapshot, search
):
    spec = build_refit_spec(search, seeds=2)
    # the best epoch of the trial is 2, and the schedule of the search covers 10
    assert (spec.trials, spec.epochs, spec.constants["epochs"]) == (2, 2, 10)
    snapshot(spec.to_yaml())
    assert validate(spec) == spec


def test_refitting_spec_of_a_final_model_trains_all_images(search):
    spec = build_refit_spec(search, final=True)
    assert (spec.training["train_on"], spec.refits.final) == ("all", True)
    assert validate(spec) == spec


def test_confirming_spec_of_folds_keeps_them(tmp_path):
    fields = {"training": {"folds": 2, "fold_epochs": 9}, "scheduler": {"max_t": 2}}
    results = searched(tmp_path / "x", FOUND, **fields, trainable=IMAGE_CLASSIFIER)
    spec = validate(build_confirm_spec(results, top=1, seeds=2))
    assert (spec.epochs, spec.objective.from_epoch) == (2, 2)
    assert spec.training == {**results.spec.training, "resplit": True}


def test_refitting_spec_after_a_confirmation_takes_the_confirmed_model(search):
    confirmation = retrained(search, [[0.90, 0.91], [0.97, 0.96]])
    spec = build_refit_spec(search)
    assert (spec.search.configs, spec.refits.name) == (({"lr": 0.3},), "digits-confirm")
    assert spec.refits.trial_id == confirmation.get_best_trial().trial_id == "00002"
    assert (spec.name, spec.confirms, spec.search.seeds) == ("digits-refit", None, (8,))


def test_refitting_spec_keeps_a_searched_seed_and_length(tmp_path):
    space = {
        "lr": "uniform(0, 1)",
        "seed": "choice([2, 3])",
        "epochs": "choice([4, 6])",
    }
    folder = make_folder(
        tmp_path / "x",
        trainable=IMAGE_CLASSIFIER,
        search={"strategy": "random", "space": space},
    )
    writer = Writer(folder)
    writer.trial(0, [0.9], config={"lr": 0.5, "seed": 3, "epochs": 6})
    writer.end()
    spec = build_refit_spec(Results(folder))
    assert spec.search.configs == ({"lr": 0.5, "epochs": 6},)
    assert (spec.search.seeds, "epochs" in spec.training) == ((3,), False)


def test_refit_of_a_learner_that_declares_none_is_refused(snapshot, tmp_path):
    results = searched(tmp_path / "own", FOUND, trainable="csv:DictReader")
    with snapshot.raises(UsageError):
        refit(results)
    results = searched(tmp_path / "other", FOUND, trainable="confirmed:searched")
    with snapshot.raises(UsageError):
        refit(results)


class AllData(Declaration):
    refit: ClassVar = {"all_data": True}


class Custom:
    declaration = AllData()


def test_refitting_spec_of_a_custom_learner_has_its_constants(tmp_path):
    results = searched(
        tmp_path / "own", FOUND, trainable=f"{__name__}:Custom", training={"a": 1}
    )
    spec = build_refit_spec(results)
    assert spec.training == {"a": 1, "epochs": 10, "all_data": True}


def test_refit_of_an_unended_search_or_a_refit_is_refused(snapshot, tmp_path, search):
    writer = Writer(make_folder(tmp_path / "running", trainable=IMAGE_CLASSIFIER))
    writer.trial(0, [0.5])
    writer.trial(1, [])
    with snapshot.raises(UsageError):
        refit(Results(writer.folder))
    writer.end()
    with snapshot.raises(UsageError):  # it has not reported
        refit(Results(writer.folder), trial_id="1")
    results = refitted(search)
    with snapshot.raises(UsageError):
        refit(results)
    with snapshot.raises(UsageError):
        confirm(results, top=1, seeds=1)


def test_refit_twice_reads_the_first(snapshot, search):
    first = refitted(search)
    assert refit(search).folder == first.folder
    with snapshot.raises(UsageError):
        refit(search, seeds=2, address=NO_RAY)


@pytest.mark.parametrize(
    ("end", "more", "asks", "is_found"),
    [
        ("completed", {}, True, True),
        ("interrupted", {}, True, False),  # it has not come to its end
        ("completed", {0.5: 0.99}, True, False),  # another trial is the best one
        ("completed", {}, False, False),
    ],
)
def test_complete_refit_of_the_best_trial_is_the_model(
    tmp_path, end, more, asks, is_found
):
    search = searched(
        tmp_path / "digits", FOUND, trainable=IMAGE_CLASSIFIER, refit=asks
    )
    name = refitted(search, end=end, linked=True).name
    if more:
        writer = Writer(search.folder, resumed=True)
        [(lr, value)] = more.items()
        writer.trial(9, [value], config={"lr": lr})
        writer.end()
    search = Results(search.folder)
    handed_over = choose_model(search)
    assert handed_over.results.name == (name if is_found else search.name)
    assert ("refit" in show_json(search)) == is_found
    assert choose_model(search, "00001").results.name == search.name
    if is_found:
        assert run_requested_refit(search, address=NO_RAY).name == name


def test_refit_without_gpus_of_this_machine_is_refused(snapshot, search):
    with snapshot.raises(SpecError):
        refit(search, cpus=4096)
