"""The application: the page, its endpoints, and the events by which it stays up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from importlib.metadata import distribution, version
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

from tuner.errors import TunerError
from tuner.experiment.verbs import VERBS
from tuner.places import default_storage
from tuner.service import api, ask_tell
from tuner.service.access import Access, Guard
from tuner.service.watch import Experiments

_WEEK_S = 7 * 24 * 3600
_BEAT_S = 15.0  # between two signs of life: proxies may close a silent connection


def application(
    storage: str | None, access: Access, *, agents: Mapping[str, float] | None = None
) -> FastAPI:
    """The server of a storage. `state.live` ends its streams. agents: limits; None: no MCP."""
    live = Live(Experiments(storage))
    routes: list[BaseRoute] = [Route("/verbs.js", _verbs), Route("/plotly.js", _plotly)]
    answering: Callable[[], Any] = nullcontext
    if agents is not None:
        from tuner.service import mcp  # takes 0.4 s

        more, answering = mcp.serve_tools(mcp.Tools(storage, live.experiments, agents))
        routes += more

    @asynccontextmanager
    async def looking(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(live.run())
        try:
            async with answering():
                yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = FastAPI(
        title="tuner serve",
        version=version("tuner"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers=api.ERRORS,
        responses={"default": {"description": 'refused: {"error": REASON}'}},
        lifespan=looking,
    )
    app.include_router(api.router)
    app.include_router(ask_tell.router)
    app.get("/api/events", response_class=StreamingResponse)(live.stream)
    app.mount("/", StaticFiles(packages=[("tuner.service", "page")], html=True))
    app.state.live, app.state.experiments = live, live.experiments
    app.state.searches = ask_tell.Searches(storage or default_storage())
    return app


async def _verbs(request: Request) -> Response:
    """The verbs of `tuner control`, as a module for the page's script."""
    verbs = json.dumps([verb._asdict() for verb in VERBS.values()])
    return Response(f"export default {verbs};\n", media_type="text/javascript")


async def _plotly(request: Request) -> Response:
    """The plotly.js of reports."""
    path = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
    headers = {"Cache-Control": f"max-age={_WEEK_S}"}
    return FileResponse(str(path), media_type="text/javascript", headers=headers)


class Live:
    """Updates `experiments` while there are listeners, and sends them the changes."""

    def __init__(self, experiments: Experiments) -> None:
        self.experiments = experiments
        self._listeners = 0
        self._has_listeners = asyncio.Event()
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
                await asyncio.sleep(self.experiments.pace.running)
                await self._has_listeners.wait()

    async def close(self) -> None:
        """End every stream."""
        self._is_over = True
        await self._wake()

    async def stream(self, experiment: str | None = None) -> StreamingResponse:
        """Server-sent events: `experiments` that changed, and the requested `experiment`.

        Each of `experiments` is as `ls --json` has it; `experiment` is as `show --json` has it, or
        has an `error` if it cannot be read.
        """
        headers = {"X-Accel-Buffering": "no"}
        events = self._events(experiment)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, name: str | None) -> AsyncIterator[str]:
        self._listeners += 1
        self._has_listeners.set()
        seen, opened = 0, -1
        try:
            while not self._is_over:
                version = self.experiments.version
                if version != seen:
                    yield _event("experiments", self.experiments.since(seen))
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
                self._has_listeners.clear()

    def _shown(self, name: str, seen: int) -> tuple[int, dict[str, Any]]:
        """An experiment's version, and unless it is `seen`, how it stands."""
        try:
            results = self.experiments.opened(name)
            with results.lock:
                same = results.version == seen
                return results.version, {} if same else api.shown(results)
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
