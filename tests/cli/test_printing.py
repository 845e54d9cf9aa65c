"""What commands print is text without control characters."""

from tuner.cli.printing import format_json, warn


def test_json_escapes_every_control_character():
    assert format_json({"name": "a\x1b\x7f"}) == '{\n  "name": "a\\u001b\\u007f"\n}'


def test_warn_writes_plain_text_to_stderr(capsys):
    warn("a\x1b[31mb")
    assert capsys.readouterr() == ("", "a [31mb\n")
