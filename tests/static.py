"""A folder served on loopback, as any static host would: for the explorer in WebAssembly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Quiet(SimpleHTTPRequestHandler):
    """Without a log."""

    extensions_map = {  # noqa: RUF012  a class attribute of the base
        **SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
    }

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server that runs in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def folder(path: Path) -> ThreadingHTTPServer:
    """A server of the files of a folder."""
    return ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(path)))
