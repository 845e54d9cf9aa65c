"""What routers take from a request."""

from served import Served
from stories import search


def test_trials_are_the_best_ones_in_any_order(tmp_path):
    search(tmp_path / "digits", 12)
    served = Served(tmp_path)
    best = {row["trial_id"] for row in served.get("digits", "best", top=3).json()}
    answer = served.get("digits", "trials", top=3, sort="lr", limit=2)
    rows = answer.json()
    assert answer.headers["X-Total-Count"] == "3"
    assert {row["trial_id"] for row in rows} < best
    assert rows[0]["lr"] <= rows[1]["lr"]
