"""How objects show themselves: short text, and HTML for notebooks.

A repr never raises and never costs more than a pass over the arrays that it describes: no
factorisation, no product of large matrices. What is not finite or not positive is named.

>>> from bongref import show
>>> show.time_text(3.2e-5), show.bytes_text(3_000_000)
('32 us', '2.9 MiB')
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

TableBlock = tuple[Sequence[str], Sequence[Sequence[str]]]  # head, rows
Block = str | list[str] | TableBlock
FLOPS = 3e7  # operations that a repr may take
WIDTH = 100


# --- numbers --------------------------------------------------------------------------------------


def number(value: Any) -> str:
    """A number to three or four digits."""
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError, OverflowError):
        return str(value)


def interval(values: Any) -> str:
    """``[low, high]`` of the finite entries, and how many are not finite."""
    a = np.asarray(values, dtype=float).ravel()
    finite = a[np.isfinite(a)]
    bad = a.size - finite.size
    if a.size == 0:
        return "empty"
    said = f"[{number(finite.min())}, {number(finite.max())}]" if finite.size else ""
    return " and ".join(filter(None, (said, f"{bad} not finite" if bad else "")))


def time_text(seconds: float) -> str:
    """A time with its unit."""
    if seconds >= 120:
        return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def bytes_text(n: int) -> str:
    """A number of bytes with its unit."""
    size = float(n)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.2g} {unit}" if size < 10 and unit != "B" else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


# --- blocks: paragraphs, lists, tables ------------------------------------------------------------


def text_blocks(blocks: Sequence[Block], width: int = WIDTH) -> str:
    """Paragraphs, lists and tables as text."""
    return "\n".join(_as_text(block, width) for block in blocks)


def _as_text(block: Block, width: int) -> str:
    if isinstance(block, str):
        return textwrap.fill(block, width)
    if isinstance(block, list):
        return "\n".join(
            textwrap.fill(line, width, initial_indent="  - ", subsequent_indent="    ")
            for line in block
        )
    head, rows = block
    widths = [max(len(str(row[k])) for row in (head, *rows)) for k in range(len(head))]
    last = len(head) - 1
    left = sum(widths[:last]) + 2 * last + 2
    out = []
    for row in (head, *rows):
        start = "  " + "".join(f"{row[k]:<{widths[k]}}  " for k in range(last))
        remaining = max(30, width - left)
        wrapped = textwrap.wrap(str(row[last]), remaining) or [""]
        out.append((start + wrapped[0]).rstrip())
        out += [" " * left + more for more in wrapped[1:]]
    return "\n".join(out)


def html_blocks(blocks: Sequence[Block]) -> str:
    """The same as HTML that takes its colours from the notebook."""
    parts = []
    for block in blocks:
        if isinstance(block, str):
            parts.append(f"<p style='margin:0.3em 0'>{escape(block)}</p>")
        elif isinstance(block, list):
            items = "".join(f"<li>{escape(line)}</li>" for line in block)
            parts.append(f"<ul style='margin:0.2em 0'>{items}</ul>")
        else:
            head, rows = block
            cell = "style='text-align:left;vertical-align:top'"
            first = "".join(f"<th {cell}>{escape(str(c))}</th>" for c in head)
            body = "".join(
                "<tr>" + "".join(f"<td {cell}>{escape(str(c))}</td>" for c in row) + "</tr>"
                for row in rows
            )
            top = f"<thead><tr>{first}</tr></thead>" if any(head) else ""
            parts.append(f"<table>{top}<tbody>{body}</tbody></table>")
    return f"<div>{''.join(parts)}</div>"


def fields_html(title: str, pairs: Sequence[tuple[str, str]]) -> str:
    """A title above names and values."""
    rows = [(name, value) for name, value in pairs]
    return html_blocks([title, (("", ""), rows)])


# --- states ---------------------------------------------------------------------------------------


def state_fields(q: Any) -> list[tuple[str, str]]:
    """Family, P, rank, the range of the means and of the standard deviations of a state."""
    mu = np.asarray(q.mu, dtype=float)
    out = [("P", str(mu.size))]
    if hasattr(q, "W"):
        out.append(("rank", str(np.shape(q.W)[1])))
    out.append(("mu", f"in {interval(mu)}"))
    var, exact = _variances(q)
    good = var[var > 0]
    if good.size:
        std = interval(np.sqrt(good))
        out.append(("std", f"in {std}" if exact else f"within {std} (bounds)"))
    return out + _faults(q, var)


def _faults(q: Any, var: Any) -> list[tuple[str, str]]:
    """What shows without a factorisation that a state is not, or may not be, positive definite."""
    out = []
    if hasattr(q, "W"):
        Ups = np.asarray(q.Ups, dtype=float)
        if bad := int(np.count_nonzero(~(Ups > 0))):
            out.append(("Ups", f"not positive in {bad} of {Ups.size} entries"))
        if not np.all(np.isfinite(np.asarray(q.W, dtype=float))):
            out.append(("W", "not finite"))
    elif bad := int(np.count_nonzero(~(var > 0))):
        worst = "nan" if np.any(np.isnan(var)) else number(np.min(var))
        out.append(("var", f"not positive in {bad} of {var.size} entries, the smallest {worst}"))
    if hasattr(q, "Sigma") and not np.all(np.isfinite(np.asarray(q.Sigma, dtype=float))):
        out.append(("Sigma", "not finite"))
    return out


def _variances(q: Any) -> tuple[Any, bool]:
    """Marginal variances, or where they take too long both of their bounds; are they exact?"""
    if hasattr(q, "var"):
        return np.asarray(q.var, dtype=float), True
    if hasattr(q, "Sigma"):
        return np.diagonal(np.asarray(q.Sigma, dtype=float)), True
    Ups, W = np.asarray(q.Ups, dtype=float), np.asarray(q.W, dtype=float)
    positive = bool(np.all(np.isfinite(Ups)) and np.all(Ups > 0) and np.all(np.isfinite(W)))
    if not positive:
        return np.zeros(0), False
    if W.shape[1] ** 2 * len(Ups) <= FLOPS:
        from .gaussians import marginal_variance
        from .states import DLR

        return marginal_variance(DLR(q.mu, Ups, W)), True
    return np.concatenate([1 / Ups, 1 / (Ups + np.einsum("ij,ij->i", W, W))]), False


def state_text(q: Any) -> str:
    """One line about a state; it never raises."""
    kind = type(q).__name__
    try:
        parts = [f"{k}={v}" if v.isdigit() else f"{k} {v}" for k, v in state_fields(q)]
    except Exception:  # not arrays of numbers, or not of matching shapes
        shapes = (f"{k} of shape {np.shape(v)}" for k, v in zip(q._fields, q, strict=True))
        return f"<{kind}: not a state, {', '.join(shapes)}>"
    return f"<{kind}: {', '.join(parts)}>"


def state_html(q: Any) -> str:
    """A small table about a state; it never raises."""
    try:
        return fields_html(f"{type(q).__name__} state", state_fields(q))
    except Exception:
        return html_blocks([state_text(q)])


# --- arrays ---------------------------------------------------------------------------------------


def array_text(value: Any, most: int = 6) -> str:
    """A small array in full, a large one by its shape and range."""
    try:
        a = np.asarray(value)
        if a.size <= most:
            return np.array2string(a, precision=4, separator=", ").replace("\n", "")
        return f"array of shape {a.shape} in {interval(a)}"
    except Exception:
        return type(value).__name__


# --- results --------------------------------------------------------------------------------------


def run_fields(info: Any) -> list[tuple[str, str]]:
    """How a stream was run."""
    try:
        each = f", {time_text(info.seconds / info.steps)} a step" if info.steps else ""
        missing = f" ({info.missing} without an observation)" if info.missing else ""
        why = f" ({info.reason})" if info.reason else ""
        out = [
            ("method", repr(info.method)),
            ("steps", f"{info.steps}{missing}"),
            ("backend", f"{info.backend}{why}"),
            ("time", f"{time_text(info.seconds)}{each}"),
        ]
        return out + ([("traces", str(len(info.traces)))] if info.traces else [])
    except Exception:  # a record that was made by hand
        return [(k, f"{v!r:.60}") for k, v in vars(info).items()]


def last_metrics(rows: Any) -> str:
    """The last row of metrics in words."""
    if not rows:
        return "none"
    last = rows[-1]
    values = ", ".join(f"{k} {number(v)}" for k, v in last.items() if k != "t")
    return f"{len(rows)}, the last at t={last.get('t')}: {values}"


def result_text(result: Any) -> str:
    """A few lines about a result; it never raises."""
    lines = [f"<Result after step {result.t}>"]
    lines += [f"  {k:<8} {v}" for k, v in _result_fields(result)]
    return "\n".join(lines)


def result_html(result: Any) -> str:
    """A small table about a result; it never raises."""
    return fields_html(f"Result after step {result.t}", _result_fields(result))


def _result_fields(result: Any) -> list[tuple[str, str]]:
    try:
        own = [*run_fields(result.info), ("state", repr(result.state))]
        return [*own, ("rows", last_metrics(result.rows))]
    except Exception:  # a result that was made by hand
        return [(k, f"{v!r:.60}") for k, v in result._asdict().items()]


# --- models ---------------------------------------------------------------------------------------


def model_text(model: Any) -> str:
    """The kind of a model, its sizes and activation, and its numbers of parameters and outputs."""
    (_, kind), *rest = _model_fields(model)
    return f"<{', '.join([kind, *(f'{k}={v}' for k, v in rest)])}>"


def model_html(model: Any) -> str:
    """A small table about a model."""
    return fields_html("Model", _model_fields(model))


def _model_fields(model: Any) -> list[tuple[str, str]]:
    shown = ("sizes", "in_shape", "features", "kernel", "hidden", "activation")
    own = [k for k in shown if model.spec.get(k) is not None]
    own = [k for k in own if k != "in_shape" or model.kind == "cnn"]
    pairs = [("kind", model.kind), *((k, str(model.spec[k])) for k in own)]
    return [*pairs, ("P", str(model.n_params)), ("C", str(model.n_outputs or "unknown"))]


def remedy_for_inputs(model: Any, shape: tuple[int, ...]) -> str:
    """The end of a message about an input of the wrong length: the model that would take it."""
    if model.kind not in ("linear", "mlp") or len(shape) not in (1, 2):
        return ""
    sizes = [shape[-1], *model.spec["sizes"][1:]]
    made = ", ".join(map(str, sizes)) if model.kind == "linear" else str(sizes)
    return f"; for inputs of {shape[-1]} features make {model.kind}({made})"
