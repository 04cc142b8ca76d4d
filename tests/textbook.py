"""An outsider's adapter for the conformance kit: the paper's equations as they are displayed, in
plain numpy, in one dtype throughout.

Nothing here comes from the package: matrices are inverted explicitly, derivatives are carried
forward by hand, nothing is made efficient.
"""

from math import factorial, pi, sqrt

import numpy as np
from scipy.special import ndtr

FAMILIES = {
    "fc": ("mu", "Sigma"),
    "fc_mom": ("mu", "Sigma"),
    "diag": ("mu", "var"),
    "diag_mom": ("mu", "var"),
    "dlr": ("mu", "Ups", "W"),
}


class Textbook:
    """All seven calls for the 78 methods."""

    name = "textbook"

    def __init__(self, dtype="float64"):
        self.dtype = dtype

    def step(self, method, prior, current, curv, params):
        prior, current, curv = (self._cast(a) for a in (prior, current, curv))
        check(method, prior, params)
        return step(method, prior, current, curv, params)

    def estimate(self, hess, model, likelihood, theta, x, y, samples):
        theta, x, y, samples, likelihood = (
            self._cast(a) for a in (theta, x, y, samples, likelihood)
        )
        return estimate(hess, model, likelihood, theta, x, y, samples)

    def update(self, method, model, likelihood, prior, x, y, samples, params):
        prior, x, y, samples, likelihood = (
            self._cast(a) for a in (prior, x, y, samples, likelihood)
        )
        check(method, prior, params)
        return update(method, model, likelihood, prior, x, y, samples, params)

    def predict(self, family, state, dynamics):
        state, dynamics = self._cast(state), self._cast(dynamics)
        return predict(family, state, dynamics)

    def run(self, method, model, likelihood, prior, X, Y, samples, dynamics, params):
        prior, X, Y, samples, likelihood, dynamics = (
            self._cast(a) for a in (prior, X, Y, samples, likelihood, dynamics)
        )
        check(method, prior, params)
        family, state, states = method.split("-")[-1], prior, []
        for t in range(len(X)):
            state = predict(family, state, dynamics)
            if Y[t] is not None:
                state = update(
                    method,
                    model,
                    likelihood,
                    state,
                    X[t],
                    Y[t],
                    None if samples is None else samples[t],
                    params,
                )
            states.append({key: state[key] for key in FAMILIES[family]})
        return states

    def predictive(self, kind, family, model, likelihood, state, X, samples, Y=None):
        state, X, samples, Y, likelihood = (
            self._cast(a) for a in (state, X, samples, Y, likelihood)
        )
        return predictive(kind, model, likelihood, state["mu"], X, samples, Y)

    def draw(self, family, state, n, seed, normals):
        state, normals = self._cast(state), self._cast(normals)
        z = np.random.default_rng(seed).standard_normal((n, len(state["mu"])))
        return draw(state, z.astype(self.dtype) if normals is None else normals)

    def _cast(self, value):
        """Every array in the dtype; numbers of Python stay what they are, and numpy does not widen
        for them.
        """
        if isinstance(value, dict):
            return {key: self._cast(v) for key, v in value.items()}
        if isinstance(value, list):
            return [self._cast(v) for v in value]
        return np.asarray(value, dtype=self.dtype) if isinstance(value, np.ndarray) else value


def check(method, prior, params):
    """Refuse what has no update: names without a derivation, a prior that is no Gaussian, a root of
    1 - alpha < 0.
    """
    rule, a, b, family = method.split("-")
    if family == "dlr" and rule in ("bong", "blr"):
        if (a, b) == ("mc", "hess"):
            raise ValueError(f"the paper derives no {method}")
        if rule == "blr" and params["alpha"] > 1:
            raise ValueError("blr-dlr needs alpha <= 1")
    if "var" in prior:
        smallest = np.min(prior["var"])
    else:
        smallest = np.min(
            np.linalg.eigvalsh(prior["Sigma"] if "Sigma" in prior else precision(prior))
        )
    if not smallest > 0:
        raise ValueError("the prior is not positive definite")


# --- steps ----------------------------------------------------------------------------------------


def step(method, prior, current, curv, params):
    rule, _, _, family = method.split("-")
    alpha = params.get("alpha", 1.0)
    if family == "dlr":
        return dlr(rule, prior, current, curv, alpha, params["rank"])
    if family.startswith("fc"):
        return (fc if family == "fc" else fc_mom)(
            rule, prior, current, curv["g"], dense(curv), alpha
        )
    return (diag if family == "diag" else diag_mom)(
        rule, prior, current, curv["g"], diagonal(curv), alpha
    )


def fc(rule, prior, current, g, G, alpha):
    """Full covariance, natural parameters."""
    mu0, mu, Sigma, inv = prior["mu"], current["mu"], current["Sigma"], np.linalg.inv
    prec0, prec = inv(prior["Sigma"]), inv(Sigma)
    eye = np.eye(len(mu), dtype=mu.dtype)
    if rule == "bong":
        new = inv(prec0 - G)
        return {"mu": mu0 + new @ g, "Sigma": symmetric(new)}
    if rule == "blr":
        new = inv((1 - alpha) * prec + alpha * prec0 - alpha * G)
        return {
            "mu": mu + alpha * new @ (prec0 @ (mu0 - mu)) + alpha * new @ g,
            "Sigma": symmetric(new),
        }
    if rule == "bog":
        new = inv(
            prec - symmetric(4 * alpha * np.outer(Sigma @ g, mu)) - 2 * alpha * Sigma @ G @ Sigma
        )
        return {"mu": new @ prec @ mu + alpha * new @ Sigma @ g, "Sigma": symmetric(new)}
    pull = prec0 @ (mu0 - mu)
    new = inv(
        prec
        - 2
        * alpha
        * symmetric(
            Sigma @ (2 * np.outer(pull, mu) + eye + 2 * np.outer(g, mu) + (G - prec0) @ Sigma)
        )
    )
    return {"mu": new @ prec @ mu + alpha * new @ Sigma @ (g + pull), "Sigma": symmetric(new)}


def fc_mom(rule, prior, current, g, G, alpha):
    """Full covariance, moments."""
    mu0, mu, Sigma = prior["mu"], current["mu"], current["Sigma"]
    if rule == "bong":
        return {"mu": mu + Sigma @ g, "Sigma": Sigma + symmetric(Sigma @ G @ Sigma)}
    if rule == "bog":
        return {"mu": mu + alpha * g, "Sigma": Sigma + alpha / 2 * G}
    prec0 = np.linalg.inv(prior["Sigma"])
    pull = prec0 @ (mu0 - mu)
    if rule == "blr":
        new = (1 + alpha) * Sigma + alpha * Sigma @ (G - prec0) @ Sigma
        return {"mu": mu + alpha * Sigma @ pull + alpha * Sigma @ g, "Sigma": symmetric(new)}
    return {
        "mu": mu + alpha * pull + alpha * g,
        "Sigma": symmetric(Sigma + alpha / 2 * (np.linalg.inv(Sigma) - prec0 + G)),
    }


def diag(rule, prior, current, g, d, alpha):
    """Diagonal covariance, natural parameters."""
    mu0, var0, mu, var = prior["mu"], prior["var"], current["mu"], current["var"]
    if rule == "bong":
        new = 1 / (1 / var0 - d)
        return {"mu": mu0 + new * g, "var": new}
    if rule == "blr":
        new = 1 / ((1 - alpha) / var + alpha / var0 - alpha * d)
        return {"mu": mu + alpha * new / var0 * (mu0 - mu) + alpha * new * g, "var": new}
    if rule == "bog":
        new = 1 / (1 / var - 4 * alpha * var * mu * g - 2 * alpha * var**2 * d)
        return {"mu": new / var * mu + alpha * new * var * g, "var": new}
    kl = 4 * alpha * var / var0 * mu * (mu - mu0) + 2 * alpha * var**2 * (1 / var0 - 1 / var)
    new = 1 / (1 / var - 4 * alpha * var * mu * g - 2 * alpha * var**2 * d + kl)
    return {
        "mu": new / var * mu + alpha * new * var * g + alpha * new * var / var0 * (mu0 - mu),
        "var": new,
    }


def diag_mom(rule, prior, current, g, d, alpha):
    """Diagonal covariance, moments."""
    mu0, var0, mu, var = prior["mu"], prior["var"], current["mu"], current["var"]
    if rule == "bong":
        return {"mu": mu + var * g, "var": var + var**2 * d}
    if rule == "bog":
        return {"mu": mu + alpha * g, "var": var + alpha / 2 * d}
    pull = (mu0 - mu) / var0
    if rule == "blr":
        return {
            "mu": mu + alpha * var * pull + alpha * var * g,
            "var": var + alpha * var**2 * (1 / var - 1 / var0) + alpha * var**2 * d,
        }
    return {
        "mu": mu + alpha * pull + alpha * g,
        "var": var + alpha / 2 * (1 / var - 1 / var0) + alpha / 2 * d,
    }


def dlr(rule, prior, current, curv, alpha, rank):
    """Diagonal plus low rank precision."""
    g, mu0, mu, Ups, W = curv["g"], prior["mu"], current["mu"], current["Ups"], current["W"]
    if rule == "bong":
        Wt = np.hstack([W, curv["S"]])
        return {"mu": mu + np.linalg.solve(np.diag(Ups) + Wt @ Wt.T, g), **project(Ups, Wt, rank)}
    pull = precision(prior) @ (mu0 - mu)
    if rule == "blr":
        Upst = (1 - alpha) * Ups + alpha * prior["Ups"]
        Wt = np.hstack([sqrt(1 - alpha) * W, sqrt(alpha) * prior["W"], sqrt(alpha) * curv["S"]])
        return {
            "mu": mu + alpha * np.linalg.solve(np.diag(Upst) + Wt @ Wt.T, pull + g),
            **project(Upst, Wt, rank),
        }
    Sigma, G = np.linalg.inv(precision(current)), dense(curv)
    if rule == "bog":
        move, pull = -Sigma @ G @ Sigma, 0 * mu
    else:
        move = Sigma @ (precision(prior) - precision(current) - G) @ Sigma
    return {
        "mu": mu + alpha * pull + alpha * g,
        "Ups": Ups + alpha / 2 * np.diag(move),
        "W": W + alpha * move @ W,
    }


def project(Ups, Wt, rank):
    """The top singular columns as W; the diagonal of the others goes to Ups."""
    U, s, _ = np.linalg.svd(Wt, full_matrices=False)
    columns = U * s
    return {"Ups": Ups + np.sum(columns[:, rank:] ** 2, axis=1), "W": columns[:, :rank]}


def precision(state):
    return np.diag(state["Ups"]) + state["W"] @ state["W"].T


def symmetric(A):
    return (A + A.T) / 2


def dense(curv):
    return curv["G"] if "G" in curv else -curv["S"] @ curv["S"].T


def diagonal(curv):
    return curv["d"] if "d" in curv else np.diag(dense(curv))


# --- models and likelihoods -----------------------------------------------------------------------


def outputs(model, theta, x):
    """f (C,), its Jacobian (C, P) and its second derivatives (C, P, P), carried from layer to
    layer.
    """
    P, a = len(theta), x.ravel()
    J, H = np.zeros((len(a), P), theta.dtype), np.zeros((len(a), P, P), theta.dtype)
    layers = wiring(model)
    for k, (n_out, out, par, inp, bias, pool) in enumerate(layers):
        M = np.zeros((n_out, len(a)), theta.dtype)  # z = M a + b
        np.add.at(M, (out, inp), theta[par])
        z, Jz, Hz = M @ a, M @ J, np.tensordot(M, H, 1)
        np.add.at(Jz, (out, par), a[inp])
        np.add.at(Hz, (out, par), J[inp])
        np.add.at(Hz.transpose(0, 2, 1), (out, par), J[inp])
        if bias is not None:
            z = z + theta[bias]
            Jz[np.arange(n_out), bias] += 1
        if k < len(layers) - 1:
            s, s1, s2 = activation(model["activation"], z)
            z, Hz = s, s2[:, None, None] * Jz[:, :, None] * Jz[:, None, :] + s1[:, None, None] * Hz
            Jz = s1[:, None] * Jz
        if pool is not None:
            pool = pool.astype(theta.dtype)
            z, Jz, Hz = pool @ z, pool @ Jz, np.tensordot(pool, Hz, 1)
        a, J, H = z, Jz, Hz
    return a, J, H


def wiring(model):
    """For each layer: outputs, (output, parameter, input) of each of its products, the parameters
    of its biases, its pooling.
    """
    parts, layers, shape = {p["name"]: p for p in model["layout"]}, [], model["in_shape"]
    for k in range(sum(p["name"][0] in "WK" for p in model["layout"])):
        weight = parts.get(f"K{k}") or parts[f"W{k}"]
        index = np.arange(weight["start"], weight["stop"]).reshape(weight["shape"])
        bias, pool = (
            np.arange(parts[f"b{k}"]["start"], parts[f"b{k}"]["stop"])
            if f"b{k}" in parts
            else None,
            None,
        )
        if index.ndim == 2:
            n_out = len(index)
            products = [(o, index[o, i], i) for o in range(n_out) for i in range(index.shape[1])]
        else:
            (h, w, c), (kh, kw, _, n) = shape, index.shape
            here = np.arange(h * w * c).reshape(h, w, c)
            there = np.arange(h * w * n).reshape(h, w, n)
            products = [
                (
                    there[i, j, o],
                    index[p, q, m, o],
                    here[i + p - (kh - 1) // 2, j + q - (kw - 1) // 2, m],
                )
                for i, j, o, p, q, m in np.ndindex(h, w, n, kh, kw, c)
                if 0 <= i + p - (kh - 1) // 2 < h and 0 <= j + q - (kw - 1) // 2 < w
            ]
            n_out, bias, shape = h * w * n, np.tile(bias, h * w), (h // 2, w // 2, n)
            pool = np.zeros((h // 2, w // 2, n, n_out))
            for i, j, o, p, q in np.ndindex(h // 2, w // 2, n, 2, 2):
                pool[i, j, o, there[2 * i + p, 2 * j + q, o]] = 0.25
            pool = pool.reshape(-1, n_out)
        layers.append((n_out, *np.array(products).T, bias, pool))
    return layers


def activation(name, z):
    """Its value and two derivatives."""
    if name == "tanh":
        t = np.tanh(z)
        return t, 1 - t**2, -2 * t * (1 - t**2)
    if name == "relu":
        on = (z > 0).astype(z.dtype)
        return z * on, on, 0 * z
    if name == "gelu":
        Phi, phi = ndtr(z), np.exp(-(z**2) / 2) / sqrt(2 * pi)
        return z * Phi, Phi + z * phi, phi * (2 - z**2)
    c = sqrt(2 / pi)
    t, u1, u2 = (
        np.tanh(c * (z + 0.044715 * z**3)),
        c * (1 + 3 * 0.044715 * z**2),
        c * 6 * 0.044715 * z,
    )
    t1, t2 = (1 - t**2) * u1, (1 - t**2) * (u2 - 2 * t * u1**2)
    return z * (1 + t) / 2, (1 + t) / 2 + z * t1 / 2, t1 + z * t2 / 2


def mean_of(lik, f):
    """The mean h of y at the outputs f."""
    if lik["kind"] == "bernoulli":
        return 1 / (1 + np.exp(-f))
    if lik["kind"] == "categorical":
        e = np.exp(f - np.max(f))
        return e / np.sum(e)
    return np.exp(f) if lik["kind"] == "poisson" else f


def in_outputs(lik, f, y):
    """Of log p(y | f): its gradient in f, minus its expected Hessian, and a factor L of that, L
    L^T.
    """
    h = mean_of(lik, f)
    if lik["kind"] == "gaussian":
        info = np.linalg.inv(lik["R"])
        return info @ (y - h), info, np.linalg.cholesky(info)
    if lik["kind"] == "categorical":
        return y - h, np.diag(h) - np.outer(h, h), np.diag(np.sqrt(h)) - np.outer(h, np.sqrt(h))
    var = h * (1 - h) if lik["kind"] == "bernoulli" else h
    return y - h, np.diag(var), np.diag(np.sqrt(var))


# --- estimates and updates ------------------------------------------------------------------------


def estimate(hess, model, lik, theta, x, y, samples):
    if x.ndim == len(model["in_shape"]):
        x, y = x[None], y[None]
    if hess.startswith("lin"):
        g, S, _ = derivatives(model, lik, theta, x, y)
        S = S if hess == "lin-hess" else g[:, None]
        return {"g": g, "S": S, "G": -S @ S.T}
    each = [derivatives(model, lik, one, x, y) for one in samples]
    g = sum(g for g, _, _ in each) / len(each)
    if hess == "mc-hess":
        return {"g": g, "G": sum(G for _, _, G in each) / len(each)}
    S = np.stack([g for g, _, _ in each], axis=1) / sqrt(len(each))
    return {"g": g, "S": S, "G": -S @ S.T}


def derivatives(model, lik, theta, x, y):
    """The gradient, the factor of the Gauss-Newton matrix and the Hessian of the log-likelihood of
    a batch.
    """
    g, S, G = 0, [], 0
    for one, label in zip(x, y, strict=True):
        f, J, H = outputs(model, theta, one)
        r, info, L = in_outputs(lik, f, label)
        g, G = g + J.T @ r, G - J.T @ info @ J + np.tensordot(r, H, 1)
        S.append(J.T @ L)
    return g, np.hstack(S), G


def update(method, model, lik, prior, x, y, samples, params):
    _, a, b, _ = method.split("-")
    current, first = prior, None
    for i in range(params.get("n_iter", 1)):
        curv = estimate(
            f"{a}-{b}", model, lik, current["mu"], x, y, None if samples is None else samples[i]
        )
        current, first = step(method, prior, current, curv, params), first or curv
    return {**current, "g": first["g"], "G": first["G"], "diag G": np.diag(first["G"])}


def predict(family, state, dynamics):
    if dynamics["kind"] == "static":
        return state
    mu = state["mu"]
    if dynamics["kind"] == "ou":
        gamma = dynamics["gamma"]
        F, b, Q = (
            gamma * np.ones_like(mu),
            (1 - gamma) * dynamics["mu0"],
            (1 - gamma**2) * dynamics["var0"],
        )
    else:
        F, b, Q = dynamics["F"], dynamics["b"], dynamics["Q"]
    if family.startswith("diag"):
        return {"mu": F * mu + b, "var": F**2 * state["var"] + Q}
    if family == "dlr":  # Sigma = D - V C V^T, inverted
        D, V = F**2 / state["Ups"] + Q, (F / state["Ups"])[:, None] * state["W"]
        core = (
            np.eye(V.shape[1], dtype=mu.dtype)
            + state["W"].T @ (state["W"] / state["Ups"][:, None])
            - V.T @ (V / D[:, None])
        )
        return {
            "mu": F * mu + b,
            "Ups": 1 / D,
            "W": V / D[:, None] @ np.linalg.cholesky(np.linalg.inv(core)),
        }
    F, Q = (np.diag(A) if A.ndim == 1 else A for A in (F, Q))
    return {"mu": F @ mu + b, "Sigma": symmetric(F @ state["Sigma"] @ F.T + Q)}


# --- predictions ----------------------------------------------------------------------------------


def predictive(kind, model, lik, mu, X, samples, Y):
    rows = [means(kind, model, lik, mu, x, samples) for x in X]
    mean = np.stack([np.mean(h, axis=0) for h in rows])
    within = {
        "gaussian": lambda h: np.tile(np.diag(lik["R"]), (len(h), 1)),
        "poisson": lambda h: h,
    }.get(lik["kind"], lambda h: h * (1 - h))
    out = {
        "mean": mean,
        "var": np.stack([np.mean(within(h), axis=0) + np.var(h, axis=0) for h in rows]),
    }
    if Y is None:
        return out
    out["log_density"] = np.stack(
        [
            log_mean([log_density(lik, h, y) for h in one])
            if lik["kind"] == "gaussian"
            else np.log(max(0.0, np.mean(np.stack([density(lik, h, y) for h in one]))))
            for one, y in zip(rows, Y, strict=True)
        ]
    )
    out["nlpd"] = -np.mean(out["log_density"])
    if lik["kind"] == "categorical" or (lik["kind"] == "bernoulli" and mean.shape[1] == 1):
        p, y = (
            (np.hstack([1 - A, A]) for A in (mean, Y)) if lik["kind"] == "bernoulli" else (mean, Y)
        )
        right, sure = (
            (np.argmax(p, axis=1) == np.argmax(y, axis=1)).astype(p.dtype),
            np.max(p, axis=1),
        )
        where = np.clip(np.ceil(sure * 20) - 1, 0, 19)
        bins = [where == k for k in range(20) if np.any(where == k)]
        out["error"] = 1 - np.mean(right)
        out["ece"] = sum(abs(np.sum(right[b]) - np.sum(sure[b])) for b in bins) / len(p)
    return out


def means(kind, model, lik, mu, x, samples):
    """h at each sample (S, C), or its linearisation at mu."""
    if kind == "mc":
        return np.stack([mean_of(lik, outputs(model, one, x)[0]) for one in samples])
    f, J, _ = outputs(model, mu, x)
    h = mean_of(lik, f)
    if kind == "plugin":
        return h[None]
    slope = J if lik["kind"] == "gaussian" else in_outputs(lik, f, h)[1] @ J
    return np.stack([h + slope @ (one - mu) for one in samples])


def log_mean(logs):
    top = np.max(logs)
    return top + np.log(np.mean(np.exp(np.array(logs) - top)))


def log_density(lik, h, y):
    """log p(y) of a Gaussian with mean h, which may be far below the smallest float."""
    square = (y - h) @ np.linalg.inv(lik["R"]) @ (y - h)
    return -square / 2 - np.log(np.linalg.det(2 * pi * lik["R"])) / 2


def density(lik, h, y):
    """p(y) with mean h; a Poisson rate of 0 or less has none."""
    if lik["kind"] == "bernoulli":
        return np.prod(np.where(y == 1, h, 1 - h))
    if lik["kind"] == "categorical":
        return h @ y
    if np.any(h < 0):
        return 0.0
    return np.prod([h[c] ** y[c] * np.exp(-h[c]) / factorial(int(y[c])) for c in range(len(y))])


def draw(state, z):
    """mu plus a root of the covariance times the rows of z."""
    if "var" in state:
        return state["mu"] + z * np.sqrt(state["var"])
    Sigma = np.linalg.inv(precision(state)) if "Ups" in state else state["Sigma"]
    return state["mu"] + z @ np.linalg.cholesky(Sigma).T
