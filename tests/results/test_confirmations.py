"""Whether a search counts as confirmed, and by what."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confirmed import FOUND, retrained, searched
from synthetic import Writer

from tuner.results.best import best_json, handed_over
from tuner.results.confirmations import confirmation_of, leaders
from tuner.results.results import Results


@pytest.fixture
def search(tmp_path: Path) -> Results:
    return searched(tmp_path / "digits", FOUND)


def test_without_a_finished_confirmation_the_search_stands(search: Results) -> None:
    assert confirmation_of(search) is None
    assert best_json(search)[0]["shown"] == "searched"
    assert handed_over(search).trial_id is None
    results = retrained(search, [[0.9, 0.8]], end=None)
    assert confirmation_of(search) is None
    shutil.rmtree(results.folder)
    assert confirmation_of(search) is None


def test_the_newest_confirmation_counts_while_the_searchs_leader_is_in_it(search: Results) -> None:
    retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    newer = retrained(search, [[0.97, 0.98], [0.91, 0.94]])
    assert newer.name == "digits-confirm-2"
    found = confirmation_of(search)
    assert found is not None
    assert found.chosen.trial_id == "00001"
    writer = Writer(search.folder, resumed=True)
    writer.trial(9, [0.99], config={"lr": 0.7})
    writer.end()
    assert confirmation_of(Results(search.folder)) is None


def test_a_foreign_link_leads_nowhere(search: Results, tmp_path: Path) -> None:
    elsewhere = searched(tmp_path / "other" / "digits", FOUND)
    results = retrained(elsewhere, [[0.88, 0.90]])
    for text in (
        f'{{"experiments": ["../other/{results.name}", "..", 3, "digits"]}}',
        '{"experiments": "digits"}',
        "[]",
        "not JSON",
    ):
        (search.folder / "confirmed.json").write_text(text)
        assert confirmation_of(search) is None


def test_leaders_are_different_configs(tmp_path: Path) -> None:
    search = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8})
    writer = Writer(search.folder, resumed=True)
    writer.trial(7, [0.95], config={"seed": 3, "lr": 0.1})
    writer.end()
    assert [t.trial_id for t in leaders(Results(search.folder), 3)] == ["00007", "00001"]
