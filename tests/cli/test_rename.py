"""tuner rename."""

from commands import call

from tuner.errors import UsageError


def test_an_experiment_has_its_new_name_everywhere(digits):
    done = call("rename", "digits", "mine")
    assert done.stdout == f"{digits.with_name('mine')}\n"
    assert call("show", "mine").stdout.startswith("mine: completed")
    assert "digits" not in call("ls").stdout
    assert isinstance(call("show", "digits").exception, UsageError)
