"""The JSON answers of the server, and errors as refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tuner.errors import (
    ExperimentError,
    NameTakenError,
    NoUsableTrialError,
    SearchClosedError,
    TunerError,
)
from tuner.service.watch import UnknownNameError


class Json(Response):
    """A JSON answer in ASCII: a name may contain characters that UTF-8 cannot encode."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def build_refusal(
    status: int, reason: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    return Json({"error": reason}, status_code=status, headers=headers)


RETRY_S = "2"  # after which a client may ask a closed search again, which opens it
_STATUSES = {
    UnknownNameError: 404,
    NameTakenError: 409,
    NoUsableTrialError: 409,
    SearchClosedError: 503,
    ValueError: 400,
    ExperimentError: 503,
    OSError: 503,
}


def _render_error(request: Request, error: Exception) -> Response:
    """The message of a TunerError, or of a storage's OSError."""
    # Below ask-tell this process drives: what fails there is not the request
    kinds = (
        {ExperimentError: 503, **_STATUSES}
        if "/ask-tell/" in request.url.path
        else _STATUSES
    )
    status = next(
        (code for kind, code in kinds.items() if isinstance(error, kind)), 500
    )
    headers = {"Retry-After": RETRY_S} if isinstance(error, SearchClosedError) else {}
    return build_refusal(status, str(error), headers=headers)


async def _render_faults(request: Request, error: Exception) -> Response:
    """The faults of parameters and body, in one line."""
    assert isinstance(error, RequestValidationError)
    faults = (
        f"{'.'.join(map(str, fault['loc'][1:])) or 'the body'}: "
        + fault["msg"].removeprefix("Value error, ")
        for fault in error.errors()
    )
    return build_refusal(400, "; ".join(faults))


async def _render_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return build_refusal(error.status_code, str(error.detail), headers=error.headers)


ERRORS: dict[int | type[Exception], Any] = {
    TunerError: _render_error,
    OSError: _render_error,
    RequestValidationError: _render_faults,
    HTTPException: _render_http_error,
}
