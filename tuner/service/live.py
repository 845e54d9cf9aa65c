"""What browsers are told without asking: server-sent events, and the look that they come from.

While nobody listens, nobody looks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tuner.errors import TunerError
from tuner.service.api import shown
from tuner.service.watch import Experiments

_BEAT_S = 15.0  # between two signs of life: what lies between may close what is silent


class Live:
    """Looks at `experiments` for as long as someone listens, and wakes whoever does."""

    def __init__(self, experiments: Experiments) -> None:
        self.experiments = experiments
        self._listeners = 0
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self._is_over = False

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            before = self.experiments.version
            is_more = await run_in_threadpool(self.experiments.look)
            if self.experiments.version != before:
                await self._wake()
            if not is_more:
                await asyncio.sleep(self.experiments.every_s)
                await self._wanted.wait()

    async def close(self) -> None:
        """End every stream."""
        self._is_over = True
        await self._wake()

    async def stream(self, request: Request) -> StreamingResponse:
        """What changes, as it does: `experiments` (of all), and `experiment` (of the one asked).

        Of those that `experiments` tells of, each is as `ls --json` has it; `experiment` is as
        `show --json` has it, with the name of what went wrong where it cannot be read.
        """
        headers = {"X-Accel-Buffering": "no"}
        events = self._events(request.query_params.get("experiment"))
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, name: str | None) -> AsyncIterator[str]:
        self._listeners += 1
        self._wanted.set()
        seen, opened = 0, -1
        try:
            while not self._is_over:
                version = self.experiments.version
                if version != seen:
                    yield _event("experiments", self.experiments.since(seen).as_dict())
                    seen = version
                if name is not None and seen:
                    now, stands = await run_in_threadpool(self._shown, name, opened)
                    if now != opened:
                        yield _event("experiment", stands)
                        opened = now
                if not await self._wait(seen):
                    yield ": beat\n\n"
        finally:
            self._listeners -= 1
            if not self._listeners:
                self._wanted.clear()

    def _shown(self, name: str, known: int) -> tuple[int, dict[str, Any]]:
        """An experiment's version, and unless it is `known`, how it stands."""
        try:
            results = self.experiments.opened(name)
            with results.lock:
                same = results.version == known
                return results.version, {} if same else shown(results)
        except (TunerError, OSError) as error:
            return -2, {"name": name, "error": str(error)}

    async def _wait(self, seen: int) -> bool:
        """Until there is more than what was `seen`, or for _BEAT_S; whether there is."""
        async with self._changed:
            with suppress(TimeoutError):
                news = self._changed.wait_for(
                    lambda: self._is_over or self.experiments.version != seen
                )
                await asyncio.wait_for(news, _BEAT_S)
                return True
        return False

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
