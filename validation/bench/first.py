"""How long a new process takes to its first result: ``python -m validation.bench.first [--backend
fast] [--bong CHECKOUT --python PATH]``.

One method of each family on the MLP, in three situations: compiled code is nowhere (an empty
NUMBA_CACHE_DIR), compiled code is on disk, and the peer, which imports jax and compiles. "process"
is the whole life of the process, as the one that started it sees it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from .worker import ROOT, short

CELLS = (
    *(f"bong-lin-hess-{family}@mlp" for family in ("fc", "fc_mom", "diag", "diag_mom", "dlr")),
    "bong-mc-ef-diag@mlp",
)


def child(cell: str, backend: str) -> dict[str, float]:
    """Import and run once, then once more, in this process."""
    start = time.perf_counter()
    import bongref as br

    from . import cells, ours

    br.run, br.models  # noqa: B018  loaded at first use
    imported = time.perf_counter()
    one = cells.parse(cell)
    var, alpha = cells.TRIES[one.rule][0]
    side = ours.Ours(backend)
    side.args = ours.build(one, cells.NETS[one.net], var, alpha, 1)
    side.run(1)
    done = time.perf_counter()
    side.run(1)
    return {
        "import s": imported - start,
        "first run s": done - imported,
        "second run s": time.perf_counter() - done,
    }


def peer_child(cell: str, checkout: str) -> dict[str, float]:
    """The same for the peer: import, compile and run."""
    from . import cells, peer

    side = peer.Peer(checkout, "float32")
    start = time.perf_counter()
    one = cells.parse(cell)
    var, alpha = cells.TRIES[one.rule][0]
    side.data, side.current = cells.data(cells.NETS[one.net], 1), side.agent(one, var, alpha)
    side.compile(1)
    side.run()
    done = time.perf_counter()
    side.run()
    return {
        "import s": side.import_seconds,
        "first run s": done - start,
        "second run s": time.perf_counter() - done,
    }


def spawn(python: str, cell: str, env: dict[str, str], *args: str) -> dict[str, Any]:
    """What a child says, and the seconds that its process lived."""
    start = time.perf_counter()
    command = [python, "-m", "validation.bench.first", "--child", cell, *args]
    given = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }  # byte code is kept, as by default
    done = subprocess.run(command, cwd=ROOT, env={**given, **env}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        return {
            "error": short(RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1]))
        }
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "process s": seconds}


def measure(
    cells: tuple[str, ...], backend: str, bong: str | None, python: str
) -> Iterator[dict[str, Any]]:
    """A row for each cell and situation."""
    for cell in cells:
        with tempfile.TemporaryDirectory() as folder:
            env = {"NUMBA_CACHE_DIR": folder}
            yield {
                "cell": cell,
                "what": "cold",
                **spawn(sys.executable, cell, env, "--backend", backend),
            }
            warm = [spawn(sys.executable, cell, env, "--backend", backend) for _ in range(2)]
            yield {
                "cell": cell,
                "what": "cached",
                **min(warm, key=lambda row: row.get("process s", float("inf"))),
            }
        if bong:
            yield {"cell": cell, "what": "peer", **spawn(python, cell, {}, "--bong", bong)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="fast")
    parser.add_argument("--bong", default=os.environ.get("BONGREF_PEER_BONG"))
    parser.add_argument("--python", default=os.environ.get("BONGREF_PEER_PYTHON", sys.executable))
    given = parser.parse_args()
    if given.child:
        as_peer = "--bong" in sys.argv
        print(
            json.dumps(
                peer_child(given.child, given.bong)
                if as_peer
                else child(given.child, given.backend)
            )
        )
    else:
        for row in measure(CELLS, given.backend, given.bong, given.python):
            print(json.dumps(row), flush=True)
