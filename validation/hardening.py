"""docs/hardening.md: what was tried to break, with which command, and what came out.

python -m validation.hardening     # from validation/results, after the commands that it names
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from validation import digits, long_streams

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "hardening.md"

HEAD = """# Hardening

What was tried to break, the command that tries it, and its last result. Made by
`python -m validation.hardening` from the files that the commands write to `validation/results`.

| what | command | result |
|---|---|---|
"""

DIGITS = """
## Digits: a right value or a report

Rounding takes digits from a step in two ways: the problem is ill-conditioned, or the form that is
computed is. Where a form keeps the digits, it is the one that runs:

* **Mean of bong and blr in FC and DLR.** Σ_t g, with g = S e, is a difference of two large numbers
  where an observation is very informative. The estimators hand over e, the Pearson residual (`Curv.e`;
  1/√M for mc-ef, 1 for lin-ef), and Σ_t S e is the gain times the residual: in FC K e, as in a Kalman
  filter; in DLR by the SVD of Υ^{-1/2}W̃. A `Curv` without e goes the old way, and is reported.
* **Marginal variances and KL of DLR states** do not take 1/Υ − …, where W is large compared with Υ.
* **The compiled path** leaves a step to the reference where it would lose half of the digits.

Where no form of a state can keep them, it is said: `info.lost` of `br.step` and `br.update` estimates
the decimal digits, of 16, that rounding may have taken, `info.accurate` is False beyond half of them,
and `br.run` warns once (`LostDigits`; `result.info.lost`). The estimate comes from taking the step
again with inputs that differ in their last bits, for bong and blr also in other units of θ
(`bongref/accuracy.py`). A covariance matrix, for example, cannot hold
the variance of a direction that is 1e-12 times that of the others to more than 4 digits, whatever
form computes it; the precision of DLR can.
"""


def read(name: str) -> Any:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def rows() -> list[tuple[str, str, str]]:
    return [
        ("extreme inputs", "python -m validation.extremes", _extremes(read("extremes"))),
        ("[long streams](long-streams.md)", "python -m validation.long_streams", _long()),
        ("[digits against conditioning](digits.md)", "python -m validation.digits", _digits()),
        ("supply chain", "python -m validation.supply_chain", _supply(read("supply-chain"))),
        ("mutations of the mathematics", "python validation/mutation.py", _mutation()),
        (
            "mutations, by the tests",
            "python -m validation.suite_mutation --sample 100",
            _suite(read("suite-mutation")),
        ),
        (
            "fuzzing of what is read",
            "python -m validation.fuzz --seconds 3600 --corpus DIR",
            _fuzz(read("fuzz")),
        ),
        ("kills and failing writes", "python -m validation.faults", _faults(read("faults"))),
        ("kills at random times", "python -m validation.kills --kills 30", "see the command"),
        (
            "stateful tests",
            "BONGREF_EXAMPLES=300 python -m pytest tests/test_stateful.py",
            "`Filter`, `run` with resume and the store of results against plain models",
        ),
        (
            "same bits in every process",
            "python -m validation.reproducible",
            _reproducible(read("reproducible")),
        ),
        (
            "versions of Python's packages",
            "python -m validation.versions",
            "see the command; `--python` takes another interpreter",
        ),
    ]


def _extremes(table: Any) -> str:
    if not table:
        return "not run"
    count = {k: sum(row.get(k, 0) for row in table.values()) for row in table.values() for k in row}
    total = sum(count.values())
    said = ", ".join(f"{n} {k}" for k, n in sorted(count.items(), key=lambda kn: -kn[1]))
    return f"{total} updates: {said}; {count.get('WRONG', 0)} wrong and not reported"


def _long() -> str:
    results = read("long-streams")
    if not results:
        return "not run"
    done = long_streams.finished(results)
    worst = max(max(r["errors"].items(), key=lambda e: int(e[0]))[1][0] for r in done)
    early = sum(bool(r["ended"]) for r in results.values())
    valid = all(r["valid"] and r["symmetric"] for r in results.values())
    return (
        f"{len(results)} streams of 100,000 or 1,000,000 observations, {early} of which their method "
        f"cannot finish; largest error of a mean at the end {worst:.0e} standard deviations; "
        f"positive definite and symmetric: {'always' if valid else 'NO'}"
    )


def _digits() -> str:
    results = read("digits")
    if not results:
        return "not run"
    lost = digits.too_much(results)
    forms = sum(e is not None for r in results.values() for e in r["forms"].values())
    return f"{forms} updates, {len(lost)} of which lose more than their conditioning explains"


def _supply(found: Any) -> str:
    if not found:
        return "not run"
    same = ", ".join(
        f"{k} {'same' if v else 'DIFFERENT'} bytes twice" for k, v in found["same"].items()
    )
    tests = ", ".join(f"{k}: {t.get('tests', 'not installed')}" for k, t in found["tests"].items())
    return f"{same}; tests outside the source tree: {tests}; pip-audit: {found['pip-audit']}"


def _suite(found: Any) -> str:
    if not found:
        return "not run"
    reasons = json.loads((RESULTS.parent / "equivalent.json").read_text(encoding="utf-8"))
    total = sum(m["changes"] for m in found.values())
    tried = sum(len(m["tried"]) for m in found.values())
    left = [s for m in found.values() for s in m["survivors"]]
    listed = sum(s in reasons for s in left)
    return (
        f"{tried} of {total} changes of {len(found)} modules tried, at random within groups of them: "
        f"{tried - len(left)} noticed, {listed} equivalent with a reason in "
        f"`validation/equivalent.json`, {len(left) - listed} not noticed"
    )


def _fuzz(found: Any) -> str:
    if not found:
        return "not run"
    total = sum(one["executions"] for one in found.values())
    each = ", ".join(f"{name} {one['executions']:,}" for name, one in sorted(found.items()))
    faults = sum(one["faults"] for one in found.values())
    return (
        f"{total:,} executions of {len(found)} readers, {faults} of which end in a fault ({each})"
    )


def _faults(found: Any) -> str:
    if not found:
        return "not run"
    kinds: dict[str, int] = {}
    for job in found.values():
        for kind, n in job["faults"].items():
            kinds[kind] = kinds.get(kind, 0) + n
    bad = sum(len(job["wrong"]) for job in found.values())
    return (
        f"{', '.join(found)}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}; {bad} lost "
        "or damaged something, left a traceback or another result"
    )


def _reproducible(found: Any) -> str:
    if not found:
        return "not run"
    ways = f"{len(found['digests'])} ways of starting a process or a thread"
    orders = found["smoke tests in random orders"].values()
    passed = sum(text.startswith("ok") for text in orders)
    return (
        f"{ways}: {'the same bits' if found['same'] else 'DIFFERENT bits'}; smoke tests in "
        f"{len(orders)} random orders: {passed} passed"
    )


def _mutation() -> str:
    found = (read("mutation") or {}).get("automatic")
    if not found:
        return "not run"
    return (
        f"{found['mutants']} single edits of the updates and estimators: {found['caught']} caught by "
        f"the vectors, {found['equivalent']} equivalent, {len(found['missed'])} missed"
    )


def main() -> None:
    table = "".join(f"| {what} | `{command}` | {said} |\n" for what, command, said in rows())
    PAGE.write_text(HEAD + table + DIGITS, encoding="utf-8")


if __name__ == "__main__":
    main()
