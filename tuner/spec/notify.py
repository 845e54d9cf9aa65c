"""Targets of notifications: URLs, which may hold `${NAME}`, or `exec:COMMAND`.

Paths of URLs are hidden in what is written: webhooks have their secret there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.errors import UsageError
from tuner.spec.settings import bad_value

COMMAND = "exec:"
_HIDDEN = "***"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/]\S*")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_TARGET = re.compile(rf"{COMMAND}.*\S.*|{_URL.pattern}|{_VARIABLE.pattern}\S*")
_RULE = "must be a URL, https://HOST/PATH or ${VARIABLE}, or a command, exec:COMMAND"


def valid_target(target: str) -> str:
    """`target`. Raises FaultsError for an invalid one."""
    if not target.isprintable() or not _TARGET.fullmatch(target):
        raise bad_value(_RULE, target)
    return target


def is_web(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def is_apprise(target: str) -> bool:
    return not target.startswith((COMMAND, "${")) and not is_web(target)


def is_hidden(target: str) -> bool:
    """Whether `hidden` has removed the target's secrets."""
    return not target.startswith(COMMAND) and target.endswith(_HIDDEN)


def runs_or_reads(target: str) -> bool:
    return target.startswith(COMMAND) or _VARIABLE.search(target) is not None


def hidden(target: str) -> str:
    """A target without what may be a secret, to be written and shown.

    >>> hidden("https://hooks.slack.com/services/T0/B0/secret"), hidden("slack://secret")
    ('https://hooks.slack.com/***', 'slack://***')
    >>> hidden("https://hooks.slack.com/${SLACK_PATH}"), hidden("http://127.0.0.1:8000")
    ('https://hooks.slack.com/${SLACK_PATH}', 'http://127.0.0.1:8000')
    """
    if runs_or_reads(target):
        return target
    scheme, _, address = target.partition("://")
    host = address.partition("/")[0]
    if not is_web(target) or set("@?#") & set(host):
        return f"{scheme}://{_HIDDEN}"
    return target if address.rstrip("/") == host else f"{scheme}://{host}/{_HIDDEN}"


def filled(target: str, environment: Mapping[str, str]) -> str:
    """A URL with its variables filled in. Raises UsageError for an unset variable or no URL."""
    if target.startswith(COMMAND):
        return target
    missing = [name for name in _VARIABLE.findall(target) if not environment.get(name)]
    if missing:
        raise UsageError(f"notify: {target} needs ${missing[0]} in the environment: set it")
    url = _VARIABLE.sub(lambda match: environment[match[1]], target)
    if not _URL.fullmatch(url):
        raise UsageError(f"notify: {hidden(target)} is no URL once its variables are filled in")
    return url
