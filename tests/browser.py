"""Debian's chromium driven through its debugging pipe, with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-features=BackForwardCache",  # a page that was left keeps its memory there
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """A headless browser with one page."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self.folder = tempfile.mkdtemp()
        read_in, self.write = os.pipe()
        self.read, write_out = os.pipe()
        command = [
            "bash",
            "-c",
            f'exec "$0" "$@" 3<&{read_in} 4>&{write_out}',
            str(CHROMIUM),
            *FLAGS,
            f"--user-data-dir={self.folder}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            command,
            pass_fds=(read_in, write_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_in)
        os.close(write_out)
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.errors: list[str] = []  # exceptions and failed loads of the page
        threading.Thread(target=self._listen, daemon=True).start()
        self.last, self.session = 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.bringToFront")  # a page in the background draws no frames
        self.size(width, height)

    def _listen(self) -> None:
        rest = b""
        while chunk := os.read(self.read, 1 << 16):
            *messages, rest = (rest + chunk).split(b"\0")
            for text in messages:
                message = json.loads(text)
                if "id" in message:
                    self.answers.put(message)
                elif message["method"] == "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(message["params"]["exceptionDetails"])[:1500])
                elif message["method"] == "Log.entryAdded":
                    entry = message["params"]["entry"]
                    if entry["level"] == "error":
                        self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.answers.get(timeout=120)
            if answer["id"] == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def size(self, width: int, height: int, dark: bool = False, scale: float = 1.0) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, address: str) -> None:
        self.call("Page.navigate", url="about:blank")  # a new hash alone would not load the page
        # a navigation that begins before the last one is over may never be answered
        self.wait("location.href === 'about:blank' && document.readyState === 'complete'")
        self.call("Page.navigate", url=address)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        out = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in out:
            raise RuntimeError(json.dumps(out["exceptionDetails"])[:1500])
        return out["result"].get("value")

    def wait(self, condition: str, seconds: float = 30.0) -> None:
        """Until a condition holds in the page."""
        end = time.monotonic() + seconds
        while not self.js(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} does not hold; errors: {self.errors}")
            time.sleep(0.02)

    def mouse(self, kind: str, x: float, y: float) -> None:
        held = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def drag(self, selector: str, dx: float, dy: float, steps: int = 5) -> None:
        """Drag the middle of an element by pixels of the screen."""
        x, y = self.middle(selector)
        self.mouse("mousePressed", x, y)
        for k in range(1, steps + 1):
            self.mouse("mouseMoved", x + dx * k / steps, y + dy * k / steps)
        self.mouse("mouseReleased", x + dx, y + dy)

    def middle(self, selector: str) -> tuple[float, float]:
        box = self.js(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)});"
            "n.scrollIntoView({block: 'center'}); const b = n.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def key(self, name: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, path: str | Path, full: bool = True) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        more = {"clip": clip, "captureBeyondViewport": True} if full else {}
        shot = self.call("Page.captureScreenshot", format="png", **more)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        try:
            self.session = None
            self.call("Browser.close")
        except Exception:
            self.process.kill()
        self.process.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)
