"""The explorer's server on loopback: the page's own files, and one function.

It listens on 127.0.0.1 alone, refuses requests that name another host or come from another page,
limits their size, and serves nothing but the files of page/ and ``POST /respond``.
"""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..errors import InvalidValue
from .answer import respond

PAGE = Path(__file__).parent / "page"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
FILES = {f"/{path.name}": path for path in sorted(PAGE.iterdir()) if path.suffix in KINDS}
LARGEST = 64 * 1024  # bytes of a request
PATIENCE = 10.0  # seconds for a request to arrive
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Handler(BaseHTTPRequestHandler):
    """One request; everything that is not the page or a question of the page is refused."""

    server_version, sys_version, protocol_version, timeout = "bongref", "", "HTTP/1.1", PATIENCE
    wbufsize, disable_nagle_algorithm = -1, True  # one packet, at once: header and body together

    def do_GET(self) -> None:
        """Serve a file of the page."""
        path = FILES.get("/index.html" if self.path.split("?")[0] == "/" else self.path)
        if self._is_refused():
            return
        if path is None:
            self._refuse(HTTPStatus.NOT_FOUND, "path", self.path[:200], "one of the page's files")
            return
        self._send(HTTPStatus.OK, KINDS[path.suffix], path.read_bytes())

    def do_POST(self) -> None:
        """Answer a question of the page."""
        if self._is_refused():
            return
        if self.path != "/respond":
            self._refuse(HTTPStatus.NOT_FOUND, "path", self.path[:200], "/respond")
            return
        kind = self.headers.get("Content-Type", "").partition(";")[0]
        if kind != "application/json":
            what = "application/json"
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type", kind[:80], what)
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > LARGEST:
            self.close_connection = True  # what it sends is not read
            allowed = f"at most {LARGEST} bytes"
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Content-Length", length[:80], allowed
            )
            return
        try:
            request = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, "body", "something else", "a JSON object")
            return
        self._json(HTTPStatus.OK, respond(request))

    def _is_refused(self) -> bool:
        """Whether a request names another host, or comes from a page of another origin."""
        port = self.connection.getsockname()[1]
        hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "Host", host[:200], " or ".join(hosts))
            return True
        if origin is not None and origin not in [f"http://{h}" for h in hosts]:
            self._refuse(HTTPStatus.FORBIDDEN, "Origin", origin[:200], "this page")
            return True
        return False

    def _refuse(self, status: HTTPStatus, argument: str, value: str, allowed: str) -> None:
        message = f"{argument} must be {allowed}, got {value!r}"
        remedy = "open the address that `bongref explore` prints"
        error = {"argument": argument, "value": value, "allowed": allowed, "remedy": remedy}
        self.close_connection = True
        self._json(status, {"error": {**error, "message": f"{message}; {remedy}"}})

    def _json(self, status: HTTPStatus, data: Any) -> None:
        body = json.dumps(data, allow_nan=False).encode()
        self._send(status, "application/json", body)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No log: the terminal shows the address and how to stop."""


class Server(ThreadingHTTPServer):
    """The server; a port in use is refused, not shared."""

    daemon_threads, allow_reuse_address = True, False


def server(port: int = 0) -> Server:
    """A server on loopback that is bound and not yet running.

    Parameters
    ----------
    port : int
        0 takes any free one.

    Returns
    -------
    Server

    Raises
    ------
    InvalidValue
        If the port is in use or not allowed.
    """
    if not 0 <= port <= 65535:
        raise InvalidValue(f"port must be in 0 ... 65535, got {port}; 0 takes a free one")
    try:
        return Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InvalidValue(
            f"port must be free, got {port}: {error.strerror}; use --port 0 for any free one"
        ) from None


def serve(port: int, browser: bool, say: Callable[[str], None] = print) -> int:
    """Serve the explorer until Ctrl-C; the exit status is 0."""
    with server(port) as running:
        address = f"http://127.0.0.1:{running.server_address[1]}/"
        say(f"the explorer is at {address}   (Ctrl-C stops it)")
        if browser:
            webbrowser.open(address)
        try:
            running.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say("\nthe explorer has stopped")
    return 0
