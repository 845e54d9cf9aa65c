"""The experiment that retrains the leaders, and when one is made; integration/ runs it."""

import pytest
from confirmed import lengthened, retrained, searched
from synthetic import Writer, make_folder

from tuner.errors import NoUsableTrialError, UsageError
from tuner.experiment.results.results import Results
from tuner.search import confirm as module
from tuner.search.confirm import confirm, confirming_spec
from tuner.spec.sections import Stop

FOUND = {0.1: 0.90, 0.2: 0.95, 0.3: 0.93, 0.4: 0.80}


@pytest.fixture
def search(tmp_path):
    trainable = "tuner.vision.image_classifier:ImageClassifier"
    return searched(
        tmp_path / "digits",
        FOUND,
        trainable=trainable,
        time_budget_s=60,
        seed=7,
        stop={"target": 0.99},
    )


def test_confirming_spec_trains_leaders_completely_with_fresh_seeds(search):
    spec = confirming_spec(search, top=2, seeds=3)
    assert (spec.name, spec.folder.parent) == ("digits-confirm", search.folder.parent)
    assert spec.search.model_dump(mode="json") == {
        "strategy": "grid",
        "space": {"lr": "loguniform(0.001, 1)"},
        "forbid": [],
        "order": "rows",
        "points": 3,
        "through": None,
        "configs": [{"lr": 0.2}, {"lr": 0.3}],
        "seeds": [8, 9, 10],
    }
    assert (spec.trials, spec.epochs, spec.time_budget_s, spec.num_samples) == (6, 10, None, None)
    assert spec.scheduler is not None
    assert spec.scheduler.grace_period == spec.scheduler.max_t
    assert spec.confirms is not None
    assert spec.confirms.model_dump() == {
        "name": "digits",
        "trials": ("00001", "00002"),
        "values": (0.95, 0.93),
    }
    assert (spec.training, spec.resources) == (search.spec.training, search.spec.resources)
    assert spec.stop == Stop()


def test_confirming_spec_replaces_a_searched_seed(tmp_path):
    folder = make_folder(
        tmp_path / "x",
        search={"strategy": "random", "space": {"lr": "uniform(0, 1)", "seed": "choice([2, 3])"}},
        scheduler=None,
        training={"model": "cnn", "dataset": "digits", "epochs": 2},
    )
    writer = Writer(folder)
    writer.trial(0, [0.9], config={"lr": 0.5, "seed": 2})
    writer.trial(1, [0.8], config={"lr": 0.5, "seed": 3})
    writer.end()
    spec = confirming_spec(Results(folder), top=2, seeds=2)
    assert spec.search.model_dump()["configs"] == ({"lr": 0.5},)
    assert spec.search.model_dump()["seeds"] == (4, 5)
    assert (spec.scheduler, spec.epochs) == (None, 2)


def test_confirming_spec_of_an_unsuitable_search_is_refused(tmp_path, search):
    results = retrained(search, [[0.9, 0.8]])
    with pytest.raises(UsageError, match="digits-confirm confirms digits: name that"):
        confirming_spec(results, top=1, seeds=1)
    failed = Writer(make_folder(tmp_path / "failed"))
    failed.trial(0, [], error=("nan", "m"))
    with pytest.raises(UsageError, match="failed still runs"):
        confirming_spec(Results(failed.folder), top=1, seeds=1)
    failed.end()
    with pytest.raises(NoUsableTrialError):
        confirming_spec(Results(failed.folder), top=1, seeds=1)
    seeds = searched(
        tmp_path / "seeds", {}, search={"strategy": "random", "space": {"seed": "choice([1])"}}
    )
    writer = Writer(seeds.folder, resumed=True)
    writer.trial(5, [0.9], config={"seed": 1})
    writer.end()
    with pytest.raises(UsageError, match="searched nothing but seeds"):
        confirming_spec(Results(seeds.folder), top=1, seeds=1)


def test_confirm_twice_reads_the_first_confirmation(search, monkeypatch):
    def no_ray(*_, **__):
        raise AssertionError("starts Ray")

    monkeypatch.setattr(module.cluster, "connect", no_ray)
    before = retrained(search, [[0.9, 0.8], [0.7, 0.7]])
    assert confirm(search, top=2, seeds=2).results.folder == before.folder
    with pytest.raises(AssertionError, match="starts Ray"):
        confirm(search, top=2, seeds=3)
    with pytest.raises(AssertionError, match="starts Ray"):
        confirm(lengthened(search), top=2, seeds=2)
