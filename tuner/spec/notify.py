"""Targets of notifications: URLs, which may hold `${NAME}`.

Paths of URLs are hidden in what is written: webhooks have their secret there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import ValidationInfo

from tuner.errors import UsageError
from tuner.spec.retired import RECORDED
from tuner.spec.settings import bad_value

_COMMAND = "exec:"  # of earlier versions
_HIDDEN = "***"
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/]\S*")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_TARGET = re.compile(rf"{_URL.pattern}|{_VARIABLE.pattern}\S*")
_RULE = "must be a URL, https://HOST/PATH or ${VARIABLE}"


def check_target(target: str, info: ValidationInfo) -> str:
    """`target`. Raises FaultsError for an invalid one; recorded ones may be commands."""
    if info.context == RECORDED and is_command(target):
        return target
    if not target.isprintable() or not _TARGET.fullmatch(target):
        raise bad_value(_RULE, target)
    return target


def is_command(target: str) -> bool:
    return target.startswith(_COMMAND)


def is_web(target: str) -> bool:
    return target.startswith(("http://", "https://"))


def get_scheme(target: str) -> str:
    """Of a URL; "" if it is in a variable."""
    return target.partition("://")[0] if _URL.match(target) else ""


def is_hidden(target: str) -> bool:
    """Whether `hide_secrets` has removed the target's secrets."""
    return not is_command(target) and target.endswith(_HIDDEN)


def has_variable(target: str) -> bool:
    """Whether it has a variable of the environment in it."""
    return _VARIABLE.search(target) is not None


def hide_secrets(target: str) -> str:
    """A target without what may be a secret, to be written and shown.

    >>> hide_secrets("https://hooks.slack.com/services/T0/B0/secret"), hide_secrets("slack://secret")
    ('https://hooks.slack.com/***', 'slack://***')
    >>> hide_secrets("https://hooks.slack.com/${SLACK_PATH}"), hide_secrets("http://127.0.0.1:8000")
    ('https://hooks.slack.com/${SLACK_PATH}', 'http://127.0.0.1:8000')
    """
    if is_command(target) or has_variable(target):
        return target
    scheme, _, address = target.partition("://")
    host = address.partition("/")[0]
    if not is_web(target) or set("@?#") & set(host):
        return f"{scheme}://{_HIDDEN}"
    return target if address.rstrip("/") == host else f"{scheme}://{host}/{_HIDDEN}"


def resolve_variables(target: str, environment: Mapping[str, str]) -> str:
    """A URL with its variables filled in. Raises UsageError for an unset variable or no URL."""
    missing = [name for name in _VARIABLE.findall(target) if not environment.get(name)]
    if missing:
        raise UsageError(
            f"notify: {target} needs ${missing[0]} in the environment: set it"
        )
    url = _VARIABLE.sub(lambda match: environment[match[1]], target)
    if not _URL.fullmatch(url):
        raise UsageError(
            f"notify: {hide_secrets(target)} is no URL once its variables are filled in"
        )
    return url
