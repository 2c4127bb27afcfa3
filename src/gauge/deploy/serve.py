"""gauge serve: a classifier behind HTTP, with checked requests, batches of concurrent ones, metrics and reload."""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from gauge import __version__
from gauge.deploy.batching import Batcher
from gauge.deploy.connections import Connections
from gauge.deploy.openapi import ROUTES, openapi
from gauge.deploy.requests import (
    Limits,
    RefusedError,
    RowCells,
    check_parameters,
    note_problems,
    read_promise,
    read_switch,
)
from gauge.deploy.store import Loaded, Store

logger = logging.getLogger(__name__)

Content = dict[str, Sequence[dict[str, Any]]]


class Service:
    """The routes of a server, one method each, and what they count: requests by path and status, their seconds, the rows of
    each predicted batch, and refused connections by reason."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store, self.limits, self.registry = store, limits, CollectorRegistry()
        self.requests = Counter("gauge_requests", "Requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram("gauge_request_seconds", "Seconds of a request", ["path"], registry=self.registry)
        buckets = [2**power for power in range(11)]
        rows = Histogram("gauge_batch_rows", "Rows predicted together", buckets=buckets, registry=self.registry)
        text = "Connections that were refused or closed"
        self.refused = Counter("gauge_refused_connections", text, ["reason"], registry=self.registry)
        self.in_flight = self.received = 0
        self.batcher = Batcher(rows=limits.batch, on_batch=rows.observe)
        self.explaining = asyncio.Lock()  # one part at a time, so that a prediction waits for no more than that

    async def predict(self, request: Request) -> Response:
        async def content(body: bytes) -> Content:
            check_parameters(request.query_params.multi_items(), ("coverage", "by_class", "strict"))
            promise, loaded = read_promise(request.query_params), self.store.current
            rows = [(cells, promise) for cells in await _rows(loaded, body)]
            return {"predictions": await self.batcher.predict(loaded.predictions, rows)}

        return await self._respond(request, content)

    async def explain(self, request: Request) -> Response:
        explained_rows = 8  # together, before predictions that wait have their turn

        async def content(body: bytes) -> Content:
            check_parameters(request.query_params.multi_items(), ("strict",))
            loaded = self.store.current
            rows = await _rows(loaded, body)
            explanations: list[dict[str, Any]] = []
            started = time.monotonic()
            for start in range(0, len(rows), explained_rows):
                if start == explained_rows and (time.monotonic() - started) * len(rows) > start * self.limits.seconds:
                    most = int(start * self.limits.seconds / (time.monotonic() - started))
                    raise RefusedError(413, f"{len(rows)} rows take too long to explain; send at most {most}")
                part = rows[start : start + explained_rows]
                async with self.explaining:
                    explanations += await self.batcher.in_thread(partial(loaded.explanations, part))
            return {"explanations": explanations}

        return await self._respond(request, content)

    async def health(self, request: Request) -> Response:
        classes = self.store.current.classifier.classes.tolist()
        state = {"status": "ok", "version": __version__, "model": self.store.path.name, "classes": classes}
        return JSONResponse(state | {"reloads": self.store.reloads, "problem": self.store.problem})

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)

    async def description(self, request: Request) -> Response:
        return JSONResponse(openapi(self.store.path.name, self.store.current.reader.model))

    async def page(self, request: Request) -> Response:
        headers = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
        html, policy = self.store.current.page
        return HTMLResponse(html, headers=headers | {"Content-Security-Policy": policy})

    async def unknown(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        self.requests.labels("other", error.status_code).inc()
        detail = f"there is no such route; the routes are {', '.join(ROUTES)}"
        return JSONResponse({"detail": detail}, error.status_code, headers=error.headers)

    async def keep_fresh(self, seconds: float) -> None:
        """Look for a changed model, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.store.refresh)

    async def _respond(self, request: Request, make: Callable[[bytes], Awaitable[Content]]) -> Response:
        """The content that is made of the body, as JSON, or the error with its status."""
        close = {"Connection": "close"}  # the rest of the body is not read
        headers = {408: close, 413: close, 415: close, 503: {"Retry-After": "1"} | close}
        path, started = request.scope["path"], time.perf_counter()
        try:
            content: dict[str, Any] = await self._content(request, make)
            status = 200
        except RefusedError as error:
            status, content = error.status, {"detail": error.detail}
        except ValueError as error:  # from the classifier, for rows that it cannot read
            status, content = 422, {"detail": str(error)}
        except NotImplementedError as error:
            status, content = 501, {"detail": str(error)}
        except ClientDisconnect:
            status, content = 499, {"detail": "the client has closed the connection"}
        except TimeoutError:
            status, content = 503, {"detail": f"no response within {self.limits.seconds:g} seconds; send fewer rows"}
        except Exception:
            logger.exception("a request to %s failed", path)
            status, content = 500, {"detail": "the server failed; its log says why"}
        self.requests.labels(path, status).inc()
        self.seconds.labels(path).observe(time.perf_counter() - started)
        return JSONResponse(content, status, headers=headers.get(status))

    async def _content(self, request: Request, make: Callable[[bytes], Awaitable[Content]]) -> Content:
        """What is made of the body of a request, unless too many wait for theirs."""
        _check_headers(request)
        strict = read_switch(request.query_params, "strict")
        async with self._body(request) as body:
            if self.in_flight >= self.limits.in_flight:
                raise RefusedError(503, "too many requests are waiting; try again")
            self.in_flight += 1
            try:
                async with asyncio.timeout(self.limits.seconds):
                    content = await make(body)
            finally:
                self.in_flight -= 1
        notes = [row["notes"] for rows in content.values() for row in rows]  # on values that count as missing
        if strict and (problems := note_problems(notes)):
            raise RefusedError(422, problems)
        return content

    @asynccontextmanager
    async def _body(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, read no further than the limits; its bytes count as received until it has its response."""
        content, limit = bytearray(), self.limits.body
        try:
            async for part in request.stream():
                content += part
                self.received += len(part)
                if len(content) > limit:
                    problem = f"the body is larger than {limit} bytes; send fewer rows or smaller images"
                    raise RefusedError(413, problem)
                if self.received > self.limits.received:
                    raise RefusedError(503, "too many large requests are waiting; try again")
            yield bytes(content)
        finally:
            self.received -= len(content)


async def _rows(loaded: Loaded, body: bytes) -> list[RowCells]:
    if len(body) <= 4096:  # bytes; reading them takes less than handing them to a thread
        return loaded.reader.read(body)
    return await asyncio.to_thread(loaded.reader.read, body)


def create_app(
    path: Path,
    *,
    limits: Limits | None = None,
    device: str | None = None,
    ui: bool = False,
    reload_seconds: float = 2.0,
) -> Starlette:
    """The application; `path` is a folder that `gauge fit` wrote or a file that `gauge export` wrote. On a GPU, predictions
    are recorded as CUDA graphs. With `ui`, there is a page for people at `/`."""
    limits = limits or Limits()
    service = Service(Store(path, limits, device), limits)

    @asynccontextmanager
    async def background(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (service.batcher.run(), service.keep_fresh(reload_seconds))]
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        service.batcher.thread.shutdown()

    handlers = zip(
        ROUTES, (service.predict, service.explain, service.health, service.metrics, service.description), strict=True
    )
    routes = [Route(name.split()[1], handler, methods=[name.split()[0]]) for name, handler in handlers]
    if ui:
        routes.append(Route("/", service.page, methods=["GET"]))
    app = Starlette(routes=routes, lifespan=background, exception_handlers={404: service.unknown, 405: service.unknown})
    app.router.redirect_slashes = False  # to the host that a request names
    app.state.service = service
    return app


def create_server(
    path: Path, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, **options: Any
) -> uvicorn.Server:
    """The application behind HTTP, with time-outs and limits of connections; `options` are those of `create_app`."""
    limits = limits or Limits()
    app = create_app(path, limits=limits, **options)
    refused = app.state.service.refused
    own = host if options.get("ui") else None
    connections = Connections(limits, lambda reason: refused.labels(reason).inc(), own)
    # without websockets and a log of every request, which the metrics count
    config = uvicorn.Config(app, host, port, http=connections.protocol, loop="asyncio", ws="none", access_log=False)
    return uvicorn.Server(config)


def run(path: Path, *, limits: Limits, **options: Any) -> None:
    """Serve until interrupted; `options` are those of `create_server`."""
    # after which a prediction lets the thread of the connections run, which waits after each call
    sys.setswitchinterval(0.0005)
    spare_files = 256  # open ones beside connections
    files = _allow_open_files(limits.connections + spare_files)
    limits = replace(limits, connections=min(limits.connections, files - spare_files))
    server = create_server(path, limits=limits, **options)
    gc.freeze()  # a look at all objects of torch for unused ones would stop every request for 0.15 s
    with suppress(KeyboardInterrupt):
        server.run()


def _allow_open_files(count: int) -> int:
    """How many files this process may have open, a connection being one: `count` if the system lets it."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    allowed = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def _check_headers(request: Request) -> None:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "the content type is not application/json; send JSON")
    encodings = [value for name in ("content-encoding", "transfer-encoding") for value in request.headers.getlist(name)]
    if not {each.strip().lower() for each in ",".join(encodings).split(",")} <= {"", "identity", "chunked"}:
        raise RefusedError(415, "compressed bodies are not accepted; send plain JSON")
