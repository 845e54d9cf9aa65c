"""The record that advice goes by."""

import numpy as np
from confirmed import FOUND, searched
from recorded import losses, record

from tuner.reporting.advice import advise
from tuner.reporting.advice.record import SearchRecord


def test_record_places_trials_in_the_unit_cube_with_their_costs():
    made = record(lambda u_D, rng: losses(float(u_D[0])), 20)
    assert made.u_ND.shape == (20, 2)
    assert np.ptp(made.cost_N - made.u_ND[:, 0]) < 1e-9  # by as much as the curves fall
    assert made.list_leaders(0.1, 1) == list(np.argsort(made.u_ND[:, 0])[:2])


def test_record_cost_of_a_failed_trial_is_infinite_and_no_leader():
    made = record(lambda u_D, rng: losses(np.nan if u_D[0] > 0.5 else 0.1), 20)
    failed = made.u_ND[:, 0] > 0.5
    assert np.array_equal(~np.isfinite(made.cost_N), failed)
    assert np.array_equal(made.diverged_N, failed)
    assert len(made.list_leaders(1, 1)) == 20 - failed.sum()


def test_record_counts_a_trial_that_ends_worse_than_it_began_as_diverged():
    def metrics(u_D, rng):
        return [*losses(0.1, 3), {"val_loss": 9.0}] if u_D[0] > 0.8 else losses(0.1, 4)

    made = record(metrics, 40)
    assert np.array_equal(made.diverged_N, made.u_ND[:, 0] > 0.8)


def test_record_takes_harder_folds_for_no_divergence():
    def metrics(u_D, rng):
        fold_E = 0.5 + 0.01 * u_D[0] + 0.05 * rng.normal(size=5)
        return [{"val_loss": float(fold_E[:n].mean())} for n in range(1, 6)]

    folds = {"training": {"folds": 5, "fold_epochs": 2}, "scheduler": {"max_t": 5}}
    objective = {"metric": "val_loss", "from_epoch": 5}
    made = record(metrics, 60, **folds, objective=objective)
    assert made.diverged_N.mean() < 0.05
    assert "diverged" not in {finding.kind for finding in advise(made)}


def test_record_of_results_names_what_its_commands_open(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path))
    results = searched(tmp_path / "digits", FOUND)
    (results.folder / "trials/00001").mkdir(parents=True)
    (results.folder / "trials/00001/test.json").write_text("{}")
    made = SearchRecord.build(results)
    assert (made.name, made.tested) == ("digits", ("00001",))
    elsewhere = searched(tmp_path / "in here" / "digits", FOUND)
    assert SearchRecord.build(elsewhere).name == f"'{elsewhere.folder}'"
