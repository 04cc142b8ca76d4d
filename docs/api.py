"""The pages of the API, from the docstrings: one for each public module or package."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import bongref

#: what is documented, in this order; the top level has a page of its own
MODULES = (
    *("models", "likelihoods", "dynamics", "predictive", "metrics", "plot", "sklearn"),
    *("gaussians", "curvature", "families.fc_nat", "families.fc_mom", "families.diag_nat"),
    *("families.diag_mom", "families.dlr", "oracle", "theory.conjugate", "theory.mirror"),
    *("theory.batch", "theory.literature", "paper", "conformance", "errors"),
)


def pages() -> dict[str, str]:
    """The index and a page for each module."""
    out = {"api/top": _page("bongref", bongref)}
    for name in MODULES:
        module = _module(name)
        if module is not None:
            out[f"api/{name}"] = _page(f"bongref.{name}", module)
    lines = [
        "# API",
        "",
        "Every public function and class, from its docstring; the examples are run by the tests. "
        "`help(br.run)` shows the same in Python.",
        "",
        "| module | what is in it |",
        "|---|---|",
        "| [bongref](top.md) | names, steps, updates, streams, filters, files |",
    ]
    for name in MODULES:
        module = _module(name)
        if module is not None:
            first = (module.__doc__ or "").strip().split("\n")[0].rstrip(".")
            lines.append(f"| [bongref.{name}]({name}.md) | {first.replace('|', chr(92) + '|')} |")
    tree = [":::{toctree}", ":hidden:", ":maxdepth: 1", ""]
    tree += [key.removeprefix("api/") for key in out] + [":::"]
    return {**out, "api/index": "\n".join([*lines, "", *tree, ""])}


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"bongref.{name}")
    except ImportError:
        return getattr(bongref, name, None)


def _page(title: str, module: Any) -> str:
    """One page: the public functions and classes that are defined in bongref."""
    names = getattr(module, "__all__", None) or [
        n for n, v in vars(module).items()
        if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
    ]  # fmt: skip
    lines = [f"# {title}", ""]
    first = (module.__doc__ or "").strip().split("\n\n")[0]
    lines += [" ".join(first.split()).replace("``", "`"), "", "```{eval-rst}"]
    for name in names:
        value = getattr(module, name, None)
        home = getattr(value, "__module__", "") or ""
        if not home.startswith("bongref") or not getattr(value, "__doc__", None):
            continue
        if inspect.isclass(value):
            lines += [f".. autoclass:: {home}.{value.__qualname__}", "   :no-index:", ""]
        elif inspect.isfunction(value):
            lines += [f".. autofunction:: {home}.{value.__qualname__}", "   :no-index:", ""]
    return "\n".join([*lines, "```", ""])
