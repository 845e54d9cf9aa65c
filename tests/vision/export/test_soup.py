"""One model of several trials, of real classifiers on the digits."""

import pytest
import torch
from handed import CONFIG, REFITS, read_card, trained
from synthetic import Writer, make_folder, read_document

import tuner
from tuner.errors import UsageError
from tuner.spec.sections import Objective
from tuner.vision.ensemble import Ensemble
from tuner.vision.export.evaluate import evaluate_export
from tuner.vision.export.read import load_model, read_export
from tuner.vision.export.soup import Candidate, Soup, choose_ingredients, soup

LIMITED = {"metric": "val_loss", "mode": "min", "limits": ["parameters <= 1e9"]}
BY_LOSS = {"objective": LIMITED}
LOSS, ACCURACY = (
    Objective(metric="val_loss", mode="min"),
    Objective(metric="val_accuracy"),
)


def chosen(values, objective):
    """The greedy soup by the value of each combination."""
    return choose_ingredients(
        3, lambda trials: values["".join(map(str, trials))], objective
    )


def test_greedy_adds_what_does_not_make_the_soup_worse():
    assert chosen({"0": 0.9, "01": 0.8, "02": 0.9}, ACCURACY) == (0, 2)
    assert chosen({"0": 0.5, "01": 0.4, "012": 0.4}, LOSS) == (0, 1, 2)
    assert chosen({"0": 0.5, "01": float("nan"), "02": 0.6}, LOSS) == (0,)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((0.5, 0.5, 0.5), "single"),
        ((0.5, 0.4, 0.4), "soup"),
        ((0.5, 0.4, 0.3), "ensemble"),
        ((0.5, float("nan"), 0.6), "single"),
    ],
)
def test_chosen_is_the_best_on_the_validation_split_and_of_equals_the_simplest(
    values, kind
):
    kinds = zip(("single", "soup", "ensemble"), values, strict=True)
    candidates = tuple(
        Candidate(k, ("00000",), {"val_loss": value}) for k, value in kinds
    )
    assert Soup("s", LOSS, candidates, {}).chosen.kind == kind


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        ("parameters <= 4000", "ensemble"),
        ("parameters <= 3000", "single"),
        ("train_loss <= 100", "single"),
    ],
)
def test_chosen_keeps_the_limits(limit, kind):
    measured = {"val_loss": 0.5, "parameters": 2000, "train_loss": 1}
    combined = {"val_loss": 0.4, "parameters": 4000}
    single = Candidate("single", ("00000",), measured)
    ensemble = Candidate("ensemble", ("00000", "00001"), combined)
    limited = Objective(metric="val_loss", mode="min", limits=[limit])
    assert Soup("s", limited, (single, ensemble), {}).chosen.kind == kind


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soup") / "digits"
    configs = [{**CONFIG, "lr": lr} for lr in (0.3, 0.29, 0.28)]
    return trained(folder, configs=configs, spec=BY_LOSS)


def test_soup_measures_the_best_trial_a_soup_and_an_ensemble(search):
    done = soup(search, top=3)
    single, mixed, ensemble = done.candidates
    ids = tuple(trial.trial_id for trial in search.top(3))
    assert (single.trials, ensemble.trials) == (ids[:1], ids)
    assert set(mixed.trials) <= set(ids)
    recorded = search.describe_best()["metrics"]
    assert single.metrics["val_accuracy"] == pytest.approx(recorded["val_accuracy"])
    assert single.metrics["val_loss"] <= recorded["val_loss"]  # calibrated
    assert mixed.metrics["val_loss"] <= single.metrics["val_loss"]
    assert mixed.metrics["parameters"] == single.metrics["parameters"]
    assert ensemble.metrics["parameters"] == 3 * single.metrics["parameters"]
    assert done.left_out == {}


def test_soup_of_trials_with_splits_of_their_own_is_refused(snapshot, tmp_path):
    results = trained(tmp_path / "x", resplit=True)
    with snapshot.raises(UsageError):
        soup(results)


def forced(monkeypatch, kind):
    def chosen(done):
        return next(each for each in done.candidates if each.kind == kind)

    monkeypatch.setattr(Soup, "chosen", property(chosen))


def test_export_of_a_soup_is_the_average_with_new_statistics(
    search, tmp_path, monkeypatch
):
    # Whatever the validation says: these models begin with the same weights and differ little
    forced(monkeypatch, "soup")
    done = soup(search, tmp_path / "model", top=2)
    assert done.chosen.trials == tuple(trial.trial_id for trial in search.top(2))
    export = read_export(tmp_path / "model")
    combined = export.config.combined
    assert combined.how == "soup"
    assert tuple(m.trial_id for m in combined.members) == done.chosen.trials
    members = [
        torch.load(search.best_checkpoint(search.trial(t)).path)["model"]
        for t in done.chosen.trials
    ]
    for name, tensor in export.load_weights().items():
        mean = torch.stack([member[name].double() for member in members]).mean(0)
        if name.endswith(("running_mean", "running_var")):
            assert not torch.equal(tensor, mean.float())
        elif not name.endswith("num_batches_tracked"):
            assert torch.equal(tensor, mean.float())
    metrics = read_document(tmp_path / "model/metrics.json")
    assert (metrics["metrics"], metrics["test"]) == (done.chosen.metrics, None)
    text = "A soup: the average of the weights of the models of 2 trials"
    assert text in read_card(tmp_path / "model")


def test_export_of_an_ensemble_loads_predicts_and_converts(
    search, tmp_path, monkeypatch
):
    forced(monkeypatch, "ensemble")
    configs = [{**CONFIG, "width": width} for width in (4, 8)]
    results = trained(tmp_path / "widths", configs=configs, spec=BY_LOSS)
    done = soup(results, tmp_path / "model", top=2, formats=["torch-export"])
    best, other = (trial.trial_id for trial in results.top(2))
    assert done.left_out == {
        other: "not in the soup: another network or other shapes than the best's"
    }
    assert (done.candidates[1].trials, done.chosen.trials) == ((best,), (best, other))
    model = load_model(tmp_path / "model")
    assert isinstance(model, Ensemble)
    x_NCHW = torch.randn(2, 1, 8, 8)
    program = torch.export.load(tmp_path / "model/model.pt2").module()
    assert torch.allclose(program(x_NCHW), model(x_NCHW), atol=1e-5)
    assert evaluate_export(read_export(tmp_path / "model"))["images"] == 360
    text = "An ensemble: the mean of the probabilities of the models of 2 trials"
    assert text in read_card(tmp_path / "model")


def test_soup_of_trials_that_take_other_pixels_leaves_them_out(tmp_path):
    configs = [CONFIG, {**CONFIG, "lr": 0.001, "dtype": "float64"}]
    results = trained(tmp_path / "x", configs=configs, spec=BY_LOSS)
    done = soup(results, top=5)
    assert done.left_out == {"00001": "not combined: other pixels than the best's"}
    assert done.chosen.kind == "single"


def test_soup_measures_trials_of_other_views_as_the_best_evaluates(tmp_path):
    views = {"test_time_flip": True, "vertical_flip": True}
    configs = [{**CONFIG, "lr": 0.3, **views}, {**CONFIG, "lr": 0.001}]
    results = trained(tmp_path / "x", configs=configs, spec=BY_LOSS)
    done = soup(results, tmp_path / "model", top=5)
    assert done.left_out == {}
    assert done.candidates[2].trials == ("00000", "00001")
    pixels = read_export(tmp_path / "model").config.input
    assert (pixels.mirrored, pixels.upside_down) == (True, True)


def test_soup_of_what_cannot_be_combined_is_refused(snapshot, search, tmp_path):
    writer = Writer(make_folder(tmp_path / "own"))
    writer.trial(0, [0.5])
    writer.end()
    with snapshot.raises(UsageError):
        soup(writer.results)
    spec = {"metric": "epochs_trained", "refits": REFITS}
    refit = trained(tmp_path / "refit", spec=spec, train_on="train+validation")
    with snapshot.raises(UsageError):
        tuner.soup(refit)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").touch()
    with snapshot.raises(UsageError):
        soup(search, tmp_path / "full")


def test_a_soup_of_trials_that_lack_a_limited_metric_is_the_best_trial(tmp_path):
    configs = [{**CONFIG, "lr": lr} for lr in (0.3, 0.29)]
    spec = {"objective": {**LIMITED, "limits": ["train_loss <= 100"]}}
    done = soup(trained(tmp_path / "x", configs=configs, spec=spec), top=2)
    single, mixed, _ = done.candidates
    assert mixed.trials == single.trials
