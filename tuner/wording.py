"""Numbers, times and configs in few characters, safe to print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# What a spreadsheet may take for one begins so
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_SUSPECT = re.compile(r"[^\n\t -~]+")  # control characters are among these


def format_number(value: object) -> str:
    """At most four significant digits.

    >>> [format_number(value) for value in (0.99166, 0.0005, 1234567.0, 64, "sgd")]
    ['0.9917', '0.0005', '1.235e+06', '64', 'sgd']
    """
    return f"{value:.4g}" if isinstance(value, float) else clean_text(str(value))


def format_mean(mean: float, standard_error: float | None) -> str:
    """A mean and its standard error, if it has one.

    >>> format_mean(0.14386, 0.00188), format_mean(0.5, None)
    ('0.1439 +- 0.0019', '0.5')
    """
    return (
        format_number(mean)
        if standard_error is None
        else f"{format_number(mean)} +- {standard_error:.2g}"
    )


def summarize_names(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are.

    >>> summarize_names(["a", "b"]), summarize_names(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def format_amount(amount: float, noun: str) -> str:
    """An amount with its noun; of a float at most four significant digits.

    >>> format_amount(1, "CPU"), format_amount(0.25, "GPU"), format_amount(12345, "epoch")
    ('1 CPU', '0.25 GPUs', '12345 epochs')
    """
    shown = f"{amount:.4g}" if isinstance(amount, float) else amount
    return f"{shown} {noun}{'' if amount == 1 else 's'}"


def format_devices(cpus: float, gpus: float = 0) -> str:
    """CPUs and, if there are any, GPUs in words.

    >>> format_devices(1), format_devices(4, 0.5)
    ('1 CPU', '4 CPUs and 0.5 GPUs')
    """
    return format_amount(cpus, "CPU") + (
        f" and {format_amount(gpus, 'GPU')}" if gpus else ""
    )


def format_size(amount: float) -> str:
    """An amount of bytes, in the unit that fits.

    >>> format_size(900), format_size(1536), format_size(3 << 30)
    ('900 B', '1.5 KiB', '3 GiB')
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.4g} {units[0]}"


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds, the two largest that matter.

    >>> format_duration(7.6), format_duration(72), format_duration(3700), format_duration(200000)
    ('8s', '1m 12s', '1h 01m', '55h 33m')
    """
    minutes, s = divmod(round(max(seconds, 0)), 60)
    hours, m = divmod(minutes, 60)
    if hours:
        return f"{hours}h {m:02}m"
    return f"{m}m {s:02}s" if m else f"{s}s"


def parse_duration(text: str) -> float:
    """The seconds of a duration as one writes it. Raises ValueError for what is none.

    >>> parse_duration("1h30m")
    5400.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write 90, 90s, 10m or 1h30m")
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)


def format_time(seconds: float) -> str:
    """Seconds since the epoch as a date and a time of day, here, to the minute."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


def format_config(config: Mapping[str, Any], width: int) -> str:
    """The config in at most `width` characters; whole pairs, then "..." for what is left out.

    >>> format_config({"lr": 0.03125, "width": 32, "optimizer": "sgd"}, 24)
    'lr=0.03125 width=32 ...'
    """
    pairs = [
        f"{clean_text(name)}={format_number(value)}" for name, value in config.items()
    ]
    line = " ".join(pairs)
    while pairs and len(line) > width:
        pairs.pop()
        line = " ".join([*pairs, "..."])
    return line if len(line) <= width else ""


def shorten(text: str, width: int) -> str:
    """The first `width` characters of `text` on one line, "..." at the end where it is cut."""
    line = " ".join(clean_text(text).split())
    return line if len(line) <= width else line[: max(width - 3, 0)] + "..."


def format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line of text for each row, with the columns aligned; the rows have equally many cells.

    >>> format_rows([("A", "B"), ("long", "x")])
    ['A     B', 'long  x']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def format_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """`format_rows` of texts that may be someone else's, below a head."""
    return "\n".join(
        format_rows([tuple(map(clean_text, row)) for row in (head, *rows)])
    )


def list_counts(counts: Mapping[str, int]) -> list[str]:
    """The counts that are not 0, each with its name.

    >>> list_counts({"completed": 3, "failed": 0})
    ['3 completed']
    """
    return [f"{count} {name}" for name, count in counts.items() if count]


def join_sections(sections: Iterable[Sequence[str]]) -> str:
    """The lines of each section that has any, with an empty line between two sections."""
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def join_names(names: Sequence[str]) -> str:
    """Names (at least one) as one phrase of a sentence.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def clean_text(text: str) -> str:
    """`text` with control characters replaced by spaces, safe to print."""
    return "".join(char if char.isprintable() else " " for char in text)


def escape_formula(value: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run.

    A carriage return, which would begin a new cell, becomes a newline, which is quoted.

    >>> escape_formula("=1+1"), escape_formula("-0.5"), escape_formula(-0.5), escape_formula("sgd")
    ("'=1+1", '-0.5', -0.5, 'sgd')
    """
    if not isinstance(value, str):
        return value
    runs = value.startswith(_FORMULA) and not _is_number(value)
    return ("'" * runs + value).replace("\r", "\n")


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def clean_lines(text: str) -> str:
    """The same for text of several lines: these, and tabs, stay."""
    return _SUSPECT.sub(lambda found: clean_text(found[0]), text)


def suggest_install(extra: str) -> str:
    """The command that installs an extra, and keeps torch as it is."""
    hint = " (beside a CPU build of torch see docs/models.md)"
    own_build = extra in ("torchvision", "timm")
    return f"pip install -c constraints.txt 'tuner[{extra}]'{hint if own_build else ''}"


def find_program() -> str:
    """The command that runs this tuner: `tuner` if it is on the PATH, else its path."""
    script = Path(sys.argv[0])
    on_path = shutil.which("tuner")
    is_script = script.name == "tuner" and script.exists()
    if not is_script or (on_path and os.path.samefile(on_path, script)):
        return "tuner"
    return shlex.quote(os.path.relpath(script))
