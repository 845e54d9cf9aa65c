"""tuner rm."""

from commands import call

from tuner.experiment.journal import Journal


def test_it_asks_and_without_a_terminal_it_refuses(digits):
    done = call("rm", "digits")
    assert "there is no terminal: give --yes" in str(done.exception)
    assert digits.exists()


def test_nothing_is_left(digits):
    done = call("rm", "digits", "--yes")
    assert done.stdout == "removed results/digits\n"
    assert "results/digits: " in done.stderr
    assert list(digits.parent.iterdir()) == []


def test_what_runs_is_refused_before_anything_is_removed(digits, here):
    call("rename", "digits", "other")
    folder = here / "results" / "other"
    with Journal.open(folder):
        done = call("rm", "other", "--yes")
    assert "other is running: end it before it is removed" in str(done.exception)
    assert folder.exists()
