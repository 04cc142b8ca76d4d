"""One target under atheris: ``python -m validation.fuzz.worker TARGET [options of libFuzzer]``.

The modules that read are instrumented, so that an input which reaches a new branch is kept and
changed further. Inputs that are JSON are changed as values: one is dropped, doubled, exchanged with
another or with an odd one.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import atheris

READERS = ["bongref.storage", "bongref.checkpoints", "bongref.checks", "bongref.tables"]
READERS += ["bongref.experiments", "bongref.conformance.vectors", "bongref.conformance.answers"]
READERS += ["bongref.conformance.runner", "bongref.explore", "bongref.states", "bongref.online"]
READERS += ["bongref.dynamics", "bongref.grid", "bongref.models", "zipfile", "csv"]

with atheris.instrument_imports(include=READERS):
    from validation.fuzz.targets import LONGEST, TARGETS, Forbidden, attempt

ODD: list[Any] = [None, True, 0, -1, 1.5, 2**31, 2**63, -(2**70), 1e308, 5e-324, float("nan"), "",
                  "nan", "\ud800", "a" * 99, [], {}, [[]], [None], {"": None}, [[1.0]]]  # fmt: skip
WHOLE_BYTES = 0.3  # of the changes to JSON are changes of its bytes


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        one = todo.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        found += [(one, k) for k in keys]
        todo += [one[k] for k in keys if isinstance(one[k], (dict, list))]
    return found


def changed(value: Any, rng: random.Random) -> Any:
    """A JSON value with one change."""
    whole = [value]
    spots = places(whole)
    where, key = rng.choice(spots)
    kind = rng.randrange(6)
    if kind == 0 and where is not whole:
        del where[key]
    elif kind == 1:
        inside, other = rng.choice(spots)
        where[key] = json.loads(json.dumps(inside[other]))
    elif kind == 2 and isinstance(where, list):
        where.insert(key, where[key])
    elif kind == 3 and isinstance(where, dict):
        where[rng.choice([*where, "x", ""])] = where.pop(key)
    elif kind == 4 and type(where[key]) in (int, float):
        where[key] = rng.choice([-1, 0.5, 2, 10, 1e-300]) * where[key] + rng.randrange(-1, 2)
    else:
        where[key] = json.loads(json.dumps(rng.choice(ODD)))
    return whole[0]


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """The custom mutator of libFuzzer for JSON."""
    rng = random.Random(seed)
    if rng.random() > WHOLE_BYTES:
        try:
            value = json.loads(data)
            for _ in range(rng.randrange(1, 4)):
                value = changed(value, rng)
            text = json.dumps(value).encode()
            return text[:most]
        except (ValueError, RecursionError, OverflowError):
            pass
    return bytes(atheris.Mutate(data, most))


def main(name: str, options: list[str]) -> None:
    target = TARGETS[name]
    corpus = Path(next(o for o in options if not o.startswith("-")))
    for k, seed in enumerate(target.seeds()):
        with contextlib.suppress(Forbidden):  # the first time imports and compiles what is needed
            attempt(target, seed)
        attempt(target, seed)
        (corpus / f"seed-{k}").write_bytes(seed)
    more = {"custom_mutator": mutate} if target.json else {}
    fixed = [f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=2500", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *fixed, *options], lambda data: attempt(target, data), **more)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
