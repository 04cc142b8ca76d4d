"""Published data sets: scikit-learn's, and MNIST, SARCOS and UCI sets from a folder of the user's.

The folder is named by ``--data`` or the environment variable BONGREF_DATA. Files are found where
datasets.json puts them (``mnist/train-images-idx3-ubyte.gz``), unpacked or not, under the names
that their publishers give them; the SHA-256 of the unpacked content is compared where it is known.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import os
import struct
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from ... import checks
from ...errors import InvalidValue
from ...linalg import Array
from .raw import CLASSES, REGRESSION, Raw, check_params, last, mlp

SKLEARN = ("digits", "diabetes")
UCI = ("airfoil", "bike", "concrete", "energy", "housing", "kin40k", "pol", "protein", "wine",
       "yacht")  # fmt: skip
FROM_FILES = ("mnist", "sarcos", "sarcos-4449", *(f"uci-{name}" for name in UCI))
NAMES = (*SKLEARN, *FROM_FILES)
SPLITS = 10  # of the UCI sets
CNN = {"kind": "cnn", "in_shape": [28, 28, 1], "n_classes": 10, "features": [16, 16],
       "kernel": [5, 5], "hidden": 64, "activation": "relu"}  # fmt: skip
COMMON = ("obs_var", "prior", "prior_var", "order", "max_test")

# names that publishers use for the same file, and the target's column where it is not the last
OTHER_NAMES = {
    "uci-airfoil": ("airfoil_self_noise.dat",),
    "uci-housing": ("housing.data",),
    "uci-wine": ("winequality-red.csv",),
    "uci-yacht": ("yacht_hydrodynamics.data",),
    "uci-protein": ("CASP.csv",),
    "uci-bike": ("hour.csv",),
}
TARGETS = {"CASP.csv": "RMSD", "hour.csv": "cnt"}
NOT_INPUTS = {"hour.csv": ("instant", "dteday", "casual", "registered")}


@functools.cache
def catalogue() -> dict[str, Any]:
    """The files of each data set with their addresses and checksums."""
    text = resources.files(__package__).joinpath("datasets.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def load(name: str, params: dict[str, Any], folder: str | None) -> Raw:
    """A data set by name.

    Raises
    ------
    InvalidValue
        If a file is not there, which says where it belongs, or is damaged.
    ImportError
        If scikit-learn is needed and not installed.
    """

    known = {"digits": ("hidden",), "diabetes": ("hidden",), "mnist": ("model", "hidden"),
             "sarcos": ("torque",), "sarcos-4449": ("torque",)}  # fmt: skip
    own = known.get(name, ("split", "hidden"))
    check_params(name, params, [*own, *COMMON])
    if name in SKLEARN:
        return _sklearn(name, params)
    if name == "mnist":
        return _mnist(params, folder)
    return (
        _sarcos(name, params, folder) if name.startswith("sarcos") else _uci(name, params, folder)
    )


def _sklearn(name: str, params: dict[str, Any]) -> Raw:
    try:
        from sklearn import datasets as published
    except ImportError:
        raise ImportError(
            f"the task {name} needs scikit-learn: pip install 'bongref[experiments]'"
        ) from None
    width = checks.integer("hidden", params.get("hidden", 20), 1)
    if name == "digits":
        X, Y = published.load_digits(return_X_y=True)
        names = tuple(map(str, range(10)))
        model = mlp(64, width, 10)
        return Raw(CLASSES, X / 16.0, Y.astype(float), None, model, scaled=False, classes=names)
    X, Y = published.load_diabetes(return_X_y=True)
    return Raw(REGRESSION, X, Y, None, mlp(10, width, 1))


# --- files ----------------------------------------------------------------------------------------


def data_folder(folder: str | None, name: str) -> Path:
    """The folder of the data sets.

    Raises
    ------
    InvalidValue
        If none is named, or it is not there.
    """
    named = folder or os.environ.get("BONGREF_DATA")
    if not named:
        raise InvalidValue(
            f"data must name the folder of the data sets for {name}: --data FOLDER or the "
            f"environment variable BONGREF_DATA. {_belongs(name, 'FOLDER')}"
        )
    if not Path(named).is_dir():
        raise InvalidValue(f"data must be a folder, and there is no {named!r}")
    return Path(named)


def _set_name(name: str) -> str:
    return "sarcos" if name.startswith("sarcos") else name


def _belongs(name: str, folder: str) -> str:
    files = [os.path.join(folder, f["path"]) for f in catalogue()[_set_name(name)]["files"]]
    files = files[1:] if name == "sarcos-4449" else files
    return (
        f"It reads {', '.join(files)}; bongref data get {_set_name(name)} --data {folder} "
        "downloads them"
    )


def _find(name: str, folder: Path, file: dict[str, Any]) -> Path:
    """Where a file is: at its place, unpacked, or in the folder itself."""
    place = Path(file["path"])
    stems = [place.name, place.name.removesuffix(".gz")]
    stems += [s.replace("-idx", ".idx") for s in stems]  # as some unpackers name it
    if place.name == "data.csv.gz":
        stems += OTHER_NAMES.get(name, ())
    places = [folder / place.parent, folder, folder / place.parent.name.upper() / "raw"]
    for where in places:
        for stem in stems:
            if (where / stem).is_file():
                return where / stem
    raise InvalidValue(
        f"{name} needs the file {folder / place}, which is not there. {_belongs(name, str(folder))}"
    )


def _content(name: str, folder: Path, file: dict[str, Any], used: dict[str, str]) -> bytes:
    """The unpacked content of a file, its checksum compared where it is known."""
    path = _find(name, folder, file)
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InvalidValue(
            f"{path} cannot be read ({error}); bongref data get {_set_name(name)} gets it again"
        ) from None
    used[path.name] = hashlib.sha256(data).hexdigest()
    known = file["sha256"] if path.name not in OTHER_NAMES.get(name, ()) else None
    if known and used[path.name] != known:
        raise InvalidValue(
            f"{path} is damaged or another file: its unpacked content must have the SHA-256 "
            f"{known}, got {used[path.name]}; bongref data get {_set_name(name)} downloads it again"
        )
    return data


def _idx(data: bytes) -> Array:
    """The array of an idx file of unsigned bytes."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise InvalidValue(f"an idx file must begin with 0, 0, 8, got {list(data[:3])}")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def _mnist(params: dict[str, Any], folder: str | None) -> Raw:
    where, used = data_folder(folder, "mnist"), dict[str, str]()
    files = [_content("mnist", where, f, used) for f in catalogue()["mnist"]["files"]]
    images, labels, test_images, test_labels = map(_idx, files)
    X = np.concatenate([images, test_images])[..., None]
    Y = np.concatenate([labels, test_labels]).astype(float)
    kind = checks.choice("model", str(params.get("model", "cnn")), ("cnn", "mlp", "linear"))
    width = checks.integer("hidden", params.get("hidden", 50), 1)
    models = {"cnn": CNN, "mlp": mlp(784, width, 10),
              "linear": {"kind": "linear", "sizes": [784, 10], "bias": True}}  # fmt: skip
    X = X if kind == "cnn" else X.reshape(len(X), -1)
    return Raw(
        CLASSES, X, Y, last(len(images), len(test_images)), models[kind], scaled=False,
        classes=tuple(map(str, range(10))), about={"files": used, "split": "published"},
        unit=1 / 255,
    )  # fmt: skip


def _sarcos(name: str, params: dict[str, Any], folder: str | None) -> Raw:
    """One torque from 21 inputs, with the paper's network, R = 0.1 Var(y) and prior variance 1.

    ``sarcos`` is the published split. ``sarcos-4449`` are the rows of the test file alone with a
    split of ours, for those who have no other file; it is not the paper's task.
    """
    from scipy.io import loadmat

    where, used = data_folder(folder, name), dict[str, str]()
    files = catalogue()["sarcos"]["files"][1 if name == "sarcos-4449" else 0 :]
    rows = []
    for file in files:
        key = Path(file["path"]).stem
        found = loadmat(io.BytesIO(_content(name, where, file, used)))
        if key not in found or np.ndim(found[key]) != 2 or found[key].shape[1] != 28:
            raise InvalidValue(f"{file['path']} must have an array {key} of 28 columns")
        rows.append(np.asarray(found[key], float))
    data = np.concatenate(rows)
    torque = checks.integer("torque", params.get("torque", 1), 1, 7)
    about: dict[str, Any] = {"files": used}
    test = None
    if name == "sarcos":
        test, about["split"] = last(len(rows[0]), len(rows[1])), "published"
    model = mlp(21, 20, 20, 1, activation="gelu")
    return Raw(REGRESSION, data[:, :21], data[:, 20 + torque], test, model, 0.1, prior="equal",
               about=about)  # fmt: skip


def _uci(name: str, params: dict[str, Any], folder: str | None) -> Raw:
    where, used = data_folder(folder, name), dict[str, str]()
    data_file, mask_file = catalogue()[name]["files"]
    text = _content(name, where, data_file, used).decode()
    X, Y = _table(next(iter(used)), text)
    split = checks.integer("split", params.get("split", 0), 0, SPLITS - 1)
    about: dict[str, Any] = {"files": used}
    test = None
    if next(iter(used)).startswith("data.csv"):  # the rows that the published masks belong to
        mask = _content(name, where, mask_file, used).decode()
        test = np.loadtxt(io.StringIO(mask), delimiter=",")[:, split] == 1
        about["split"] = f"published, number {split}"
    width = checks.integer("hidden", params.get("hidden", 20), 1)
    return Raw(REGRESSION, X, Y, test, mlp(X.shape[1], width, width, 1), about=about)


def _table(file: str, text: str) -> tuple[Array, Array]:
    """Inputs and target of a text file of numbers, with or without a row of names."""
    rows = [line for line in text.splitlines() if line.strip()]
    first = rows[0]
    split = next((d for d in ",;\t" if d in first), None)
    cells = [[c.strip().strip('"') for c in row.split(split)] for row in rows]
    names = [str(k) for k in range(len(cells[0]))]
    if any(c.isalpha() for c in first.replace("e", "").replace("E", "")):
        names, cells = cells[0], cells[1:]
    target = names.index(TARGETS.get(file, names[-1]))
    left_out = {target, *(names.index(n) for n in NOT_INPUTS.get(file, ()))}
    inputs = [k for k in range(len(names)) if k not in left_out]
    table = np.array([[float(row[k]) for k in (*inputs, target)] for row in cells])
    return table[:, :-1], table[:, -1]
