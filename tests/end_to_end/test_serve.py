"""`gauge serve`: real requests to a real server, hostile ones included, while its model is replaced."""

import base64
import io
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from helpers import clinic
from PIL import Image

from gauge import GaugeClassifier
from gauge.tabular.fitted import Fitted

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httptools")

from serving import Client, serving

from gauge.deploy.connections import Connection
from gauge.deploy.requests import Limits

LIMITS = Limits(body=200_000, rows=20, cells=500, pixels=10_000, all_pixels=15_000, seconds=20.0)
ROW = {"age": 52, "site": "arm", "notes": "itches a lot"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> tuple[Path, GaugeClassifier]:
    folder = tmp_path_factory.mktemp("served")
    table = clinic(folder / "photos", rows=40)
    model = GaugeClassifier(epochs=1, random_state=0, verbose=False, image_folder=folder / "photos")
    model.fit(table, "diagnosis").save(folder / "model")
    return folder, model


@pytest.fixture(scope="module")
def client(fitted) -> Iterator[Client]:
    with serving(fitted[0] / "model", limits=LIMITS) as client:
        yield client


def picture(width: int = 20, height: int = 20) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def test_predictions_are_those_of_the_model(fitted, client):
    folder, model = fitted
    table = clinic(folder / "photos", rows=40)[:6]
    rows = table.drop(columns="diagnosis").to_dict("records")
    for row in rows:
        row.update({name: None for name, value in row.items() if value != value})
        if row["photo"] is not None:
            row["photo"] = base64.b64encode((folder / "photos" / row["photo"]).read_bytes()).decode()
    status, answer = client.predict(*rows)
    assert status == 200
    probabilities = [list(each["probabilities"].values()) for each in answer["predictions"]]
    np.testing.assert_allclose(probabilities, model.predict_proba(table), atol=1e-5)
    assert [each["prediction"] for each in answer["predictions"]] == model.predict(table).tolist()


UNSEEN = {"column": "site", "value": "the moon", "note": "was not seen in training; counts as missing"}


@pytest.mark.parametrize(("path", "answers"), [("/predict", "predictions"), ("/explain", "explanations")])
def test_a_value_that_counts_as_missing_is_noted_in_its_row_or_refused(client, path, answers):
    rows = {"rows": [ROW, ROW | {"site": "the moon", "sex": "unknown"}]}
    status, answer = client("POST", path, rows)
    assert (status, [row["notes"] for row in answer[answers]]) == (200, [[], [UNSEEN]])
    status, answer = client("POST", f"{path}?strict=true", rows)
    assert (status, answer["detail"]) == (422, [{"where": "rows.1.site", "problem": UNSEEN["note"]}])
    assert client("POST", f"{path}?strict=true", {"rows": [ROW]})[0] == 200


def test_a_column_that_is_not_in_the_model_is_ignored_and_noted_as_predict_does_or_refused(client):
    row, note = ROW | {"agee": 3, "\ud800": 1, "diagnosis": "benign"}, "is not a column of the model, and ignored"
    status, answer = client.predict(row)
    assert status == 200
    (answered,) = answer["predictions"]
    assert [(each["column"], each["value"]) for each in answered["notes"]] == [("agee", "3"), ("?", "1")]
    assert all(each["note"].startswith(note) for each in answered["notes"])
    assert answered["probabilities"] == client.predict(ROW)[1]["predictions"][0]["probabilities"]
    status, answer = client("POST", "/predict?strict=true", {"rows": [ROW | {"agee": 3}]})
    assert status == 422
    assert [(each["where"], each["problem"].startswith(note)) for each in answer["detail"]] == [("rows.0.agee", True)]


def test_notes_stay_with_their_request_when_requests_are_answered_together(client):
    rows = [ROW | {"site": f"planet {number}" if number % 2 else "arm"} for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(client.predict, rows))
    values = [[note["value"] for note in answer["predictions"][0]["notes"]] for _, answer in answers]
    assert values == [[row["site"]] if number % 2 else [] for number, row in enumerate(rows)]


def test_explanations_name_every_unit_with_its_score(client):
    status, answer = client("POST", "/explain", {"rows": [ROW | {"photo": picture()}]})
    assert status == 200
    units = answer["explanations"][0]["units"]
    assert {unit["column"] for unit in units} == {"age", "site", "photo", "notes", "sex"}
    assert all(unit["score"] >= 0 for unit in units if unit["state"] == "observed")


def test_requests_at_the_same_time_are_answered_in_batches_each_with_its_own_answer(fitted, client):
    rows = [ROW | {"age": 30 + age} for age in range(40)]
    alone = [client.predict(row) for row in rows[:3]]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(client.predict, rows))
    assert [status for status, _ in answers] == [200] * 40
    for (_, own), (_, other) in zip(alone, answers, strict=False):
        own, other = (list(each["predictions"][0]["probabilities"].values()) for each in (own, other))
        np.testing.assert_allclose(own, other, atol=1e-5)
    _, metrics = client("GET", "/metrics")
    assert 'gauge_requests_total{path="/predict",status="200"}' in metrics
    batches = float(next(line for line in metrics.splitlines() if line.startswith("gauge_batch_rows_count")).split()[1])
    rows = float(next(line for line in metrics.splitlines() if line.startswith("gauge_batch_rows_sum")).split()[1])
    assert batches < rows


def test_the_description_lists_the_columns_of_the_model(client):
    status, document = client("GET", "/openapi.json")
    assert status == 200
    assert set(document["components"]["schemas"]["Row"]["properties"]) == {"age", "site", "photo", "notes", "sex"}
    assert "requestBody" in document["paths"]["/predict"]["post"]
    assert client("GET", "/health")[1]["status"] == "ok"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [("POST", "/predict/", 404), ("GET", "/docs", 404), ("GET", "/redoc", 404), ("GET", "/predict", 405)],
)
def test_another_route_is_neither_redirected_nor_a_page_and_names_the_routes(client, method, path, expected):
    status, answer = client(method, path, {"rows": [ROW]}, host="elsewhere.example")
    assert (status, answer["detail"]) == (
        expected,
        "there is no such route; the routes are POST /predict, POST /explain, GET /health, GET /metrics, GET /openapi.json",
    )
    assert f'gauge_requests_total{{path="other",status="{expected}"}}' in client("GET", "/metrics")[1]


BAD_ROWS = {
    "a text in a column of numbers": ({"age": "old"}, "rows.0.age", "valid number"),
    "an infinite number": ({"age": 1e999}, "body", "Infinity is not a number of JSON; send null"),
    "a nested value": ({"age": {"a": 1}}, "rows.0.age", "valid number"),
    "a list in place of a row": ([1, 2], "rows.0", "should be an object"),
    "a path in place of an image": ({"photo": "/etc/hostname"}, "rows.0.photo", "send the content of an image file"),
    "a URL in place of an image": ({"photo": "http://127.0.0.1/a.png"}, "rows.0.photo", "send the content of an image"),
    "bytes that are no image": ({"photo": base64.b64encode(b"GIF8 no").decode()}, "rows.0.photo", "is not an image"),
    "an image of too many pixels": (
        {"photo": picture(400, 300)},
        "rows.0.photo",
        "400 x 300 pixels; send at most 10000",
    ),
    "a format that Pillow hands to Ghostscript": (
        {"photo": base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n").decode()},
        "rows.0.photo",
        "is not an image; send the content of an image file (PNG, JPEG, WEBP, GIF, BMP, TIFF) in base64",
    ),
    "a very long category": ({"site": "x" * 5000}, "rows.0.site", "at most 1000 characters"),
    "a very long number": ({"age": "1" * 5000}, "rows.0.age", "at most 1000 characters"),
    "a very long text": ({"notes": "x" * 100_001}, "rows.0.notes", "at most 100000 characters"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_is_refused_and_named(client, name):
    row, where, problem = BAD_ROWS[name]
    status, answer = client.predict(row)
    assert status == 422
    assert any(each["where"].startswith(where) and problem in each["problem"] for each in answer["detail"]), answer


def test_a_truncated_image_is_refused_and_does_not_touch_other_requests(client):
    broken = base64.b64encode(base64.b64decode(picture(90, 90))[:100]).decode()
    with ThreadPoolExecutor(4) as pool:
        bad = pool.submit(client.predict, {"photo": broken})
        good = [pool.submit(client.predict, ROW) for _ in range(3)]
    status, answer = bad.result()
    assert status == 422
    assert answer["detail"][0]["where"] == "rows.0.photo"
    assert "cannot be read as an image" in answer["detail"][0]["problem"]
    assert [each.result()[0] for each in good] == [200] * 3


HOSTILE = {
    "no JSON": (b"{", {}, 422, "is not JSON: Expecting property name"),
    "nothing": (b"", {}, 422, "is not JSON: Expecting value"),
    "not UTF-8": (b'{"rows": ["\xff"]}', {}, 422, "is not JSON: 'utf-8' codec"),
    "too deep": (b"[" * 50_000, {}, 413, "has more than 500 cells; send fewer rows"),
    "no rows": (b'{"rows": []}', {}, 422, "has 0 rows; send at least one and at most 20"),
    "too many rows": (b'{"rows": [' + b"{}," * 20 + b"{}]}", {}, 422, "has 21 rows; send at least one and at most 20"),
    "another key": (
        b'{"rows": [{}], "model": "/etc"}',
        {},
        422,
        'should be an object with the key "rows", a list, and no other',
    ),
    "NaN": (b'{"rows": [{"age": NaN}]}', {}, 422, "NaN is not a number of JSON; send null for a missing value"),
    "a repeated key": (
        b'{"rows": [{"age": 1, "age": 90}]}',
        {},
        422,
        "is given twice in one object; send each key once",
    ),
    "too many cells": (
        json.dumps({"rows": [dict.fromkeys(map(str, range(501)))]}).encode(),
        {},
        413,
        "has more than 500 cells; send fewer rows",
    ),
    "quotes that are never closed": (b'"' + b'\\"' * 90_000, {}, 422, "is not JSON: "),
    "too large": (b" " * 200_001, {}, 413, "is larger than 200000 bytes; send fewer rows or smaller images"),
    "an integer of 150,000 digits": (
        b'{"rows": [{"age": -' + b"9" * 150_000 + b"}]}",
        {},
        422,
        "Exceeds the limit (4300 digits)",
    ),
    "half a surrogate pair": (
        b'{"rows": [{"notes": "\\ud800"}]}',
        {},
        422,
        "unable to parse raw data as a unicode string",
    ),
    "a byte order mark": (b'\xef\xbb\xbf{"rows": [{}]}', {}, 422, "is not JSON: Unexpected UTF-8 BOM"),
    "many parts of a form": (
        b"--x\r\n\r\n1\r\n" * 10_000,
        {"content_type": "multipart/form-data; boundary=x"},
        415,
        "the content type is not application/json; send JSON",
    ),
    "compressed": (
        b"\x1f\x8b",
        {"content_encoding": "gzip"},
        415,
        "compressed bodies are not accepted; send plain JSON",
    ),
}


def test_only_the_first_ten_problems_are_listed(client):
    status, answer = client.predict(*[{"age": "old", "notes": 4}] * 20)
    wheres = [f"rows.{row}.{name}" for row in range(5) for name in ("age", "notes")]
    assert (status, [each["where"] for each in answer["detail"]]) == (422, wheres)


def test_a_value_of_a_wrong_type_is_one_problem_in_words_without_names_of_types(client):
    status, answer = client.predict({"site": ["north"]})
    types = "a valid string or a valid boolean or a valid integer or a valid number"
    assert (status, answer["detail"]) == (422, [{"where": "rows.0.site", "problem": f"Input should be {types}"}])


def test_spaces_around_names_do_not_matter_and_parameters_that_are_none_are_refused(client):
    status, answer = client.predict({f" {name} ": value for name, value in ROW.items()})
    assert (status, answer) == client.predict(ROW)
    assert client("POST", "/predict?strict=true", {"rows": [ROW]})[0] == 200
    for path, problem in (
        ("/predict?covrage=0.9", "the parameter 'covrage' is none of coverage, by_class, strict; send"),
        ("/predict?coverage=0.9&coverage=0.5", "the parameter 'coverage' is given twice; send each of them once"),
        ("/explain?coverage=0.9", "the parameter 'coverage' is none of strict; send"),
    ):
        status, answer = client("POST", path, {"rows": [ROW]})
        assert (status, problem in answer["detail"]) == (422, True), answer


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_gets_an_answer_and_the_server_goes_on(client, name):
    body, headers, expected, text = HOSTILE[name]
    status, answer = client("POST", "/predict", body, **headers)
    assert (status, text in str(answer["detail"])) == (expected, True), answer
    assert "Traceback" not in json.dumps(answer)
    assert client.predict(ROW)[0] == 200


MANY = 1_000_000
FLOODS = {
    "unknown columns": lambda: b'{"rows": [{' + b",".join(b'"%d": 1' % number for number in range(MANY)) + b"}]}",
    "rows": lambda: b'{"rows": [' + b"{}," * MANY + b"{}]}",
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_values_does_not_hold_up_other_requests(fitted, name):
    flood = FLOODS[name]()
    with serving(fitted[0] / "model") as client, ThreadPoolExecutor(4) as pool:
        client("GET", "/health")
        floods = [pool.submit(client, "POST", "/predict", flood) for _ in range(3)]
        slowest = 0.0
        while not all(each.done() for each in floods):
            started = time.perf_counter()
            assert client("GET", "/health")[0] == 200
            slowest = max(slowest, time.perf_counter() - started)
        assert {each.result()[0] for each in floods} == {413}
    assert slowest < 3.0


def test_images_that_are_small_enough_alone_may_be_too_many_together(client):
    status, answer = client.predict(*[{"photo": picture(90, 90)}] * 2)
    assert status == 422
    assert answer["detail"][0]["where"] == "rows.1.photo"
    assert "together they have too many pixels; send fewer or smaller ones" in answer["detail"][0]["problem"]


def delay_predictions(monkeypatch, wait):
    """Call `wait` before every prediction, of one row and of several."""
    for name in ("predict_with_observed", "predict_row_with_observed"):
        predict = getattr(Fitted, name)
        monkeypatch.setattr(Fitted, name, lambda *given, predict=predict: (wait(), predict(*given))[1])


def test_an_error_of_the_model_is_answered_logged_and_counted(fitted, monkeypatch, caplog):
    def fail(self, row):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Fitted, "predict_row_with_observed", fail)
    with serving(fitted[0] / "model") as client:
        assert client.predict(ROW) == (500, {"detail": "the server failed; its log says why"})
        assert 'gauge_requests_total{path="/predict",status="500"} 1.0' in client("GET", "/metrics")[1]
    assert "out of memory" in caplog.text


HALF_HEADER = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def whole(row: object, path: str = "/predict") -> bytes:
    body = json.dumps({"rows": [row]}).encode()
    return HALF_HEADER.replace(b"/predict", path.encode()) + b"Content-Length: %d\r\n\r\n" % len(body) + body


@contextmanager
def connected(client: Client, count: int, sent: bytes, address: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Connections from an address over which something was sent."""
    with ExitStack() as stack:
        sockets = []
        for _ in range(count):
            end = ("127.0.0.1", client.port)
            sockets.append(stack.enter_context(socket.create_connection(end, timeout=60, source_address=(address, 0))))
            sockets[-1].sendall(sent)
        yield sockets


def everything(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            received += part
    return received


def refused_connections(client: Client, reason: str) -> float:
    lines = client("GET", "/metrics")[1].splitlines()
    name = "gauge_refused_connections_total"
    counts = [line.split()[-1] for line in lines if line.startswith(name) and reason in line]
    return sum(map(float, counts))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (HALF_HEADER, "header time-out"),
        (HALF_HEADER + b"Content-Length: 100\r\n\r\n{", "body time-out"),
        (b"\r\n", "header"),
    ],
)
def test_600_half_sent_requests_keep_nobody_out_and_end_with_their_time(fitted, sent, reason):
    limits = Limits(header_seconds=3.0, body_seconds=3.0)
    with serving(fitted[0] / "model", limits=limits) as client, connected(client, 600, sent) as sockets:
        assert client("GET", "/health")[0] == 200
        assert client.predict(ROW)[0] == 200
        assert all(everything(each).startswith(b"HTTP/1.1 408 Request Timeout\r\n") for each in sockets)
        assert refused_connections(client, reason) == 600


def test_a_client_with_too_many_connections_loses_those_that_wait_and_others_lose_none(fitted):
    with serving(fitted[0] / "model", limits=Limits(client_connections=5)) as client:
        with connected(client, 1, HALF_HEADER) as (other,), connected(client, 5, HALF_HEADER, "127.0.0.2") as sockets:
            time.sleep(0.4)
            with connected(client, 2, whole(ROW), "127.0.0.2") as more:
                assert all(each.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n") for each in more)
            assert all(everything(each).startswith(b"HTTP/1.1 503 Service Unavailable\r\n") for each in sockets[:2])
            for each in (other, sockets[-1]):
                each.sendall(whole(ROW).removeprefix(HALF_HEADER))
                assert each.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert refused_connections(client, "too many connections") == 2


@pytest.mark.parametrize("limits", [Limits(client_connections=3), Limits(connections=3)])
def test_a_connection_is_refused_while_all_others_are_being_answered(fitted, monkeypatch, limits):
    release = threading.Event()
    delay_predictions(monkeypatch, release.wait)
    with serving(fitted[0] / "model", limits=limits) as client:
        with connected(client, 3, whole(ROW)) as busy:
            try:
                with connected(client, 1, whole(ROW)) as (late,):
                    assert b"there are too many connections; close some, and try again" in everything(late)
            finally:
                release.set()
            assert all(each.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n") for each in busy)
            time.sleep(0.4)
        assert refused_connections(client, "too many connections") == 1


@pytest.mark.parametrize(
    "start",
    [
        b"GET /health HTTP/1.1\r\nEndless: ",
        b"GET /",
        HALF_HEADER + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nEndless: ",
        HALF_HEADER + b"Transfer-Encoding: chunked\r\n\r\n1;",
    ],
)
def test_headers_without_end_are_not_read(client, start):
    before = refused_connections(client, "headers too large")
    with connected(client, 1, start) as (connection,), suppress(OSError):  # the server closes the connection
        for _ in range(1000):
            connection.sendall(b"x" * 0x10000)
        pytest.fail("the server has read 65 MB")
    assert refused_connections(client, "headers too large") == before + 1


def test_a_client_that_does_not_read_its_answers_is_dropped(fitted):
    with serving(fitted[0] / "model", limits=Limits(idle_seconds=0.5)) as client:
        many = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000
        with connected(client, 1, b"") as (connection,):
            connection.settimeout(5)
            with suppress(OSError):
                connection.sendall(many)
            while not refused_connections(client, "response not read"):
                time.sleep(0.05)
        assert client.predict(ROW)[0] == 200


NOT_HTTP = {
    "a chunk without a size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
    "a chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-5\r\n{}",
    "a chunk of too large a size": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    "a chunk that is longer": b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    "chunks and a length": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 1\r\n\r\n{}",
    "a negative length": b"Content-Length: -2\r\n\r\n{}",
    "a length of 30 digits": b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    "a folded header": b"X: y\r\n z\r\nContent-Length: 2\r\n\r\n{}",
    "NUL in a header": b"X: \0\r\nContent-Length: 2\r\n\r\n{}",
}


def test_what_is_not_http_is_refused_counted_and_never_the_answer_to_another_request(client):
    before = refused_connections(client, "not HTTP")
    for name, rest in NOT_HTTP.items():
        with connected(client, 1, HALF_HEADER + rest) as (connection,):
            assert everything(connection).startswith(b"HTTP/1.1 400 Bad Request"), name
    with connected(client, 1, HALF_HEADER + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n") as (connection,):
        assert everything(connection).startswith(b"HTTP/1.1 415")
    with connected(client, 1, whole(ROW) + b"\x16\x03 nonsense\r\n\r\n") as (connection,):
        assert b"400" not in everything(connection)
    assert refused_connections(client, "not HTTP") == before + len(NOT_HTTP) + 1


@pytest.mark.parametrize(
    ("ui", "hosts", "status"),
    [
        *((False, hosts, status) for hosts, status in ((b"", b"400 Bad"), (b"Host: a\r\nHost: b\r\n", b"400 Bad"))),
        *((True, b"Host: %b\r\n" % host, b"200 OK") for host in (b"localhost:8000", b"127.0.0.1", b"[::1]:8000")),
        (True, b"Host: evil.example\r\n", b"421 Misdirected"),
        (False, b"Host: proxy.example\r\n", b"200 OK"),
    ],
)
def test_a_request_names_one_host_and_that_of_a_server_with_a_page_is_its_own(fitted, ui, hosts, status):
    request = b"GET /health HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"
    with serving(fitted[0] / "model", ui=ui) as client, connected(client, 1, request) as (connection,):
        assert everything(connection).startswith(b"HTTP/1.1 " + status)


def test_600_clients_at_once_are_all_answered(fitted):
    with serving(fitted[0] / "model") as client, connected(client, 600, whole(ROW)) as sockets:
        assert all(each.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n") for each in sockets)


def test_a_body_that_never_ends_is_cut_off_and_a_client_that_leaves_is_no_error(client, caplog):
    chunked = HALF_HEADER + b"Transfer-Encoding: chunked\r\n\r\n"
    with connected(client, 1, chunked) as (connection,), suppress(OSError):  # the server closes it
        for _ in range(1000):
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        pytest.fail("the server has read 65 MB")
    with connected(client, 2, HALF_HEADER + b'Content-Length: 1000\r\n\r\n{"rows": ['):
        pass
    assert client.predict(ROW)[0] == 200
    assert 'path="/predict",status="500"' not in client("GET", "/metrics")[1]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_a_header_arrives_the_same_in_pieces_without_the_line_that_offers_another_protocol(step):
    connection, sent = object.__new__(Connection), b"POST / HTTP/1.1\r\nUpgrade: h2c\r\nHost: a\r\n\r\n"
    connection.held = b""
    pieces = [connection._without_upgrade(sent[start : start + step]) for start in range(0, len(sent), step)]
    assert b"".join(pieces) == sent.replace(b"Upgrade", b"x-ignored")
    assert not connection.held


@pytest.mark.parametrize("step", [1, 10_000])
def test_a_request_that_offers_another_protocol_is_answered_and_so_is_the_next_one(fitted, step):
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
    sent = whole(ROW).replace(b"Content-Length", upgrade + b"Content-Length") + whole(ROW)
    with serving(fitted[0] / "model", limits=Limits(idle_seconds=0.5)) as client:
        with connected(client, 1, b"") as (connection,):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(sent), step):
                connection.sendall(sent[start : start + step])
            received = everything(connection)
        assert received.count(b"HTTP/1.1 200 OK") == received.count(b"probabilities") == 2


def test_requests_sent_at_once_over_one_connection_are_answered_in_turn_until_it_is_idle(fitted):
    rows = [ROW | {"site": f"planet {number}"} for number in range(5)]
    with serving(fitted[0] / "model", limits=Limits(idle_seconds=0.5)) as client:
        with connected(client, 1, b"".join(map(whole, rows))) as (connection,):
            received = everything(connection)
        assert [received.count(f"planet {number}".encode()) for number in range(5)] == [1] * 5
        assert received.count(b"HTTP/1.1 200 OK") == 5
        assert refused_connections(client, "") == 0


def test_a_request_that_takes_too_long_is_refused(fitted, monkeypatch):
    delay_predictions(monkeypatch, lambda: time.sleep(0.5))
    with serving(fitted[0] / "model", limits=Limits(seconds=0.05)) as client:
        status, answer = client.predict(ROW)
    assert (status, answer["detail"]) == (503, "no response within 0.05 seconds; send fewer rows")


def test_with_too_many_requests_others_are_refused_and_counted_while_health_and_metrics_answer(fitted, monkeypatch):
    release = threading.Event()
    delay_predictions(monkeypatch, release.wait)
    with serving(fitted[0] / "model", limits=Limits(in_flight=2)) as client, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(client.predict, ROW) for _ in range(8)]
        try:
            while sum(each.done() for each in waiting) < 6:
                time.sleep(0.01)
            started = time.perf_counter()
            assert client("GET", "/health")[0] == 200
            metrics = client("GET", "/metrics")[1]
            assert time.perf_counter() - started < 5
        finally:
            release.set()
    assert 'gauge_requests_total{path="/predict",status="503"} 6.0' in metrics
    statuses = sorted(each.result()[0] for each in waiting)
    assert statuses == [200, 200, *[503] * 6]


def test_a_replaced_model_is_loaded_and_a_damaged_one_is_not(fitted, tmp_path):
    folder, _ = fitted
    shutil.copytree(folder / "model", tmp_path / "model")
    about = tmp_path / "model" / "model.json"
    original = about.read_text()
    with serving(tmp_path / "model", reload_seconds=0.02) as client:
        before = client.predict(ROW)[1]

        def health_until(condition) -> dict:
            while True:
                assert client.predict(ROW)[0] == 200
                state = client("GET", "/health")[1]
                if condition(state):
                    return state

        about.write_text(original.replace("wart", "worm"))  # the checksum no longer fits
        assert "checksum does not match" in health_until(lambda state: state["problem"])["problem"]
        assert client.predict(ROW)[1] == before
        other = GaugeClassifier(epochs=1, random_state=1, verbose=False)
        other.fit(clinic(folder / "photos", rows=40).drop(columns="photo"), "diagnosis").save(tmp_path / "model")
        state = health_until(lambda state: state["reloads"])
        assert state["problem"] is None
        assert client.predict(ROW)[1] != before
        assert client("POST", "/predict?strict=true", {"rows": [{"photo": picture()}]})[0] == 422
