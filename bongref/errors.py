"""The errors of the package: one hierarchy, each also the built-in kind that a caller would expect.

    BongrefError
      InvalidValue (ValueError), InvalidType (TypeError)   an argument is refused, nothing changed
      MissingFile (FileNotFoundError)                      there is no such file
      NotDerived (NotImplementedError)                     the paper derives no update of that name
      StreamEnded                                          a stream ended early: step, state, rows
        NotPositiveDefinite (ArithmeticError)              a covariance is not positive definite
        NotFinite (FloatingPointError)                     a gradient, Hessian or state overflowed
        CallbackFailed (RuntimeError)                      a model, likelihood or metric raised
        Interrupted (KeyboardInterrupt)                    Ctrl-C
    BongrefWarning (UserWarning)
      Diverging                                            a stream predicts worse than a constant
      Unscaled                                             data that are far from mean 0 and scale 1
      LostDigits                                           rounding may have taken half the digits

>>> import bongref as br
>>> try:
...     br.method("bong-mc-hess-dlr")
... except br.BongrefError as error:
...     print(type(error).__name__)
NotDerived
"""

from __future__ import annotations

from typing import Any

from .states import State


class BongrefError(BaseException):
    """Base of all errors that the package raises on purpose.

    It derives from BaseException, and every error below it but :class:`Interrupted` is an Exception
    through its built-in kind, so that ``except Exception`` does not swallow a Ctrl-C.

    Examples
    --------
    >>> import bongref as br
    >>> try:
    ...     br.method("bong-lin-hess-fc", alpha=0.1)
    ... except br.BongrefError as error:
    ...     print(type(error).__name__, isinstance(error, TypeError))
    InvalidType True
    """


class InvalidValue(BongrefError, ValueError):
    """An argument of the right kind whose value is not allowed.

    Examples
    --------
    >>> import bongref as br
    >>> br.likelihoods.Gaussian(var=-1.0)
    Traceback (most recent call last):
    bongref.errors.InvalidValue: var must be > 0 (a variance), got -1.0
    """


class InvalidType(BongrefError, TypeError):
    """An argument of the wrong kind.

    Examples
    --------
    >>> import bongref as br
    >>> br.models.linear("2")
    Traceback (most recent call last):
    bongref.errors.InvalidType: n_in must be an integer ...
    """


class MissingFile(BongrefError, FileNotFoundError):
    """A file that is to be read and is not there."""


class NotDerived(BongrefError, NotImplementedError):
    """A name of the grid for which the paper derives no update.

    Examples
    --------
    >>> import bongref as br
    >>> "bong-mc-hess-dlr" in br.methods()      # a name, but no update
    True
    >>> br.method("bong-mc-hess-dlr")
    Traceback (most recent call last):
    bongref.errors.NotDerived: ...
    """


class StreamEnded(BongrefError):
    """A stream that ended before its last observation.

    Attributes
    ----------
    step : int
        The step, from 1, that was not completed.
    state : FC, Diag or DLR
        The state after step ``step - 1``.
    rows : list of dict
        The rows of metrics up to there.
    name : str
        The method.
    result : Result or None
        All of it as a Result, for ``run(..., resume=error.result)``.

    Examples
    --------
    >>> import numpy as np, bongref as br
    >>> m, model = br.method("bog-lin-hess-diag_mom", alpha=1.0), br.models.linear(1)
    >>> lik, X = br.likelihoods.Gaussian(var=1.0), [[0.5], [9.0]]
    >>> try:
    ...     br.run(m, model, lik, m.prior([0.0]), X, Y=[1.0, 1.0])
    ... except br.StreamEnded as error:
    ...     print(type(error).__name__, error.step, error.rows, error.result.t)
    NotPositiveDefinite 2 [] 1
    """

    def __init__(
        self,
        message: str,
        step: int,
        state: State,
        rows: list[dict[str, Any]],
        name: str = "",
        result: Any = None,
    ) -> None:
        super().__init__(message)
        self.message, self.step, self.state, self.rows, self.name, self.result = (
            message,
            step,
            state,
            rows,
            name,
            result,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.step, self.state, self.rows, self.name, self.result)


class NotPositiveDefinite(StreamEnded, ArithmeticError):
    """An update whose covariance or precision is not positive definite.

    Examples
    --------
    >>> issubclass(NotPositiveDefinite, ArithmeticError)
    True
    """


class NotFinite(StreamEnded, FloatingPointError):
    """An update whose gradient, Hessian or state is not finite.

    Examples
    --------
    >>> issubclass(NotFinite, FloatingPointError)
    True
    """


class CallbackFailed(StreamEnded, RuntimeError):
    """A model, a likelihood or a metric that raised an exception, which is the ``__cause__``.

    Examples
    --------
    >>> import bongref as br
    >>> def broken(m, model, lik, state, rng):
    ...     raise KeyError("no such column")
    >>> lik, prior = br.likelihoods.Gaussian(1.0), br.Diag([0.0], [1.0])
    >>> how = {"metrics": broken, "every": 1, "backend": "reference"}
    >>> try:
    ...     br.run("bong-lin-hess-diag", br.models.linear(1), lik, prior, [[1.0]], [1.0], **how)
    ... except br.CallbackFailed as error:
    ...     print(repr(error.__cause__))
    KeyError('no such column')
    """


class Interrupted(StreamEnded, KeyboardInterrupt):
    """A stream stopped by Ctrl-C; ``run(..., resume=error.result)`` goes on.

    Examples
    --------
    >>> issubclass(Interrupted, KeyboardInterrupt)
    True
    """


class BongrefWarning(UserWarning):
    """Base of the warnings that the package gives.

    Examples
    --------
    >>> import warnings, bongref as br
    >>> with warnings.catch_warnings():      # errors instead of warnings
    ...     warnings.simplefilter("error", br.BongrefWarning)
    """


class Diverging(BongrefWarning):
    """A stream whose predictions are worse than a constant one."""


class Unscaled(BongrefWarning):
    """Inputs or observations of a network that are far from mean 0 and standard deviation 1."""


class LostDigits(BongrefWarning):
    """A step from which rounding may have taken more than half of the digits."""
