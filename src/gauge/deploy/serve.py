"""gauge serve: a classifier behind HTTP, with checked requests, batches of concurrent ones, metrics and reload."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from gauge import __version__
from gauge.data.signature import signature_path
from gauge.deploy.batching import Batcher
from gauge.deploy.exported import load_classifier
from gauge.deploy.requests import Limits, RefusedError, RequestReader, note_problems, notes
from gauge.reports.evidence import RowEvidence
from gauge.tabular.classifier import TableClassifier

logger = logging.getLogger(__name__)

Answer = dict[str, Sequence[dict[str, Any]]]
Strict = Annotated[bool, Query(description="Refuse rows with values that would count as missing.")]
State = tuple[tuple[str, int, int, int], ...]  # path, time, size and inode of every file of a model

RELOAD_SECONDS = 2.0
ANSWERED = ("/predict", "/explain")
ROUTES = (*(f"POST {path}" for path in ANSWERED), "GET /health", "GET /metrics", "GET /openapi.json")
CLOSE = {"Connection": "close"}  # the rest of the body is not read
HEADERS = {413: CLOSE, 415: CLOSE, 503: {"Retry-After": "1"} | CLOSE}


@dataclass(frozen=True)
class Loaded:
    """A classifier, the reader of its requests, and the state of its files when they were read."""

    classifier: TableClassifier
    reader: RequestReader
    state: State

    def frame(self, body: bytes) -> pd.DataFrame:
        """The rows of a request with all columns of training."""
        return self.reader.read(body).reindex(columns=list(self.classifier.names))

    def predictions(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The class of each row, the probability of every class, and notes on values that count as missing."""
        probabilities, observed = self.classifier.predict_with_observed(frame)
        names = [str(label) for label in self.classifier.classes.tolist()]
        return [
            {"prediction": decided, "probabilities": dict(zip(names, row, strict=True)), "notes": found}
            for decided, row, found in zip(
                self.classifier.decide(probabilities).tolist(),
                probabilities.astype(float).round(6).tolist(),
                notes(self.classifier.columns, frame, observed),
                strict=True,
            )
        ]

    def explanations(self, frame: pd.DataFrame) -> list[dict[str, Any]]:
        """The answers for each row with and without gates, its units, and notes on values that count as missing."""
        rows = self.classifier.evidence(frame)
        read = [{unit.column for unit in row.units if unit.state == "observed"} for row in rows]
        observed = np.array([[column.name in names for column in self.classifier.columns] for names in read])
        found = notes(self.classifier.columns, frame, observed)
        return [_evidence(row) | {"notes": each} for row, each in zip(rows, found, strict=True)]


@dataclass
class Store:
    """The classifier in use. A replaced file is loaded beside it, and used once it is complete; until then, and if it cannot
    be read, the old one answers."""

    path: Path
    limits: Limits
    device: str | None = None
    record: bool = True
    trusted: Path | str | None = None
    reloads: int = 0
    problem: str | None = None
    current: Loaded = field(init=False)
    tried: State = ()

    def __post_init__(self) -> None:
        self.current = self._load(self._state())

    def refresh(self) -> None:
        """Load the file again if it has changed; a damaged one is tried once."""
        try:
            state = self._state()
            if state == self.current.state:
                self.problem = None
            elif state != self.tried:
                self.tried = state
                self.current = self._load(state)
                self.reloads, self.problem = self.reloads + 1, None
                logger.info("loaded the changed model %s", self.path)
        except Exception as error:  # whatever is wrong with a new model, the old one answers
            if str(error) != self.problem:
                logger.warning("the changed model is not used: %s", error)
            self.problem = str(error)

    def _load(self, state: State) -> Loaded:
        classifier = load_classifier(self.path, device=self.device, trusted=self.trusted)
        if self._state() != state:
            raise ValueError(f"{self.path} is being written; it is loaded once it is complete")
        if self.record:
            classifier.record()
        return Loaded(classifier, RequestReader(classifier.columns, self.limits), state)

    def _state(self) -> State:
        """Changes whenever a file of the model is replaced."""
        if not self.path.exists():
            raise ValueError(f"there is no model {self.path}; give what `gauge fit` or `gauge export` wrote")
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path, signature_path(self.path)]
        states = ((str(file), file.stat()) for file in files if file.is_file())
        return tuple((name, each.st_mtime_ns, each.st_size, each.st_ino) for name, each in states)


class Metrics:
    """Requests by path and status, their seconds, and the rows of each predicted batch."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("gauge_requests", "Requests", ["path", "status"], registry=self.registry)
        self.seconds = Histogram("gauge_request_seconds", "Seconds of a request", ["path"], registry=self.registry)
        buckets = [2**power for power in range(11)]
        self.rows = Histogram("gauge_batch_rows", "Rows predicted together", buckets=buckets, registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class Service:
    """What the routes do, without HTTP's words."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store, self.limits, self.metrics, self.in_flight = store, limits, Metrics(), 0
        self.batcher = Batcher(rows=limits.batch, on_batch=self.metrics.rows.observe)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request until it is answered, or refuse it before its body is read if there are too many."""
        if self.in_flight >= self.limits.in_flight:
            raise RefusedError(503, "too many requests are waiting; try again")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def predict(self, body: bytes) -> Answer:
        loaded = self.store.current
        frame = await asyncio.to_thread(loaded.frame, body)
        return {"predictions": await self.batcher.predict(loaded.predictions, frame)}

    async def explain(self, body: bytes) -> Answer:
        loaded = self.store.current
        frame = await asyncio.to_thread(loaded.frame, body)
        return {"explanations": await self.batcher.in_thread(lambda: loaded.explanations(frame))}

    def health(self) -> dict[str, Any]:
        classes = self.store.current.classifier.classes.tolist()
        state = {"status": "ok", "version": __version__, "model": self.store.path.name, "classes": classes}
        return state | {"reloads": self.store.reloads, "problem": self.store.problem}

    async def keep_fresh(self, seconds: float) -> None:
        """Look for a changed model, until cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.store.refresh)


def create_app(
    path: Path,
    *,
    limits: Limits | None = None,
    device: str | None = None,
    record: bool = True,
    reload_seconds: float = RELOAD_SECONDS,
    trusted: Path | str | None = None,
) -> FastAPI:
    """The application; `path` is a folder that `gauge fit` wrote or a file that `gauge export` wrote. On a GPU, predictions
    are recorded as CUDA graphs; with `record=False` they stay eager. With `trusted`, a public key or its file, models that
    are not signed with it are refused."""
    limits = limits or Limits()
    service = Service(Store(path, limits, device, record, trusted), limits)

    @asynccontextmanager
    async def background(app: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (service.batcher.run(), service.keep_fresh(reload_seconds))]
        yield
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        service.batcher.thread.shutdown()

    app = FastAPI(
        title=f"GAUGE: {path.name}",
        version=__version__,
        lifespan=background,
        docs_url=None,  # its page, and redoc's, would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,  # to the host that a request names
    )

    @app.post("/predict", summary="The class of every row and the probability of each class")
    async def predict(request: Request, strict: Strict = False) -> Response:
        return await _respond(service, request, service.predict, strict=strict)

    @app.post("/explain", summary="Every unit of every row with its score, gate and attention")
    async def explain(request: Request, strict: Strict = False) -> Response:
        return await _respond(service, request, service.explain, strict=strict)

    @app.get("/health", summary="Whether the server answers, and with which model")
    async def health() -> dict[str, Any]:
        return service.health()

    @app.get("/metrics", summary="Counters for Prometheus")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def unknown(request: Request, error: HTTPException) -> Response:
        service.metrics.requests.labels("other", error.status_code).inc()
        detail = f"there is no such route; the routes are {', '.join(ROUTES)}"
        return JSONResponse({"detail": detail}, error.status_code, headers=error.headers)

    app.openapi = lambda: _openapi(app, service.store.current.reader.model)  # type: ignore[method-assign]
    return app


def run(
    path: Path, *, host: str, port: int, limits: Limits, device: str | None = None, trusted: Path | str | None = None
) -> None:
    """Serve until interrupted."""
    app = create_app(path, limits=limits, device=device, trusted=trusted)
    uvicorn.run(app, host=host, port=port, timeout_keep_alive=10)


async def _respond(
    service: Service, request: Request, answer: Callable[[bytes], Awaitable[Answer]], *, strict: bool
) -> Response:
    """The answer as JSON, or the error with its status."""
    path, started = request.url.path, time.perf_counter()
    try:
        async with asyncio.timeout(service.limits.seconds):
            with service.admit():
                content: dict[str, Any] = await answer(await _body(request, service.limits.body))
        status = 200
        if strict:
            _refuse_notes(content)
    except RefusedError as error:
        status, content = error.status, {"detail": error.detail}
    except ValueError as error:  # from the classifier, for rows that it cannot read
        status, content = 422, {"detail": str(error)}
    except NotImplementedError as error:
        status, content = 501, {"detail": str(error)}
    except ClientDisconnect:
        status, content = 499, {"detail": "the client has closed the connection"}
    except TimeoutError:
        status, content = 503, {"detail": f"no answer within {service.limits.seconds:g} seconds; send fewer rows"}
    except Exception:
        logger.exception("a request to %s failed", path)
        status, content = 500, {"detail": "the server failed; its log says why"}
    service.metrics.requests.labels(path, status).inc()
    service.metrics.seconds.labels(path).observe(time.perf_counter() - started)
    return JSONResponse(content, status, headers=HEADERS.get(status))


async def _body(request: Request, limit: int) -> bytes:
    """The body, read no further than the limit."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(415, "the content type is not application/json; send JSON")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "compressed bodies are not accepted; send plain JSON")
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > limit:
            raise RefusedError(413, f"the body is larger than {limit} bytes; send fewer rows or smaller images")
    return bytes(content)


def _refuse_notes(content: Answer) -> None:
    """An error if values of a request count as missing although they were given."""
    if found := note_problems([row["notes"] for rows in content.values() for row in rows]):
        raise RefusedError(422, found)


def _evidence(row: RowEvidence) -> dict[str, Any]:
    answers = {"prediction": row.after[0], "probability": row.after[1]}
    ungated = {"prediction_ungated": row.before[0], "probability_ungated": row.before[1]}
    return answers | ungated | {"units": [asdict(unit) for unit in row.units]}


def _openapi(app: FastAPI, rows: type[BaseModel]) -> dict[str, Any]:
    """The description of the routes, with the columns of the model in use."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schema = rows.model_json_schema(ref_template="#/components/schemas/{model}")
    document.setdefault("components", {}).setdefault("schemas", {}).update(schema.pop("$defs"), Rows=schema)
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Rows"}}}
    for path in ANSWERED:
        document["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    return json.loads(json.dumps(document))
