"""tuner note."""

import json

from commands import call


def test_a_note_is_written_shown_and_removed(digits):
    assert call("note", "digits").stdout == "no note\n"
    assert call("note", "digits", "a first look").stdout == "a first look\n"
    assert "note: a first look" in call("show", "digits").stdout
    assert "a first look" in call("ls").stdout
    assert json.loads(call("note", "digits", "--json").stdout) == "a first look"
    assert call("note", "digits", "").stdout == "no note\n"
    assert "NOTE" not in call("ls").stdout
