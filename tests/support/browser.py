"""A headless Chromium, driven over its DevTools protocol."""

import contextlib
import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# `innerWidth` of a phone grows with a page that is too wide.
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


class Browser:
    """One page, ``width`` x ``height``, light or dark; ``problems`` are the errors it has logged."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        assert CHROMIUM is not None
        self._process = subprocess.Popen(
            [
                CHROMIUM, "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                "--no-first-run", "--disable-background-networking", "--remote-debugging-port=0",
                f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._undo = contextlib.ExitStack()
        self._undo.callback(self._process.communicate)
        self._undo.callback(self._process.kill)
        try:
            self._begin(width, height, dark)
        except BaseException:
            self.close()
            raise

    def _begin(self, width: int, height: int, dark: bool) -> None:
        assert self._process.stderr is not None
        port = next(
            found[1]
            for line in self._process.stderr
            if (found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line))
        )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = json.load(answer)
        where = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self._socket = self._undo.enter_context(connect(where, max_size=None))
        self._ids = itertools.count(1)
        self.problems: list[str] = []
        self.call("Runtime.enable")
        self.call("Log.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(60))
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(message["params"]["exceptionDetails"]["exception"]["description"])
            elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.problems.append(message["params"]["entry"]["text"])
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def ask(self, script: str) -> Any:
        """What an expression gives."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.ask(script):
            assert time.monotonic() < deadline, f"waited in vain for {script}"
            time.sleep(0.05)

    def press(self, key: str) -> None:
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def close(self) -> None:
        self._undo.close()
