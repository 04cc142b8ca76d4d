"""Adapters of ours for other implementations (peers), for ``bongref check
validation.peers.peer_NAME:Adapter`` from the repository's root.

A peer is never part of this repository: it is installed, or its checkout is named by an environment
variable, by whoever runs the comparison. A module whose peer is not there raises ImportError with a
message that says so.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "validation" / "results"
FINDINGS = Path(__file__).parent / "findings.json"


class Peer(NamedTuple):
    """An implementation: what it is called, the module of its adapters, and which cases each of
    these runs (all without limits).
    """

    title: str
    module: str
    adapters: dict[str, dict[str, Any]]
    where: str  # how to get it
    copy_of: str = ""  # the peer whose code it has a copy of, and so its differences


LIN = {"levels": ["L2", "L3"], "methods": ["*-lin-*"]}
SINGLE = {"levels": ["L0", "L2"]}
COPY = {"levels": ["L2"], "methods": ["bong-lin-hess-fc", "bog-lin-hess-fc"]}

PEERS = {
    "bong": Peer(
        "petergchang/bong",
        "peer_bong",
        {"Adapter": {}, "Exact": LIN, "Adapter32": SINGLE},
        "BONGREF_PEER_BONG",
    ),
    "rebayes": Peer(
        "probml/rebayes",
        "peer_rebayes",
        {"Adapter": {}, "Exact": {}, "Adapter32": SINGLE},
        "BONGREF_PEER_REBAYES",
    ),
    "rebayes_mini": Peer(
        "gerdm/rebayes-mini",
        "peer_rebayes_mini",
        {"Adapter": {}, "SquareRoot": {}, "Kalman": {}, "Expfam": {}, "Adapter32": SINGLE},
        "BONGREF_PEER_REBAYES_MINI",
    ),
    "dynamax": Peer(
        "dynamax",
        "peer_dynamax",
        {
            "Adapter": {},
            "CMGF": {},
            "LGSSM": {},
            "LGSSMDiagonal": {},
            "Parallel": {},
            "Information": {},
        },
        "pip install dynamax",
    ),
    "posteriors": Peer("posteriors", "peer_posteriors", {"Adapter": {}}, "pip install posteriors"),
    "filterpy": Peer(
        "filterpy",
        "peer_filterpy",
        {"Adapter": {}, "OneHot": {}, "Combined": {}, "Kalman": {}},
        "pip install filterpy",
    ),
    "receiver_torch": Peer(
        "GersonGuy/adaptive-deep-receiver-Torch",
        "peer_receiver_torch",
        {"Adapter": {}},
        "BONGREF_PEER_RECEIVER_TORCH",
    ),
    "nano": Peer("TianyiMehdi/NANO-filter", "peer_nano", {"Adapter": {}}, "BONGREF_PEER_NANO"),
    "receivers": Peer(
        "gusakovy/adaptive-deep-receivers",
        "peer_receivers",
        {
            "Adapter": COPY,
            "Builder": {"levels": ["L2"], "methods": ["bong-lin-hess-*", "blr-lin-hess-fc"]},
        },
        "BONGREF_PEER_RECEIVERS",
        copy_of="bong",
    ),
    "ivon": Peer("ivon-opt", "peer_ivon", {"Adapter": {}}, "pip install ivon-opt torch"),
    "river": Peer("river", "peer_river", {"Adapter": {}, "Many": {}}, "pip install river pandas"),
}


def load_findings() -> list[dict[str, Any]]:
    """Everything that was found, as data."""
    return json.loads(FINDINGS.read_text(encoding="utf-8"))


def write_json(file: Path, value: Any) -> None:
    """Indented JSON, never NaN."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def digest(folder: Any = None) -> dict[str, Any]:
    """Which vectors these are: how many cases, and a hash of what they ask and want; flags, which
    say why a case is there, are left out.
    """
    from bongref.conformance import vectors

    cases = sorted(vectors.load(folder=folder), key=lambda case: case.id)
    plain = [
        {key: value for key, value in vectors.plain(case).items() if key != "flags"}
        for case in cases
    ]
    return {
        "schema": vectors.SCHEMA,
        "cases": len(cases),
        "sha256": hashlib.sha256(json.dumps(plain).encode()).hexdigest(),
    }


def load(package: str, variable: str, *modules: str) -> list[ModuleType]:
    """The modules of a peer, from the checkout that the environment variable names or from what is
    installed.
    """
    folder = os.environ.get(variable)
    if folder:
        if not Path(folder, package).is_dir():
            raise ImportError(f"{variable}={folder}: there is no folder {package!r} in it")
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError as error:
        where = (
            f"from {variable}={folder}"
            if folder
            else f"({variable} is not set to a checkout of it)"
        )
        raise ImportError(f"{package} cannot be imported {where}: {error}") from error


def version(package: ModuleType) -> str:
    """The commit of a peer's checkout, or else the version of the installed package."""
    folder = Path(
        package.__path__[0] if hasattr(package, "__path__") else str(package.__file__)
    ).resolve()
    folder = folder if folder.is_dir() else folder.parent
    try:
        commit = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
        root = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            check=True,
        )
        if Path(root.stdout.strip()) == folder.parent:
            return commit.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pass
    try:
        return importlib.metadata.version(package.__name__.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
