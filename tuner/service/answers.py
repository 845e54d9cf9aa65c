"""What the server answers with: JSON, and refusals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

LARGEST = 1 << 20  # bytes of what is posted


class Json(Response):
    """A JSON answer in ASCII: names, and what was asked, may hold what UTF-8 cannot."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def refusal(status: int, reason: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says why there is none."""
    return Json({"error": reason}, status_code=status, headers=headers)
