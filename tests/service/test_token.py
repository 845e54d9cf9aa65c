"""The token: a new one each time, unless one is set or kept."""

import os
import re
import stat

import pytest

from tuner.errors import UsageError
from tuner.service.token import VARIABLE, token_of

OWN = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The user's state folder, of which there is nothing yet."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tuner"


def test_it_is_another_each_time_and_written_nowhere(state):
    first, second = token_of(is_kept=False), token_of(is_kept=False)
    assert first != second
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", first)
    assert not state.exists()


def test_that_of_the_environment_is_taken_out_of_it(state, monkeypatch):
    monkeypatch.setenv(VARIABLE, OWN)
    assert token_of(is_kept=True) == OWN
    assert VARIABLE not in os.environ
    assert not state.exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("secret-7", "must have 32 to 200 characters, .*; it has 8: "),
        ("a" * 201, "it has 201: "),
        (f"{OWN} x", "it has others: "),
        (f"{OWN}&a=b", "it has others: "),
        (f"{OWN}\n", "it has others: "),
    ],
)
def test_one_that_is_no_secret_or_no_part_of_a_url_is_refused_and_not_shown(
    monkeypatch, given, told
):
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(UsageError, match=told) as refused:
        token_of(is_kept=False)
    assert str(refused.value).startswith(f"the token in ${VARIABLE} ")
    assert given not in str(refused.value)


def test_one_that_is_kept_is_the_same_at_each_start_and_its_users_alone(state):
    before = os.umask(0)
    try:
        first = token_of(is_kept=True)
    finally:
        os.umask(before)
    assert token_of(is_kept=True) == first != token_of(is_kept=False)
    (file,) = state.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_file_that_others_can_read_or_that_is_no_plain_one_is_refused(state):
    first = token_of(is_kept=True)
    (file,) = state.iterdir()
    file.chmod(0o640)
    with pytest.raises(UsageError, match="is not yours alone: remove it"):
        token_of(is_kept=True)
    file.rename(state / "elsewhere")
    file.symlink_to(state / "elsewhere")
    with pytest.raises(UsageError, match=r"cannot be kept in .*: it is a symbolic link"):
        token_of(is_kept=True)
    file.unlink()
    assert token_of(is_kept=True) != first


def test_a_file_that_was_cut_short_is_refused(state):
    token_of(is_kept=True)
    (file,) = state.iterdir()
    file.write_text("abc")
    with pytest.raises(UsageError, match=rf"the token in {file} must have .*; it has 3: "):
        token_of(is_kept=True)
