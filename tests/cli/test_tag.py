"""tuner tag."""

import json

from commands import call


def test_tags_are_given_shown_and_taken_off(digits):
    assert call("tag", "digits").stdout == "no tags\n"
    assert call("tag", "digits", "good", "cnn").stdout == "good cnn\n"
    assert json.loads(call("tag", "digits", "good", "--remove", "--json").stdout) == ["cnn"]
    assert "TAGS" in call("ls").stdout
    assert "tags: cnn" in call("show", "digits").stdout
    [found] = json.loads(call("ls", "--tag", "cnn", "--json").stdout)
    assert found["tags"] == ["cnn"]
    assert call("ls", "--tag", "good").stdout == "no experiment matches\n"
