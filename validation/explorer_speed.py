"""How long a step and its redraw take in the explorer, by both transports.

    python validation/explorer_speed.py

In chromium: from the click on Step to the frame after the redraw, and the same for each move of a
drag. Prints the median and the 95th percentile in milliseconds, and exits with status 1 if a median
is above the limit: 50 ms on loopback, 150 ms in WebAssembly.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "docs")]

import explorer_build  # noqa: E402
from browser import CHROMIUM, Browser  # noqa: E402
from static import folder, running  # noqa: E402

from bongref.explore.server import server  # noqa: E402

LIMITS = {"loopback": 50.0, "WebAssembly": 150.0}
TIMED = """(async (act) => {
  const html = document.documentElement, count = () => Number(html.dataset.answered || 0);
  const before = count(), began = performance.now();
  const seen = new Promise((done) => {
    const watch = new MutationObserver(() => {
      if (count() > before) { watch.disconnect(); done(); }
    });
    watch.observe(html, { attributes: true });
    setTimeout(done, 20000);
  });
  act();
  await seen;
  const answered = performance.now() - began;
  await new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 2000);
  });
  return [answered, performance.now() - began];
})"""
STEP = "() => document.getElementById('step').click()"
KEY = """() => document.querySelector('[data-handle="prior: mean"]').dispatchEvent(
  new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"""
SEED = """(() => { const n = document.getElementById('stream-seed'); n.value = '%d';
  n.dispatchEvent(new Event('input', {bubbles: true})); })()"""


def measure(browser: Browser, address: str) -> dict[str, np.ndarray]:
    """Milliseconds of steps and of drags: to the answer drawn, and to the next frame."""
    browser.go(address)
    browser.wait("document.documentElement?.dataset.ready === 'yes'", 180)
    out: dict[str, list[list[float]]] = {"step": [], "drag": []}
    for seed in (1, 2, 3):  # each stream is new: nothing of it is kept from an earlier answer
        browser.js(SEED % seed)
        browser.js("new Promise((done) => setTimeout(done, 300))")
        browser.js("document.getElementById('reset').click()")
        browser.js("new Promise((done) => setTimeout(done, 300))")
        for _ in range(12):
            out["step"].append(browser.js(f"{TIMED}({STEP})"))
    for _ in range(20):
        out["drag"].append(browser.js(f"{TIMED}({KEY})"))
    return {kind: np.array(rows[2:]) for kind, rows in out.items()}


def main() -> int:
    """Measure both transports and print a table."""
    if CHROMIUM is None:
        raise SystemExit("chromium is not on this machine; apt-get install chromium")
    browser, slow = Browser(), 0
    try:
        with tempfile.TemporaryDirectory() as work:
            said = explorer_build.build(Path(work) / "site")
            servers = {"loopback": server(0)}
            if "without" not in said:
                servers["WebAssembly"] = folder(Path(work) / "site")
            for name, own in servers.items():
                with running(own) as address:
                    for kind, rows in measure(browser, address).items():
                        (drawn, frame), (drawn95, frame95) = np.percentile(rows, [50, 95], axis=0)
                        slow += drawn > LIMITS[name]
                        said = (
                            f"{name:<12} {kind}: drawn after {drawn:5.1f} ms (95%: {drawn95:5.1f}),"
                        )
                        said += f" next frame after {frame:5.1f} ms (95%: {frame95:5.1f});"
                        print(f"{said} limit {LIMITS[name]:.0f}")
    finally:
        browser.close()
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
