"""Studies: which parameters are tried next, and a record of all trials in an Optuna storage.

Trials are proposed in rounds of a fixed size. The proposals of a round depend on the space, the
seed, the number of the round and the trials of the rounds before it, and on nothing else. Trials
are stored complete and in order. So a study does not depend on the number of workers or the order
in which they finish, and one that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import InvalidValue
from . import space as spaces
from .space import Axis, Choice, Space

SAMPLERS = ("tpe", "grid")
STARTUP = 10  # random trials before TPE begins to learn
LARGE = 1e6  # the loss of a trial that diverges at its last step; 2e6 at its first
MARK = "bongref"  # the attribute of a study that holds its facts


class Proposal(NamedTuple):
    """A trial that is to be evaluated."""

    number: int
    params: dict[str, Any]


class Trial(NamedTuple):
    """A trial that has been evaluated.

    Attributes
    ----------
    number : int
        From 0, in the order of the proposals.
    params : dict
    loss : float
        Finite; at least ``LARGE`` if the trial diverged.
    attributes : dict
        What was recorded with it, e.g. the step at which it diverged.
    """

    number: int
    params: dict[str, Any]
    loss: float
    attributes: dict[str, Any]


def bounded(loss: float, diverged_at: int | None = None, steps: int = 1) -> float:
    """A finite loss, whatever happened.

    Parameters
    ----------
    loss : float
        Anything, NaN and infinities included.
    diverged_at : int, optional
        The step, from 1, at which the run diverged.
    steps : int
        The steps of a complete run.

    Returns
    -------
    float
        The loss, at most ``LARGE``; more than that for a run that diverged, the more the earlier.

    Examples
    --------
    >>> bounded(0.5), bounded(float("inf")), bounded(float("nan"), diverged_at=1, steps=100)
    (0.5, 1000000.0, 1990000.0)
    """
    if diverged_at is not None:
        return LARGE * (2 - min(diverged_at, steps) / steps)
    return min(loss, LARGE) if not math.isnan(loss) else LARGE


class Study:
    """One study: a space, its trials so far, and the next ones.

    Parameters
    ----------
    storage : optuna.storages.BaseStorage
        From :func:`open_storage`.
    name : str
        Of the study in the storage.
    space : mapping of str to Choice or Range
    facts : dict
        What the losses depend on, as plain data: the task, the metric, the seeds, ... A stored
        study with other facts is refused.
    sampler : {"tpe", "grid"}
    seed : int
    round_size : int
        Trials that are proposed together.

    Raises
    ------
    InvalidValue
        If the storage has a study of this name with other facts.
    """

    def __init__(
        self,
        storage: Any,
        name: str,
        space: Space,
        facts: Mapping[str, Any],
        *,
        sampler: str = "tpe",
        seed: int = 0,
        round_size: int = 4,
    ) -> None:
        optuna = require_optuna()
        self.name, self.space, self.sampler = name, dict(space), sampler
        self.seed, self.round_size = seed, round_size
        self._grid = spaces.grid(space) if sampler == "grid" else None
        self._distributions = {key: _distribution(axis) for key, axis in space.items()}
        self.facts = {
            **facts,
            "space": spaces.plain(space),
            "sampler": sampler,
            "seed": seed,
            "round": round_size,
        }
        with _written():
            self._study = optuna.create_study(
                storage=storage, study_name=name, direction="minimize", load_if_exists=True
            )
            self._check_facts()
        self._stored = [
            _trial(t) for t in self._study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        ]

    def _check_facts(self) -> None:
        known, now = self._study.user_attrs.get(MARK), json.loads(json.dumps(self.facts))
        if known is None:
            if self._study.get_trials(deepcopy=False):
                raise InvalidValue(
                    f"storage: its study {self.name!r} was not made by bongref tune; "
                    "use another storage"
                )
            self._study.set_user_attr(MARK, now)
        elif known != now:
            raise InvalidValue(f"storage: {_difference(self.name, known, now)}")

    @property
    def trials(self) -> list[Trial]:
        """The trials so far, in order."""
        return list(self._stored)

    def size(self, trials: int) -> int:
        """How many trials the study will have if ``trials`` are asked for."""
        return trials if self._grid is None else min(trials, len(self._grid))

    def pending(self, trials: int) -> list[Proposal]:
        """The trials of the present round that are not stored yet; none if all are.

        Parameters
        ----------
        trials : int
            How many the study is to have in all. A larger number only adds rounds.

        Returns
        -------
        list of Proposal
        """
        done, total = len(self._stored), self.size(trials)
        if done >= total:
            return []
        start = done // self.round_size * self.round_size
        proposed = self._propose(start)
        for trial, proposal in zip(self._stored[start:], proposed, strict=False):
            if trial.params != proposal.params:
                raise InvalidValue(
                    f"storage: trial {trial.number} of the study {self.name!r} is not the one that "
                    "this version of Optuna proposes; use another storage, or the version of "
                    f"Optuna that made it ({self._study.user_attrs.get('optuna', 'not known')})"
                )
        return [p for p in proposed if done <= p.number < total]

    def _propose(self, start: int) -> list[Proposal]:
        """The round that begins with trial ``start``: a function of the trials before it."""
        end = start + self.round_size
        if self._grid is not None:
            return [Proposal(k, dict(v)) for k, v in enumerate(self._grid)][start:end]
        optuna = require_optuna()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=_seed(self.seed, self.name, start // self.round_size),
                n_startup_trials=STARTUP,
                multivariate=False,
                constant_liar=True,
            )
        copy = optuna.create_study(sampler=sampler, direction="minimize")
        copy.add_trials([self._frozen(trial) for trial in self._stored[:start]])
        asked = [copy.ask(self._distributions) for _ in range(self.round_size)]
        return [Proposal(start + k, dict(trial.params)) for k, trial in enumerate(asked)]

    def tell(self, proposal: Proposal, loss: float, attributes: Mapping[str, Any]) -> Trial:
        """Store the result of the next trial; they are told in the order of their numbers.

        Parameters
        ----------
        proposal : Proposal
            The first one that is not stored.
        loss : float
            Finite: see :func:`bounded`.
        attributes : mapping
            Plain data that is kept with the trial.

        Returns
        -------
        Trial
        """
        if proposal.number != len(self._stored):
            raise InvalidValue(
                f"proposal must be trial {len(self._stored)}, the next one, got {proposal.number}"
            )
        if not math.isfinite(loss):
            raise InvalidValue(f"loss must be finite, got {loss!r}; study.bounded makes it so")
        trial = Trial(proposal.number, proposal.params, float(loss), dict(attributes))
        with _written():
            if not self._stored:
                self._study.set_user_attr("optuna", require_optuna().__version__)
            self._study.add_trial(self._frozen(trial))
        self._stored.append(trial)
        return trial

    def _frozen(self, trial: Trial) -> Any:
        return require_optuna().trial.create_trial(
            value=trial.loss,
            params=trial.params,
            distributions=self._distributions,
            user_attrs=trial.attributes,
        )

    def best(self) -> Trial | None:
        """The trial of the smallest loss, the first of equals; None where all have diverged."""
        valid = [t for t in self._stored if t.loss < LARGE]
        return min(valid, key=lambda t: (t.loss, t.number), default=None)


# --- storages -------------------------------------------------------------------------------------


def open_storage(where: str | os.PathLike[str], task: Mapping[str, Any] | None = None) -> Any:
    """Optuna storage: the path of a journal file, or any URL that Optuna takes.

    Parameters
    ----------
    where : str or path
        ``"study.journal"``, or e.g. ``"sqlite:///study.db"``.
    task : mapping, optional
        The task of the studies; a storage with a study of another task is refused.

    Returns
    -------
    optuna.storages.BaseStorage

    Raises
    ------
    InvalidValue
        If it cannot be opened, is not a storage, or has a study of another task.
    ImportError
        If Optuna is not installed.
    """
    optuna = require_optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        if "://" in str(where):
            storage = optuna.storages.get_storage(str(where))
        else:
            _mend(Path(where))
            backend = optuna.storages.journal.JournalFileBackend(str(where))
            storage = optuna.storages.JournalStorage(backend)
        studies = storage.get_all_studies()
    except InvalidValue:
        raise
    except Exception as error:  # of Optuna, SQLAlchemy or a driver: there is no common class
        first = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InvalidValue(
            f"storage must be a journal file or a URL of an Optuna storage, got {str(where)!r}; "
            f"{first[0]}"
        ) from None
    for one in studies if task is not None else ():
        known = one.user_attrs.get(MARK, {}).get("task")
        if known is not None and known != json.loads(json.dumps(task)):
            raise InvalidValue(
                f"storage: {str(where)!r} has a study of another task "
                f"({_words(known)}) and this one is {_words(task or {})}; use another folder"
            )
    return storage


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """A disk that fails is told as what it is, and not as the lock that Optuna then misses."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _mend(path: Path) -> None:
    """Drop an incomplete last line of a journal, and the lock of a process that was killed.

    The caller has the lock of the folder, so that no one else is writing.
    """
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    if not path.is_file():
        return
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        with open(path, "r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)


def require_optuna() -> Any:
    """The module ``optuna``."""
    try:
        import optuna
    except ImportError:
        raise ImportError('bongref tune needs Optuna; pip install "bongref[experiments]"') from None
    return optuna


# --- parts ----------------------------------------------------------------------------------------


def _distribution(axis: Axis) -> Any:
    d = require_optuna().distributions
    if isinstance(axis, Choice):
        return d.CategoricalDistribution(list(axis.values))
    if axis.integer:
        return d.IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return d.FloatDistribution(axis.low, axis.high, log=axis.log)


def _trial(frozen: Any) -> Trial:
    return Trial(frozen.number, dict(frozen.params), float(frozen.value), dict(frozen.user_attrs))


def _seed(seed: int, name: str, round: int) -> int:
    """A seed for each round of each study, in the range that Optuna takes."""
    text = f"{seed}/{name}/{round}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def _words(task: Mapping[str, Any]) -> str:
    return f"{task.get('name', '?')}, checksum {str(task.get('checksum', '?'))[:8]}"


def _difference(name: str, known: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which facts of a stored study differ from those asked for."""
    keys = [k for k in sorted({*known, *now}) if known.get(k) != now.get(k)]
    if "task" in keys:
        a, b = known.get("task") or {}, now.get("task") or {}
        return (
            f"the study {name!r} is of another task ({_words(a)}) and this one is {_words(b)}; "
            "use another folder"
        )
    parts = "; ".join(f"{k} was {known.get(k)!r} and is {now.get(k)!r}" for k in keys)
    return (
        f"the study {name!r} has other settings: {parts}; give the same ones to go on, "
        "or use another folder"
    )
