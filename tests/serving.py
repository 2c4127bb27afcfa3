"""A real server for tests, and a client."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gauge.deploy.serve import create_server


class Client:
    """Requests to one server; every answer as its status and JSON."""

    def __init__(self, port: int):
        self.port = port

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, content, kind)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return response.status, json.loads(text) if "json" in response.getheader("content-type", "") else text.decode()

    def predict(self, *rows: object) -> tuple[int, object]:
        return self("POST", "/predict", {"rows": rows})


@contextmanager
def serving(path: Path, **options: object) -> Iterator[Client]:
    server = create_server(path, port=0, **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
