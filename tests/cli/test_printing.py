"""What commands print is text without control characters."""

import json

from tuner.cli.printing import format_json, warn


def test_json_escapes_every_control_character():
    text = format_json({"name": "a\x1b\x7f"})
    assert text == '{\n  "name": "a\\u001b\\u007f"\n}'
    assert json.loads(text) == {"name": "a\x1b\x7f"}


def test_warn_writes_plain_text_to_stderr(capsys):
    warn("a\x1b[31mb")
    assert capsys.readouterr() == ("", "a [31mb\n")
