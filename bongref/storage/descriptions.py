"""Methods, models, likelihoods, dynamics, states and generators as arrays and plain data, and back.

A description is a pair (arrays, data): float64 arrays by name, and what JSON can hold. Each
``*_from`` checks what it is given as something that comes from outside.

>>> import bongref as br
>>> from bongref.storage import descriptions
>>> descriptions.model(br.models.mlp([3, 8, 1], activation="relu"))
{'kind': 'mlp', 'sizes': [3, 8, 1], 'activation': 'relu'}
>>> descriptions.model_from({"kind": "linear", "n_in": 2, "n_out": 1, "bias": False}).n_params
2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import checks
from ..dynamics import OU, Dynamics, Linear, Static
from ..grid import STATES, Method
from ..grid import method as make_method
from ..likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Poisson
from ..linalg import Array
from ..models import Model, cnn, linear, mlp
from ..states import State
from .files import Damaged, WrongCall, keys, plain

GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
COUNTABLE: dict[str, Any] = {"bernoulli": Bernoulli, "categorical": Categorical, "poisson": Poisson}
LARGEST = 2**31  # parameter of a method
DYNAMICS: dict[str, Any] = {"static": Static, "ou": OU, "linear": Linear}


# --- methods and states ---------------------------------------------------------------------------


def method(m: Method) -> list[Any]:
    """The name and the parameters."""
    return [m.name, dict(m.params)]


def method_from(data: Any) -> Method:
    """The method; its name must be one of the grid's own."""
    if not isinstance(data, list) or len(data) != 2 or not isinstance(data[0], str):
        raise Damaged("the method must be a name and its parameters")
    params = keys(data[1])
    if any(type(v) is int and v > LARGEST for v in params.values()):
        raise Damaged(f"the parameters of the method must be at most {LARGEST}")
    return make_method(data[0], **params)


def state_from(name: str, kind: Any, arrays: Mapping[str, Array], rank: int | None = None) -> State:
    """A state of this kind from its arrays; finite and positive definite."""
    given = {field: arrays.get(f"{name}.{field}" if name else field) for field in kind._fields}
    if any(a is None or a.dtype != np.float64 for a in given.values()):
        raise Damaged(f"a {kind.__name__} has the arrays {', '.join(kind._fields)} of float64")
    return checks.state(name or "state", kind(**given), kind, R=rank)


def state(name: str, q: State) -> dict[str, Array]:
    """The arrays of a state, with the name in front."""
    return {f"{name}.{field}": a for field, a in q._asdict().items()}


def state_kind(m: Method) -> Any:
    """FC, Diag or DLR."""
    return STATES[m.family]


# --- models ---------------------------------------------------------------------------------------


def model(given: Model) -> dict[str, Any]:
    """The arguments with which a built-in model is made; of any other only its sizes."""
    kind, spec = getattr(given, "kind", "wrap"), getattr(given, "spec", {})
    if kind == "linear":
        return {
            "kind": kind,
            "n_in": spec["sizes"][0],
            "n_out": spec["sizes"][1],
            "bias": spec["bias"],
        }
    if kind == "mlp":
        return {"kind": kind, "sizes": list(spec["sizes"]), "activation": spec["activation"]}
    if kind == "cnn":
        parts = {k: spec[k] for k in ("in_shape", "features", "kernel", "hidden", "activation")}
        return {"kind": kind, "n_classes": spec["n_outputs"], **parts}
    return {"kind": "own", "n_params": given.n_params, "n_outputs": given.n_outputs}


def model_from(data: Any, given: Model | None = None) -> Model:
    """The model of a description; one of the user's own must be given."""
    data = dict(keys(data))
    kind = data.pop("kind", None)
    if kind == "own":
        return _own_model(data, given)
    if given is not None:
        raise WrongCall(
            f"model must be left out: the file describes its own ({kind}), got {given!r:.80}"
        )
    makers: dict[str, Any] = {"linear": linear, "mlp": mlp, "cnn": cnn}
    names = {
        "linear": ("n_in", "n_out", "bias"),
        "mlp": ("sizes", "activation"),
        "cnn": ("in_shape", "n_classes", "features", "kernel", "hidden", "activation"),
    }
    if not isinstance(kind, str) or kind not in names:
        raise Damaged(f"there is no model of the kind {str(kind)[:40]!r}")
    made: Model = makers[kind](**keys(data, *names[kind]))
    return made


def _own_model(data: dict[str, Any], given: Model | None) -> Model:
    keys(data, "n_params", "n_outputs")
    if given is None:
        raise WrongCall(
            "model must be given: the file was made with a model of your own (wrap), which cannot "
            "be saved, got None; use load(path, model=...)"
        )
    found = checks.model(given)
    if (found.n_params, found.n_outputs) != (data["n_params"], data["n_outputs"]):
        raise WrongCall(
            f"model must have {data['n_params']} parameters and {data['n_outputs']} outputs, as "
            f"the one that was saved, got {found.n_params} and {found.n_outputs}"
        )
    return found


# --- likelihoods ----------------------------------------------------------------------------------


def likelihood(given: Likelihood) -> tuple[dict[str, Array], dict[str, Any]]:
    """The kind, and R of a Gaussian; of any other likelihood only that it is one."""
    if type(given) is Gaussian:
        return {"lik.R": np.asarray(given.R, dtype=float)}, {"kind": "gaussian"}
    if type(given) is COUNTABLE.get(given.name):
        return {}, {"kind": given.name}
    return {}, {"kind": "own"}


def likelihood_from(
    arrays: Mapping[str, Array], data: Any, given: Likelihood | None = None
) -> Likelihood:
    """The likelihood of a description; one of the user's own must be given."""
    kind = keys(data, "kind")["kind"]
    if kind == "own":
        if given is None:
            raise WrongCall(
                "lik must be given: the file was made with a likelihood of your own, which cannot "
                "be saved, got None; use load(path, lik=...)"
            )
        return checks.likelihood(given)
    if given is not None:
        raise WrongCall(
            f"lik must be left out: the file describes its own ({kind}), got {given!r:.80}"
        )
    if kind == "gaussian":
        R = arrays["lik.R"]
        return Gaussian(var=float(R) if R.ndim == 0 else R)
    if not isinstance(kind, str) or kind not in COUNTABLE:
        raise Damaged(f"there is no likelihood of the kind {str(kind)[:40]!r}")
    made: Likelihood = COUNTABLE[kind]()
    return made


# --- dynamics -------------------------------------------------------------------------------------


def dynamics(given: Dynamics) -> tuple[dict[str, Array], dict[str, Any]]:
    """The kind, and its parameters as arrays."""
    kind = next(k for k, made in DYNAMICS.items() if isinstance(given, made))
    fields: dict[str, Any] = given._asdict()
    arrays = {f"dynamics.{k}": np.asarray(v, dtype=float) for k, v in fields.items()}
    return arrays, {"kind": kind}


def dynamics_from(arrays: Mapping[str, Array], data: Any) -> Dynamics:
    """The dynamics of a description."""
    kind = keys(data, "kind")["kind"]
    if not isinstance(kind, str) or kind not in DYNAMICS:
        raise Damaged(f"there are no dynamics of the kind {str(kind)[:40]!r}")
    made = DYNAMICS[kind]
    values = {k: checks.array(k, arrays[f"dynamics.{k}"]) for k in made._fields}
    out: Dynamics = made(**{k: float(a) if a.ndim == 0 else a for k, a in values.items()})
    return out


# --- generators -----------------------------------------------------------------------------------


def generator(rng: np.random.Generator | None) -> Any:
    """The state of its bit generator, or None."""
    return None if rng is None else plain(rng.bit_generator.state)


def generator_from(data: Any) -> np.random.Generator | None:
    """A generator in this state, which must be one of NumPy's, number for number."""
    if data is None:
        return None
    name = keys(data).get("bit_generator")
    if name not in GENERATORS:
        raise Damaged(f"there is no generator {str(name)[:40]!r}")
    bits = getattr(np.random, name)()
    try:
        bits.state = data
    except Exception:
        raise Damaged(f"the state of the {name} is damaged") from None
    if plain(bits.state) != data or not _in_range(data):
        raise Damaged(f"the state of the {name} is damaged")
    return np.random.Generator(bits)


def _in_range(data: dict[str, Any]) -> bool:
    """Places in a generator's buffers, which NumPy takes as they are."""
    inner = data["state"] if isinstance(data.get("state"), dict) else {}
    places = [(data, "has_uint32", 1), (data, "uinteger", 2**32 - 1), (data, "buffer_pos", 4)]
    places.append((inner, "pos", 624))
    if data["bit_generator"].startswith("PCG64") and inner["inc"] % 2 == 0:
        return False  # the increment of a PCG is odd
    return all(
        type(table[k]) is int and 0 <= table[k] <= most for table, k, most in places if k in table
    )
