"""What a request may hold: rows with the columns of a classifier. Sizes are checked first, then every value."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, NamedTuple, NoReturn

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, create_model

from gauge.tabular.saved.prediction_sets import check_coverage
from gauge.tabular.table.cells import is_missing
from gauge.tabular.table.columns import Cell, Column
from gauge.tabular.table.guard import Watch

MAX_LISTED_PROBLEMS = 10  # in a response

Note = dict[str, str]
Problem = dict[str, str]


class RefusedError(Exception):
    """A request whose response is an error."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class RowCells(list[Any]):
    """The values of a row in the order of the columns; `extra` are those of columns that training did not have, which are
    ignored, by name."""

    extra: dict[str, str]

    def __init__(self, values: Iterable[Any] = (), extra: Mapping[str, str] | None = None) -> None:
        super().__init__(values)
        self.extra = dict(extra or {})


@dataclass(frozen=True)
class Limits:
    """What the server accepts.

    Attributes
    ----------
    body
        Bytes of a body.
    rows, cells
        Those of a request.
    pixels, all_pixels
        Those of an image, and of all images of a request.
    seconds
        For a response, once its request is complete.
    header_seconds, body_seconds
        For a client to send the headers and the body of a request.
    idle_seconds
        Between two requests over one connection, and for a client to read the next part of a response.
    received
        Bytes of all bodies that are received or wait for their response.
    connections, client_connections
        Open at the same time, and from one address.
    in_flight
        Complete requests that wait for their response.
    batch
        Rows that are predicted together.
    """

    body: int = 16 * 2**20
    rows: int = 1000
    cells: int = 100_000
    pixels: int = 4096 * 4096
    all_pixels: int = 8 * 4096 * 4096
    seconds: float = 30.0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 10.0
    received: int = 256 * 2**20
    connections: int = 2000
    client_connections: int = 1000
    in_flight: int = 1024
    batch: int = 1024


@dataclass
class Pixels:
    """The pixels that a request may still have; images that compress well would otherwise keep the server busy."""

    left: int

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("is one image too many: together they have too many pixels; send fewer or smaller ones")


class RequestReader:
    """Reads `{"rows": [{COLUMN: value, ...}, ...]}` for these columns. Values may be null or left out. Other columns are
    ignored, and noted unless they are `unused` columns of training. `model` describes such a request for OpenAPI."""

    def __init__(self, columns: Sequence[Column], limits: Limits, unused: Iterable[str] = ()) -> None:
        self.limits = limits
        self.names = dict.fromkeys(column.name for column in columns)
        self.known = {*self.names, *unused}
        fields: dict[str, Any] = {
            f"column{index}": (_value_type(column, limits), Field(None, alias=column.name, description=column.kind))
            for index, column in enumerate(columns)
        }
        self.row = create_model("Row", **fields)
        rows = Annotated[list[self.row], Field(min_length=1, max_length=limits.rows)]  # type: ignore[name-defined]
        self.model = create_model("Rows", __config__=ConfigDict(extra="forbid"), rows=(rows, ...))

    def read(self, body: bytes) -> list[RowCells]:
        """The rows of a body, or `RefusedError` with its first problems. Large bodies take time: read them in a thread."""
        deadline = time.monotonic() + self.limits.seconds
        # a cell has at most three tokens (its name, its value and a comma), and a row two more: others are not parsed
        if _more_tokens(body, 3 * self.limits.cells + 2 * self.limits.rows + 10):
            self._refuse_cells()
        pixels, problems, cells = Pixels(self.limits.all_pixels), list[Problem](), list[RowCells]()
        for number, row in enumerate(self._rows(_parse(body))):
            if time.monotonic() > deadline:
                raise TimeoutError
            values, wrong = self._values(row, pixels)
            cells.append(values)
            problems += [{**each, "where": f"rows.{number}.{each['where']}".rstrip(".")} for each in wrong]
            if len(problems) >= MAX_LISTED_PROBLEMS:
                break
        if problems:
            raise RefusedError(422, problems[:MAX_LISTED_PROBLEMS])
        return cells

    def _rows(self, content: Any) -> list[Any]:
        """The rows of a parsed body, of which there are not too many, nor of their cells."""
        if not isinstance(content, dict) or list(content) != ["rows"] or not isinstance(content["rows"], list):
            raise RefusedError(422, [_problem("body", 'should be an object with the key "rows", a list, and no other')])
        rows = content["rows"]
        if not 0 < len(rows) <= self.limits.rows:
            problem = f"has {len(rows)} rows; send at least one and at most {self.limits.rows}"
            raise RefusedError(422, [_problem("rows", problem)])
        if sum(len(row) for row in rows if isinstance(row, dict)) > self.limits.cells:
            self._refuse_cells()
        return rows

    def _values(self, row: Any, pixels: Pixels) -> tuple[RowCells, list[Problem]]:
        """The values of a row in the order of the columns, and what is wrong with them."""
        if not isinstance(row, dict):
            return RowCells(), [_problem("", "should be an object with the values of a row by column")]
        if not self.known.issuperset(row):  # spaces around names do not matter
            own = {name.strip() for name in row if name not in self.known} - row.keys()
            row = {(name.strip() if name.strip() in own else name): value for name, value in row.items()}
        known = {name: value for name, value in row.items() if name in self.names}
        extra = islice((item for item in row.items() if item[0] not in self.known), MAX_LISTED_PROBLEMS)
        try:
            values = vars(self.row.model_validate(known, context=pixels)).values()
        except ValidationError as error:
            return RowCells(), problems(error)
        return RowCells(values, {shown(name): shown(value) for name, value in extra}), []

    def _refuse_cells(self) -> NoReturn:
        raise RefusedError(413, f"the request has more than {self.limits.cells} cells; send fewer rows")


class Promise(NamedTuple):
    """What the prediction sets of a request promise, see `predict_set`."""

    coverage: float
    by_class: bool = False


def read_promise(asked: Mapping[str, str]) -> Promise | None:
    """That of the prediction sets, if the parameters of a request ask for them."""
    text, by_class = asked.get("coverage"), read_switch(asked, "by_class")
    if text is None:
        if by_class:
            raise RefusedError(422, "by_class is for prediction sets; add a coverage, for example coverage=0.9")
        return None
    try:
        check_coverage(float(text))
    except ValueError as error:
        raise RefusedError(422, f"coverage is {text[:20]!r}; give a share between 0 and 1, for example 0.9") from error
    return Promise(float(text), by_class)


def check_parameters(asked: Sequence[tuple[str, str]], known: Sequence[str]) -> None:
    """Refuse parameters that a route has not, and repeated ones: a misspelt coverage would be none."""
    names = [name for name, _ in asked]
    for name in names:
        if name not in known or names.count(name) > 1:
            wrong = "is given twice" if name in known else f"is none of {', '.join(known)}"
            raise RefusedError(422, f"the parameter {shown(name)!r} {wrong}; send each of them once, at most")


def read_switch(asked: Mapping[str, str], name: str) -> bool:
    """A parameter that is on or off, off unless it is given."""
    value = asked.get(name, "false")
    switches = {"true": True, "1": True, "false": False, "0": False}
    if value not in switches:
        raise RefusedError(422, f"{name} is {value[:20]!r}; use one of {', '.join(switches)}")
    return switches[value]


def _value_type(column: Column, limits: Limits) -> Any:
    """The type of a column's value, for pydantic."""
    own = column.request_type(max_pixels=limits.pixels)
    return Annotated[own, BeforeValidator(_cell)] if isinstance(column, Cell) else own


def _cell(value: Any) -> Any:
    """A value that is short, None for a text such as "NA"."""
    if not isinstance(value, str):
        return value
    max_cell_characters = 1000  # of a number or category; other kinds of columns have limits of their own
    if len(value) > max_cell_characters:
        raise ValueError(f"has {len(value)} characters; send at most {max_cell_characters} characters")
    return None if is_missing(value) else value


def _more_tokens(body: bytes, most: int) -> bool:
    """Whether JSON has more texts, commas and opening brackets. Small steps leave other threads their turn."""
    if (body.count(b'"') + 1) // 2 + sum(map(body.count, (b",", b"[", b"{"))) <= most:
        return False  # even if all of them are outside of texts
    # what begins a text or a value of JSON, after anything else; and a part of a text, with the quote that ends it
    token = re.compile(rb'[^",\[{]{0,65536}+([",\[{])?', re.DOTALL)
    text = re.compile(rb'(?:[^"\\]{1,1000}+|\\.){0,1000}+(")?', re.DOTALL)
    count = position = 0
    inside = False
    while position < len(body) and count <= most:
        step = (text if inside else token).match(body, position)
        assert step is not None
        if step.end() == position:  # a text that ends with half an escape
            break
        count += not inside and step[1] is not None
        inside = step[1] is None if inside else step[1] == b'"'
        position = step.end()
    return count > most


def _parse(body: bytes) -> Any:
    """The JSON of a body, in which no key is repeated and every number is one."""
    try:
        return json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RefusedError(422, [_problem("body", "is nested too deeply; send rows of plain values")]) from error
    except ValueError as error:
        raise RefusedError(422, [_problem("body", f"is not JSON: {error}")]) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise RefusedError(422, [_problem(shown(key), "is given twice in one object; send each key once")])
        content[key] = value
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON; send null for a missing value")


def notes(columns: Sequence[Column], rows: Sequence[RowCells], observed: np.ndarray, watch: Watch) -> list[list[Note]]:
    """For each row, the values that were given but count as missing, those that are not `observed`, [rows, columns]; those
    that are unlike training; and those of columns that training did not have."""
    extra = "is not a column of the model, and ignored; /openapi.json lists them"
    by_row: list[list[Note]] = [
        [{"column": name, "value": value, "note": extra} for name, value in row.extra.items()] for row in rows
    ]
    for row, index in np.argwhere(~observed).tolist():
        value, column = rows[row][index], columns[index]
        if not is_missing(value):
            problem = f"{column.unread_reason}; counts as missing"
            by_row[row].append({"column": column.name, "value": shown(value), "note": problem})
    positions = {column.name: index for index, column in enumerate(columns)}
    for (name, reason), seen in watch.seen.items():
        for row in seen.rows:
            if observed[row, index := positions[name]]:
                by_row[row].append({"column": name, "value": shown(rows[row][index]), "note": reason})
    return by_row


def shown(value: Any) -> str:
    """The start of a value that was sent, in a form that JSON can hold."""
    # so many characters of a value are repeated
    text = f"{len(value)} bytes" if isinstance(value, bytes) else str(value)[:100]
    return text.encode("utf-8", "replace").decode()


def note_problems(rows: Sequence[Sequence[Note]]) -> list[Problem]:
    """Notes on rows as problems of a request that has to be read whole."""
    every = (_problem(f"rows.{row}.{note['column']}", note["note"]) for row, given in enumerate(rows) for note in given)
    return list(islice(every, MAX_LISTED_PROBLEMS))


def problems(error: ValidationError) -> list[Problem]:
    """Where a row is wrong and how, without repeating its values."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    found: dict[str, str] = {}
    for each in errors:
        # of a value that may have several types, there is an error for each, in a place named by the type
        place = [str(part) for depth, part in enumerate(each["loc"]) if depth == 0 or isinstance(part, int)]
        told, message = found.get(where := ".".join(place)), each["msg"].removeprefix("Value error, ")
        found[where] = message if told is None else f"{told} or {message.removeprefix('Input should be ')}"
    return [_problem(where, message) for where, message in found.items()]


def _problem(where: str, problem: str) -> Problem:
    return {"where": where, "problem": problem}
