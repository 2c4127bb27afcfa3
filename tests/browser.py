"""A real browser for tests: headless Chromium, driven over the pipes of its debugging protocol."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# CI installs one; escaping and addresses are checked without it
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome is installed to load the page in")


class Browser:
    """One tab. `requests` are the addresses that it has asked for, `messages` what its console says."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read, self.numbers = write, read, count(1)
        self.session: str | None = None
        self.buffer = b""
        self.requests: list[str] = []
        self.messages: list[str] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> Any:
        """The result of a method of the protocol."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        content = message | ({"sessionId": self.session} if self.session else {})
        os.write(self.write, json.dumps(content).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            self._note(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            part = os.read(self.read, 2**20)
            assert part, "the browser has ended"
            self.buffer += part
        content, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(content)

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.messages.append(json.dumps(details))

    def open(self, address: str, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Load a page in a window of this size."""
        phone = width < 600
        self(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1 + phone, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is."""
        result = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        self.value(
            f"new Promise(done => {{const look = () => ({expression}) ? done() : setTimeout(look, 20); look()}})"
        )

    def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, text=text)

    def choose_file(self, selector: str, path: Path) -> None:
        root = self("DOM.getDocument")["root"]["nodeId"]
        node = self("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self("DOM.setFileInputFiles", nodeId=node, files=[str(path)])


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile is in a folder, and which reaches nothing but this machine."""
    read_command, write = os.pipe()
    read, write_answer = os.pipe()
    script = f'exec {BROWSER} "$@" 3<&{read_command} 4>&{write_answer}'
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
        *(f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"),
    ]
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *options], pass_fds=(read_command, write_answer), stderr=subprocess.DEVNULL
    )
    os.close(read_command)
    os.close(write_answer)
    try:
        yield Browser(write, read)
    finally:
        os.close(write)
        os.close(read)
        process.terminate()
        process.wait()


def visit(path: Path, folder: Path) -> tuple[str, list[str], list[str]]:
    """The page after loading, what it requested beyond itself, and its console messages."""
    with browser(folder) as tab:
        tab.open(path.as_uri(), 1280)
        requests = [each for each in tab.requests if each != path.as_uri() and not each.startswith("data:")]
        return tab.value("document.documentElement.outerHTML"), requests, tab.messages
