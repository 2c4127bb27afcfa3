"""Connections of the server: how long they may take, how many a client may have, and what happens to those beyond.

uvicorn waits forever for the rest of a header, and for a client to read its response. Here both have a time-out, and a
client that opens too many connections loses the oldest of those that wait for it.
"""

import asyncio
import ipaddress
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gauge.deploy.requests import Limits


class Connections:
    """All connections of a server, by client; `on_refused` is called with the reason for each that is refused or closed.
    With an `own_host`, requests that name another one are refused: that of a page whose name was made to lead here."""

    def __init__(self, limits: Limits, on_refused: Callable[[str], None], own_host: str | None = None) -> None:
        self.own_host = own_host
        self.limits, self.on_refused, self.count = limits, on_refused, 0
        self.clients: defaultdict[str, list[Connection]] = defaultdict(list)
        self.sweep: asyncio.TimerHandle | None = None

    @property
    def protocol(self) -> Any:
        """What uvicorn makes for each connection."""
        return partial(Connection, self)

    def add(self, connection: "Connection") -> None:
        """Take a new connection. If there are too many, one of those that wait for their client is closed, or else it."""
        own = self.clients[connection.address]
        if len(own) >= self.limits.client_connections:
            _refuse_one(own, connection)
        elif self.count >= self.limits.connections:
            _refuse_one([each for group in self.clients.values() for each in group], connection)
        own.append(connection)
        self.count += 1
        if self.sweep is None:
            self._schedule()

    def remove(self, connection: "Connection") -> None:
        own = self.clients[connection.address]
        own.remove(connection)
        self.count -= 1
        if not own:
            del self.clients[connection.address]

    def _schedule(self) -> None:
        shortest = min(self.limits.header_seconds, self.limits.body_seconds, self.limits.idle_seconds)
        # how often connections are looked at within the shortest time-out
        self.sweep = asyncio.get_running_loop().call_later(shortest / 4, self._close_late)

    def _close_late(self) -> None:
        """Close the connections whose time is over, and look again later, as long as there are any."""
        self.sweep, now = None, time.monotonic()
        for connection in [each for group in self.clients.values() for each in group]:
            connection.close_if_late(now)
        if self.clients:
            self._schedule()


def _refuse_one(group: "list[Connection]", new: "Connection") -> None:
    """Close the connection that has waited longest for its client, or the new one if none has waited for a moment."""
    patient = [each for each in group if each.state != "response" and not each.refused]
    oldest = min(patient, key=lambda each: each.since, default=new)
    grace = 0.2  # seconds, for what a new connection has sent to be read
    (oldest if new.since - oldest.since > grace else new).refuse(503, "too many connections")


class Connection(HttpToolsProtocol):
    """One connection. `state` is what it is for since the time `since`: a `header` or the rest of a `body` is to come, the
    server works on its `response`, or it is `idle` between two requests."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.all, self.address, self.refused = connections, "", False
        self.state, self.since = "header", time.monotonic()
        # when the client last took something of a response, and what is left of it
        self.read, self.unsent = self.since, 0
        self.received = self.body_received = 0
        self.held = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        if self.state == "idle":
            self._enter("header")
        self.received += len(data)
        if self.state == "header":
            data = self._without_upgrade(data)
        if data:
            super().data_received(data)
        overhead = self.received - self.body_received
        # a request may have this many bytes of headers beside its body, and
        # such bytes for each byte of a body; chunks of one byte have five
        if overhead > 65_536 + 8 * self.body_received and not self.refused:
            self.refuse(431, "headers too large")

    def _without_upgrade(self, data: bytes) -> bytes:
        """Headers without one that asks for another protocol, after which the parser would read no body. A line that is not
        complete is held back, with the end of the one before."""
        head, end, rest = (self.held + data).partition(b"\r\n\r\n")
        last = -1 if end else head.rfind(b"\r\n") if b"\r\n" in head else head.find(b"\r")
        head, self.held = (head, b"") if last < 0 else (head[:last], head[last:])
        # to HTTP/2 or a web socket, which a server may ignore
        return re.sub(rb"(?i)\r\nupgrade:", b"\r\nx-ignored:", head) + end + rest

    def on_headers_complete(self) -> None:
        self._enter("body")
        hosts = [value.decode("latin-1") for name, value in self.headers if name == b"host"]
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            self.refuse(400, "no host, or two")
        elif self.all.own_host is not None and not _is_own("".join(hosts), self.all.own_host):
            self.refuse(421, "another host")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.body_received += len(body)
        if not self.refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.refused:
            return
        self.received = self.body_received = 0
        # a request whose header was refused has its response already, and its connection is idle
        self._enter({"body": "response", "header": "idle"}.get(self.state, self.state))
        super().on_message_complete()

    def on_response_complete(self) -> None:
        waiting = self.pipeline[-1][0] if self.pipeline else None  # the next request, which came with this one
        self._enter("idle" if waiting is None else "body" if waiting.more_body else "response")
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        if not self.refused:
            self.refuse(400, "not HTTP")

    def timeout_keep_alive_handler(self) -> None:
        """Nothing: `close_if_late` closes idle connections."""

    def close_if_late(self, now: float) -> None:
        """Close the connection if it has been in its state for too long, or if its client has long stopped reading."""
        limits, seconds, unsent = self.all.limits, now - self.since, self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self.unsent:
            self.read = now
        self.unsent = unsent
        if now - self.read > limits.idle_seconds:
            self.all.on_refused("response not read")
            self.transport.abort()
        elif self.state == "idle" and seconds > limits.idle_seconds and not unsent:
            self.transport.close()
        elif self.state == "header" and seconds > limits.header_seconds and not self.refused:
            self.refuse(408, "header time-out")
        elif self.state == "body" and seconds > limits.body_seconds and not self.refused:
            self.refuse(408, "body time-out")

    def refuse(self, status: int, reason: str) -> None:
        """Respond with the status and close the connection; only close it where the client would take that for
        the response to another request. What the client still sends is not read."""
        if self.state != "idle" and (self.cycle is None or self.cycle.response_complete or self.state == "body"):
            detail = {
                400: "this is no request of HTTP/1.1; check its lines, headers and length",
                421: "a server with a page for people serves under its IP address, localhost or --host",
                408: "the request was not complete in time; send it faster",
                431: "the headers are too large; send fewer or shorter ones",
                503: "there are too many connections; close some, and try again",
            }[status]
            body = json.dumps({"detail": detail})
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            self.transport.write((head + body).encode())
        self.refused = True
        self.all.on_refused(reason)
        self.transport.close()

    def _enter(self, state: str) -> None:
        self.state, self.since = state, time.monotonic()


def _is_own(given: str, own: str) -> bool:
    """Whether a server of this host is meant: by its name or by any address, which no other page can have as its name."""
    name = re.sub(r":\d*$", "", given).strip("[]").lower()
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return name in ("localhost", own.lower())
