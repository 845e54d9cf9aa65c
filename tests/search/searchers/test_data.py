"""What the records of trials tell a model."""

from __future__ import annotations

import pytest

from tuner.search.searchers.data import Data, data_of
from tuner.search.searchers.records import Record, Records
from tuner.space.domains import parse_space
from tuner.space.encoding import Encoding

ENCODING = Encoding(parse_space({"x": "uniform(0, 1)"}))


def data(*reports: dict[int, float], maximised: bool = False, max_t: int | None = None) -> Data:
    records = Records()
    records.own = {
        str(i): Record({"x": (i + 0.5) / len(reports)}, "random", reports=reported)
        for i, reported in enumerate(reports)
    }
    return data_of(records, ENCODING, maximised=maximised, max_t=max_t)


def test_trials_without_a_value_are_pending() -> None:
    found = data({1: 2.0}, {})
    assert found.u_ND.tolist() == [[0.25]]
    assert found.pending_PD.tolist() == [[0.75]]
    assert found.live_N.tolist() == [True]


def test_less_is_better_for_the_model_whatever_the_mode() -> None:
    assert data({1: 3.0}, maximised=True).curves == [{1: -3.0}]


@pytest.mark.parametrize(("max_t", "epoch"), [(10, 10), (None, 4)])
def test_a_value_of_a_whole_trial_counts_at_its_last_epoch(max_t: int | None, epoch: int) -> None:
    assert data({0: 7.0}, {4: 1.0}, max_t=max_t).curves[0] == {epoch: 7.0}


def test_of_no_trials_there_is_nothing_to_know() -> None:
    found = data()
    assert (found.u_ND.shape, found.pending_PD.shape, found.failed_ND.shape) == ((0, 1),) * 3
    assert len(found.loss_N) == 0


def test_a_search_stops_early_once_a_trial_is_over_before_another() -> None:
    old, young = Record({"x": 0.1}, "random"), Record({"x": 0.2}, "random")
    records = Records()
    records.own = {"a": old, "b": young}

    def stops_early() -> bool:
        return data_of(records, ENCODING, maximised=False, max_t=None).stops_early

    assert not stops_early()
    old.reports, young.reports = {1: 1.0, 2: 0.5}, {1: 2.0}
    assert not stops_early()  # the younger one still runs
    young.end()
    assert stops_early()
    young.reports[2] = 1.0
    assert not stops_early()
