"""What trials print: each in its own capped log, and nowhere else."""

import re

import pytest

from tuner.trial.trial_log import LIMIT

pytestmark = pytest.mark.slow

PRINTED = 100_000_000  # bytes, by a trial, at least


def flooding(searched, ways, workers):
    return searched(
        trainable="faulty:Flooding",
        search={"strategy": "grid", "space": {"how": f"grid_search({ways!r})"}},
        scheduler={"max_t": 2, "grace_period": 2},
        resources={"workers": workers},
        max_concurrent=1,  # so that one process runs them all
    )


def assert_flood(path, who):
    text = path.read_text()
    assert LIMIT // 2 < path.stat().st_size <= LIMIT
    assert text.startswith(f"begin {who} 1\n")
    assert text.endswith(f"end {who} 2\n")
    assert not re.search(f"(begin|end) (?!{who})", text)  # of no other trial, of no other rank
    [missing] = re.findall(r"\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n", text)
    assert int(missing) >= PRINTED - LIMIT


@pytest.mark.parametrize("workers", [1, 2])
def test_a_flood_is_cut_and_the_terminal_stays_clean(searched, capfd, workers):
    ways = ["prints", "writes", "child"] if workers == 1 else ["prints"]
    results = flooding(searched, ways, workers)
    for trial in results.trials.values():
        assert (trial.status, trial.last_epoch) == ("completed", 2)
        who = f"{trial.config['how']}, rank 0 of {workers}"
        assert_flood(results.log_path(trial), who)
    folder = results.log_path(trial).parent
    if workers == 2:
        assert_flood(folder / "log.rank1.txt", who.replace("0 of", "1 of"))
    terminal = "".join(capfd.readouterr())
    assert len(terminal) < 10_000
    assert "begin" not in terminal
