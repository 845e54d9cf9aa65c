"""The application: the page, what it asks for, and what keeps it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.resources import files
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from tuner.places import default_storage
from tuner.service import api, ask_tell
from tuner.service.access import Access, Guard, Json
from tuner.service.detail import Reports
from tuner.service.live import Live
from tuner.service.openapi import description
from tuner.service.watch import Experiments

_PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.svg": ("page.svg", "image/svg+xml"),
}


class Application(NamedTuple):
    """The ASGI application, and what ends its streams."""

    asgi: Starlette
    live: Live


def application(storage: str | None, access: Access) -> Application:
    """The server of a storage, for who has `access`."""
    live = Live(Experiments(storage))
    routes = [
        *(_file(path, *what) for path, what in _PAGE.items()),
        *api.routes(),
        Route("/api/events", live.stream),
        Mount(ask_tell.PLACE, routes=ask_tell.routes(storage or default_storage())),
    ]
    app = Starlette(
        routes=[*routes, Route("/api/openapi.json", _described(routes))],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers=api.ERRORS,
        lifespan=_looking(live),
    )
    app.state.experiments, app.state.reports = live.experiments, Reports()
    return Application(app, live)


def _looking(live: Live) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        looking = asyncio.create_task(live.run())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    return lifespan


def _file(path: str, name: str, media_type: str) -> Route:
    content = (files("tuner.service") / "page" / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(path, answer)


def _described(routes: Sequence[BaseRoute]) -> Callable[[Request], Awaitable[Response]]:
    async def described(request: Request) -> Response:
        """This description."""
        return Json(description(routes))

    return described
