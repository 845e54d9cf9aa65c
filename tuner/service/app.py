"""The application: the page, its endpoints, and the events by which it stays up to date.

Its server has a socket and TLS, prints its URL, and ends on a signal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tuner.errors import TunerError, UsageError, translate_error
from tuner.experiment.results.confirmation import show_json
from tuner.experiment.verbs import VERBS
from tuner.places import find_default_storage
from tuner.service import advice, api, ask_tell, new_searches, views
from tuner.service.access import (
    Access,
    Guard,
    choose_token,
    is_loopback,
    list_host_names,
)
from tuner.service.answers import ERRORS, RETRY_S, build_refusal
from tuner.service.views import describe_experiment
from tuner.service.watch import Experiments
from tuner.signals import catch_signals

_WEEK_S = 7 * 24 * 3600
_BEAT_S = 15.0  # between two signs of life: proxies may close a silent connection
_GRACE_S = 2  # for answers that are being sent when the server ends
_MOST_CONNECTIONS = 512  # at a time; others get 503


def create_application(
    storage: str | None, access: Access, *, agents: Mapping[str, float] | None = None
) -> FastAPI:
    """The server of a storage. `state.live` ends its streams. agents: limits; None: no MCP."""
    live = Live(Experiments(storage))
    routes: list[BaseRoute] = [
        Route("/verbs.js", _serve_verbs),
        Route("/plotly.js", _serve_plotly),
    ]
    answering: Callable[[], Any] = nullcontext
    if agents is not None:
        from tuner.service import mcp  # takes 0.4 s

        more, answering = mcp.serve_tools(mcp.Tools(storage, live.experiments, agents))
        routes += more

    @asynccontextmanager
    async def watch_storage(app: FastAPI) -> AsyncIterator[None]:
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
        middleware=[Middleware(Guard, access=access), Middleware(AnswerAtTheEnd)],
        exception_handlers=ERRORS,
        responses={"default": {"description": 'refused: {"error": REASON}'}},
        lifespan=watch_storage,
    )
    app.include_router(api.router)
    app.include_router(views.router)
    app.include_router(advice.router)
    app.include_router(new_searches.router)
    app.include_router(ask_tell.router)
    app.get("/api/events", response_class=StreamingResponse)(live.stream)
    app.mount("/", StaticFiles(packages=[("tuner.service", "page")], html=True))
    app.state.live = live
    app.state.experiments = live.experiments
    app.state.storage = storage
    app.state.advice = advice.Advice(storage)
    app.state.searches = ask_tell.Searches(storage or find_default_storage())
    return app


class AnswerAtTheEnd:
    """Answers a request that the end of the server cuts short with 503 and Retry-After.

    The server would answer 500, after which a client gives up. The request may have taken effect,
    and does no harm when it is sent again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except asyncio.CancelledError:
            if has_begun or scope["type"] != "http":
                raise
            again = {"Retry-After": RETRY_S}
            await build_refusal(503, "the server ends: ask again", headers=again)(
                scope, receive, send
            )


async def _serve_verbs(request: Request) -> Response:
    """The verbs of `tuner control`, as a module for the page's script."""
    verbs = json.dumps([verb._asdict() for verb in VERBS.values()])
    return Response(f"export default {verbs};\n", media_type="text/javascript")


async def _serve_plotly(request: Request) -> Response:
    path = distribution("plotly").locate_file("plotly/package_data/plotly.min.js")
    headers = {"Cache-Control": f"max-age={_WEEK_S}"}
    return FileResponse(str(path), media_type="text/javascript", headers=headers)


class Live:
    """Updates `experiments` while there are listeners, and sends them the changes."""

    def __init__(self, experiments: Experiments) -> None:
        self.experiments = experiments
        self._listeners = 0
        self._has_listeners = asyncio.Event()
        self._news = asyncio.Event()  # another one for each change
        self._is_over = False

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            before = self.experiments.version
            is_more = await run_in_threadpool(self.experiments.refresh)
            if self.experiments.version != before:
                self._notify_listeners()
            if not is_more:
                await asyncio.sleep(self.experiments.pace.running)
                await self._has_listeners.wait()

    async def close(self) -> None:
        self._is_over = True
        self._notify_listeners()

    async def stream(self, experiment: str | None = None) -> StreamingResponse:
        """Server-sent events: `experiments` that changed, and the requested `experiment`.

        Each of `experiments` is as `ls --json` has it, with its `words`; `experiment` is as
        `show --json` has it, with its `view`, or has an `error` if it cannot be read.
        """
        headers = {"X-Accel-Buffering": "no"}
        events = self._yield_events(experiment)
        return StreamingResponse(
            events, media_type="text/event-stream", headers=headers
        )

    async def _yield_events(self, name: str | None) -> AsyncIterator[str]:
        self._listeners += 1
        self._has_listeners.set()
        seen = 0
        opened = -1
        try:
            while not self._is_over:
                version = self.experiments.version
                if version != seen:
                    yield _format_event(
                        "experiments", self.experiments.list_changes(seen)
                    )
                    seen = version
                if name is not None and seen:
                    now, stands = await run_in_threadpool(
                        self._describe_experiment, name, opened
                    )
                    if now != opened:
                        yield _format_event("experiment", stands)
                        opened = now
                if not await self._wait(seen):
                    yield ": beat\n\n"
        finally:
            self._listeners -= 1
            if not self._listeners:
                self._has_listeners.clear()

    def _describe_experiment(self, name: str, seen: int) -> tuple[int, dict[str, Any]]:
        """An experiment's version, and unless it is `seen`, how it stands."""
        try:
            results = self.experiments.open_experiment(name)
            if results.version == seen:
                return seen, {}
            return results.version, {
                **show_json(results),
                "view": describe_experiment(results),
            }
        except (TunerError, OSError) as error:
            return -2, {"name": name, "error": str(error)}

    async def _wait(self, seen: int) -> bool:
        """Until there is more than what was `seen`, or for _BEAT_S; whether there is."""
        news = self._news  # before the look at the version, so that no change is missed
        if self._is_over or self.experiments.version != seen:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), _BEAT_S)
            return True
        return False

    def _notify_listeners(self) -> None:
        news = self._news
        self._news = asyncio.Event()
        news.set()


def _format_event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def check_host(host: str, *, is_tls: bool, is_insecure: bool) -> None:
    """Raise UsageError if others can reach the host, without TLS and without --insecure."""
    if is_loopback(host) or is_tls or is_insecure:
        return
    raise UsageError(
        f"--host {host} can be reached by others, who could read the token on its way: give --cert "
        "and --key for TLS, or --insecure where the network is your own; without --host, this "
        "machine alone reaches it, and others by ssh -L"
    )


def check_pair(cert: Path | None, key: Path | None) -> bool:
    """Whether to use TLS; raises UsageError if the two files do not belong together."""
    if cert is None and key is None:
        return False
    if cert is None or key is None:
        raise UsageError(
            "--cert and --key go together: the certificate's file and its key's"
        )
    with translate_error(
        UsageError, f"--cert {cert} and --key {key} are no pair for TLS"
    ):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    return True


def serve(
    storage: str | None,
    *,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    is_insecure: bool,
    agents: Mapping[str, float] | None,
    notify: Callable[[str, int], object],
) -> None:
    """Serve the experiments of `storage` until a signal comes.

    agents: as `application` has it. notify: called with the URL and the port once the server can be
    reached. Raises UsageError for an unusable host, port, certificate or token.
    """
    is_tls = check_pair(cert, key)
    check_host(host, is_tls=is_tls, is_insecure=is_insecure)
    token = choose_token()
    listening = _open_socket(host, port)
    port = listening.getsockname()[1]
    access = Access(token, list_host_names(host), port, is_tls)
    config = uvicorn.Config(
        app := create_application(storage, access, agents=agents),
        http=_Connection,
        limit_concurrency=_MOST_CONNECTIONS,
        ssl_certfile=cert,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,  # it would contain the token
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
    )
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname()
    url = f"{'https' if is_tls else 'http'}://{name}:{port}/?token={access.token}"
    with suppress(KeyboardInterrupt):  # a signal before the server handles them
        notify(url, port)
        _Server(config, app.state.live, app.state.searches.close_all).run(
            sockets=[listening]
        )


class _Connection(H11Protocol):
    """A connection that is closed unless a request's head comes, and its answer goes, in time."""

    limit_s = 10.0  # from the connection, or from the answer before
    stalled_s = 30.0  # for the reader to take what is buffered of an answer
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_stall()
        super().connection_lost(exc)

    def _cancel_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait_for_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.limit_s, self._close_without_head)

    def _close_without_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class _Server(uvicorn.Server):
    """Ends its streams and its searches before it waits for answers.

    Ignored signals stay ignored. close_searches: called in a thread; requests that wait for a
    search then get 503 with Retry-After, and record nothing.
    """

    def __init__(
        self, config: uvicorn.Config, live: Live, close_searches: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._live = live
        self._close_searches = close_searches

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with catch_signals(lambda number, frame: self.handle_exit(number, None)):
            yield

    def handle_exit(self, sig: int, frame: object) -> None:
        """End soon; at once after a second SIGINT."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End. Do not log what this cuts short, such as the making of a report."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await self._live.close()
        await asyncio.to_thread(self._close_searches)
        await super().shutdown(sockets)


def _open_socket(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror}; give another --port, or 0 "
            "for a free one"
        ) from error
    except OverflowError as error:
        raise UsageError(f"--port must be from 0 to 65535, got {port}") from error
