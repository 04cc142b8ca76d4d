"""The right forms as they may be written, in whole, and every single edit of them.

A function that returns what one edit of a right form returns has that slip: a sign, a factor, a
term, or a name. Arguments have the names of the exercise's task, each result has a line of its own.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..conformance.edits import Edit, edits
from .table import Exercise, Form

inv = np.linalg.inv
NAMESPACE = {"np": np, "inv": inv}
# one function in place of another
OTHER_CALLS = {
    "np.log": ("np.log10({0})", "{0}"),
    "np.exp": ("np.exp(-{0})",),
    "np.mean": ("np.sum({0})", "np.median({0})"),
    "np.sum": ("np.mean({0})", "np.max({0})"),
    "np.trace": ("np.sum({0})",),
    "np.linalg.det": ("np.trace({0})",),
    "inv": ("1 / {0}",),
    "np.sqrt": ("{0}",),
    "len": ("1",),
}


# --- the forms ------------------------------------------------------------------------------------


def _beta(a: Any, b: Any, y: Any) -> Any:
    a_new = a + y
    b_new = b + (1 - y)
    return a_new, b_new


def _normal_precision(mu: Any, var: Any, y: Any, noise_var: Any) -> Any:
    var_new = 1 / (1 / var + 1 / noise_var)
    mu_new = var_new * (mu / var + y / noise_var)
    return mu_new, var_new


def _normal_gain(mu: Any, var: Any, y: Any, noise_var: Any) -> Any:
    K = var / (var + noise_var)
    mu_new = mu + K * (y - mu)
    var_new = (1 - K) * var
    return mu_new, var_new


def _normal_step(mu: Any, var: Any, y: Any, noise_var: Any) -> Any:
    var_new = var * noise_var / (var + noise_var)
    mu_new = mu + var_new * ((y - mu) / noise_var)
    return mu_new, var_new


def _natural(mu: Any, Sigma: Any) -> Any:
    precision = inv(Sigma)
    psi1 = precision @ mu
    psi2 = -0.5 * precision
    return psi1, psi2


def _moments(psi1: Any, psi2: Any) -> Any:
    Sigma = inv(-2 * psi2)
    mu = Sigma @ psi1
    return mu, Sigma


def _moments_after(psi1: Any, psi2: Any) -> Any:
    Sigma = -0.5 * inv(psi2)
    mu = Sigma @ psi1
    return mu, Sigma


def _kl(mu: Any, Sigma: Any, mu0: Any, Sigma0: Any) -> Any:
    difference = mu - mu0
    trace = np.trace(inv(Sigma0) @ Sigma)
    means = difference @ inv(Sigma0) @ difference
    logdet = np.log(np.linalg.det(Sigma0) / np.linalg.det(Sigma))
    return 0.5 * (trace + means - len(mu) + logdet)


def _kl_difference(mu: Any, Sigma: Any, mu0: Any, Sigma0: Any) -> Any:
    precision = inv(Sigma0)
    terms = np.trace(precision @ Sigma) + (mu - mu0) @ precision @ (mu - mu0) - len(mu)
    return 0.5 * (terms + np.log(np.linalg.det(Sigma0)) - np.log(np.linalg.det(Sigma)))


def _gradients(a: Any, b: Any, c: Any, mu: Any, var: Any) -> Any:
    grad_mu = 3 * a * (mu**2 + var) + 2 * b * mu + c
    grad_var = 0.5 * (6 * a * mu + 2 * b)
    return grad_mu, grad_var


def _bong_fc(mu: Any, Sigma: Any, g: Any, G: Any) -> Any:
    Sigma_new = inv(inv(Sigma) - G)
    mu_new = mu + Sigma_new @ g
    return Sigma_new, mu_new


def _empirical_fisher(Ghat: Any) -> Any:
    return -(Ghat.T @ Ghat) / len(Ghat)


def _gauss_newton(F: Any, f: Any) -> Any:
    weights = np.exp(f)
    p = weights / np.sum(weights)
    R = np.diag(p) - np.outer(p, p)
    return -(F.T @ R @ F)


def _kalman_gain(Sigma: Any, H: Any, R: Any) -> Any:
    return Sigma @ H.T @ inv(H @ Sigma @ H.T + R)


def _kalman_update(mu: Any, Sigma: Any, H: Any, R: Any, y: Any, yhat: Any) -> Any:
    K = Sigma @ H.T @ inv(H @ Sigma @ H.T + R)
    mu_new = mu + K @ (y - yhat)
    Sigma_new = Sigma - K @ H @ Sigma
    return mu_new, Sigma_new


def _bong_fc_factor(mu: Any, Sigma: Any, g: Any, S: Any) -> Any:
    Sigma_new = inv(inv(Sigma) + S @ S.T)
    mu_new = mu + Sigma_new @ g
    return Sigma_new, mu_new


def _bong_fc_mom(mu: Any, Sigma: Any, g: Any, S: Any) -> Any:
    G = -(S @ S.T)
    mu_new = mu + Sigma @ g
    Sigma_new = Sigma + Sigma @ G @ Sigma
    return mu_new, Sigma_new


def _largest_loss(Sigma: Any, S: Any) -> Any:
    return np.linalg.eigvalsh(S.T @ Sigma @ S)[-1]


def _largest_loss_root(Sigma: Any, S: Any) -> Any:
    L = np.linalg.cholesky(Sigma)
    return np.linalg.norm(L.T @ S, 2) ** 2


def _bong_diag(mu: Any, var: Any, g: Any, d: Any) -> Any:
    var_new = 1 / (1 / var - d)
    mu_new = mu + var_new * g
    return var_new, mu_new


def _project(Ups: Any, W: Any, rank: Any) -> Any:
    U, s, _ = np.linalg.svd(W, full_matrices=False)
    W_new = U[:, :rank] * s[:rank]
    discarded = U[:, rank:] * s[rank:]
    Ups_new = Ups + np.sum(discarded**2, axis=1)
    return W_new @ W_new.T, Ups_new


def _blr_fc(mu: Any, Sigma: Any, mu_i: Any, Sigma_i: Any, g: Any, S: Any, alpha: Any) -> Any:
    Sigma_new = inv((1 - alpha) * inv(Sigma_i) + alpha * (inv(Sigma) + S @ S.T))
    mu_new = mu_i + alpha * Sigma_new @ (inv(Sigma) @ (mu - mu_i) + g)
    return Sigma_new, mu_new


def _bog_diag_mom(mu: Any, var: Any, g: Any, d: Any, alpha: Any) -> Any:
    mu_new = mu + alpha * g
    var_new = var + alpha * d / 2
    return mu_new, var_new


def _ou_predict(mu: Any, Sigma: Any, mu0: Any, Sigma0: Any, gamma: Any) -> Any:
    mu_new = gamma * mu + (1 - gamma) * mu0
    Sigma_new = gamma**2 * Sigma + (1 - gamma**2) * Sigma0
    return mu_new, Sigma_new


def _steady_variance(q: Any, r: Any) -> Any:
    return (-q + np.sqrt(q**2 + 4 * q * r)) / 2


def _predictive(mu: Any, Sigma: Any, H: Any, noise_var: Any) -> Any:
    h = H[0]
    mean = h @ mu
    var = h @ Sigma @ h + noise_var
    return mean, var


def _nlpd(y: Any, mean: Any, var: Any) -> Any:
    return np.mean(0.5 * np.log(2 * np.pi * var) + (y - mean) ** 2 / (2 * var))


def _blr_diag(mu: Any, var: Any, mu_i: Any, var_i: Any, g: Any, d: Any, alpha: Any) -> Any:
    var_new = 1 / ((1 - alpha) / var_i + alpha * (1 / var - d))
    mu_new = mu_i + alpha * var_new * ((mu - mu_i) / var + g)
    return var_new, mu_new


def _bbb_diag_mom(mu: Any, var: Any, mu_i: Any, var_i: Any, g: Any, d: Any, alpha: Any) -> Any:
    grad_mu = g - (mu_i - mu) / var
    grad_var = 0.5 * d - 0.5 * (1 / var - 1 / var_i)
    mu_new = mu_i + alpha * grad_mu
    var_new = var_i + alpha * grad_var
    return mu_new, var_new


#: by the exercise: its name and its arguments
FORMS: Mapping[tuple[str, tuple[str, ...]], tuple[Form, ...]] = {
    (name, tuple(forms[0].__code__.co_varnames[: forms[0].__code__.co_argcount])): forms
    for name, forms in (
        ("beta_update", (_beta,)),
        ("normal_update", (_normal_precision, _normal_gain, _normal_step)),
        ("natural", (_natural,)),
        ("moments", (_moments, _moments_after)),
        ("kl", (_kl, _kl_difference)),
        ("gradients", (_gradients,)),
        ("bong_fc", (_bong_fc,)),
        ("empirical_fisher", (_empirical_fisher,)),
        ("gauss_newton", (_gauss_newton,)),
        ("kalman_gain", (_kalman_gain,)),
        ("kalman_update", (_kalman_update,)),
        ("bong_fc", (_bong_fc_factor,)),
        ("bong_fc_mom", (_bong_fc_mom,)),
        ("largest_loss", (_largest_loss, _largest_loss_root)),
        ("bong_diag", (_bong_diag,)),
        ("project", (_project,)),
        ("blr_fc", (_blr_fc,)),
        ("bog_diag_mom", (_bog_diag_mom,)),
        ("ou_predict", (_ou_predict,)),
        ("steady_variance", (_steady_variance,)),
        ("predictive", (_predictive,)),
        ("nlpd", (_nlpd,)),
        ("blr_diag", (_blr_diag,)),
        ("bbb_diag_mom", (_bbb_diag_mom,)),
    )
}


# --- their edits ----------------------------------------------------------------------------------


def slips(exercise: Exercise) -> Iterator[tuple[str, Form]]:
    """Words for each single edit of the exercise's forms, the shortest first, and what it gives."""
    forms = FORMS.get((exercise.name, exercise.arguments), ())
    found = [(form, edit) for form in forms for edit in edits(form, _variants(form))]
    for form, edit in sorted(
        found, key=lambda one: (len(one[1].new + one[1].old), len(one[1].new))
    ):
        scope: dict[str, Any] = dict(NAMESPACE)
        exec(edit.source, scope)
        yield f"`{edit.new}` in place of `{edit.old}`{_where(form, edit)}", scope[edit.function]


def _where(form: Form, edit: Edit) -> str:
    """The quantity that an edited line computes, if it has a name."""
    line = inspect.getsourcelines(form)[0][edit.line - 1].strip()
    name, equals, _ = line.partition(" = ")
    return f" in `{name}`" if equals and name.isidentifier() else ""


@lru_cache(maxsize=64)
def _variants(form: Form) -> Callable[[ast.expr], Iterator[ast.expr]]:
    """What a student may write in place of an expression, beside the kit's edits of equations."""
    names = form.__code__.co_varnames  # arguments, and what is computed from them

    def others(node: ast.expr) -> Iterator[ast.expr]:
        text = ast.unparse(node)
        for other in _texts(node, text, names):
            yield ast.parse(other, mode="eval").body

    return others


def _texts(node: ast.expr, text: str, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.Name) and text in names:
        yield from (name for name in names if name != text)
        yield from (f"(1 - {text})",) if text in ("y", "alpha", "gamma", "p") else ()
        yield from (f"{text} ** 2", f"np.sqrt({text})", f"inv({text})", f"np.diag(np.diag({text}))")
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield from (f"{k:g}" for k in (1, 2 * node.value, node.value / 2) if k != node.value)
    elif isinstance(node, ast.Call):
        inside = ast.unparse(node.args[0])
        yield from (t.format(inside) for t in OTHER_CALLS.get(ast.unparse(node.func), ()))
        if node.keywords:
            yield f"{ast.unparse(node.func)}({inside})"
        if ast.unparse(node.func) == "np.outer":
            a, b = map(ast.unparse, node.args)
            yield from (f"{a} * {b}", f"{a} @ {b}")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield f"({ast.unparse(node.left)}) * ({ast.unparse(node.right)})"
