"""What the paper prints and what it should print. The code computes the corrected form.

Kinds: typo (no reader is misled), index (a wrong time or iteration index), convention (true under one reading only),
wrong claim, wrong cost. `where` is the id of the equation, or of the section when the slip is in its text.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("typo", "index", "convention", "wrong claim", "wrong cost")


class Erratum(NamedTuple):
    """One slip: where it is, what is printed, what is meant, and what follows from taking it literally."""

    id: str
    where: str
    kind: str
    printed: str
    corrected: str
    effect: str


_SYMMETRIC = "its symmetric part, ½(D + Dᵀ): the precision is symmetric, so only symmetric directions count"
_ASYMMETRIC = (
    "the precision loses symmetry: with Σ = diag(1, 2), g = (1, 0), μ = (1, 2), α = 0.1 "
    "the term 4αΣgμᵀ has entries 0.8 above and 0 below the diagonal"
)
_CHOL = "any A with AᵀA = R⁻¹ (the upper Cholesky factor)"
_LOWER = (
    "invisible when C = 1; with the lower factor of R = [[2, 0.5], [0.5, 1]], AᵀA is off R⁻¹ by 0.14, so the precision is that of another R"
)
_CANCEL = "sum the squares of the discarded columns of UΛ, which is never negative"
_NO_INVERSE = "Fᵀ(y − ŷ) and −FᵀRF with F the Jacobian of the natural parameter (the linear(f)-delta side of the same result)"
_SINGULAR = "with one-hot y, R = diag(p) − ppᵀ has rank C − 1: the printed form cannot be evaluated, the other one can"
_ITERATE = "none if the left side is read as the new iterate"

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "static-dynamics",
        "sec:background",
        "index",
        "p(θ_t | θ_{-1}) = δ(θ_t − θ_{t-1})",
        "p(θ_t | θ_{t-1}) = δ(θ_t − θ_{t-1})",
        "none",
    ),
    Erratum("gL-softmax", "eq:gL", "convention", "Hᵀ R⁻¹ (y − ŷ), for every exponential family", _NO_INVERSE, _SINGULAR),
    Erratum("GL-softmax", "eq:GL", "convention", "−Hᵀ R⁻¹ H, for every exponential family", _NO_INVERSE, _SINGULAR),
    Erratum(
        "bog-rule",
        "eq:bog",
        "index",
        "ψ_t = ψ_t + α ∇_{ψ_t} E_{q_{ψ_t}}[log p]",
        "ψ_{t|t-1} in all three places on the right",
        "as printed the equation defines ψ_t by itself; the derivations use the prior",
    ),
    Erratum(
        "blr-rule",
        "eq:blr",
        "typo",
        "α F_ψ ∇_ψ(…)",
        "α F_ψ⁻¹ ∇_ψ(…)",
        "as printed it is not natural gradient descent: for a variance σ² the step is off by F² = 1/(4σ⁸)",
    ),
    Erratum("blr-MD-subscript", "eq:blr-MD", "typo", "q_{ψ t,i-1} in the KL term", "q_{ψ_{t,i-1}}", "none"),
    Erratum(
        "loglik-bold-f",
        "sec:pseudocode#9",
        "typo",
        "log p(y_t | 𝐟_t(θ_t)), bold f",
        "f_t, the function of the line above",
        "none",
    ),
    Erratum(
        "grad-fn-without-y",
        "sec:pseudocode#10",
        "typo",
        "grad-fn(ψ, ℓ_t, h_t, V_t, M)",
        "y_t is an argument too",
        "the two linearized estimators use y_t, which none of their arguments contains",
    ),
    Erratum(
        "proof-f-and-h",
        "sec:proofs",
        "typo",
        "the predicted mean ŷ_t = f_t(θ_t); the outcome-dependent part h_t(θ_t)ᵀ y_t",
        "the predicted mean is h_t(θ_t); the outcome-dependent part is f_t(θ_t)ᵀ y_t",
        "none on the proof, which uses the right ones",
    ),
    Erratum(
        "proof-parentheses",
        "sec:proofs#10",
        "typo",
        "log p̄(y_t|θ_t)) on the left, (y_t − ŷ_t − H_t(θ_t − μ_{t|t-1}) on the right",
        "one parenthesis fewer on the left, one more on the right",
        "none",
    ),
    Erratum("proof-yhat", "sec:proofs#14", "index", "h_t(μ_{t|t-1}) = ŷ", "ŷ_t", "none"),
    Erratum(
        "eighty",
        "sec:derivations",
        "wrong claim",
        "derives the update equations for all 80 algorithms",
        "78: the two mc-hess methods of bong and blr in the DLR family are left out",
        "sec:DLR-deriv says so itself: the SVD projection needs G = −SSᵀ",
    ),
    Erratum(
        "NGD-rho-index",
        "sec:derivations#1",
        "index",
        "the NGD methods use gradients with respect to ρ_{t,t-i}",
        "ρ_{t,i-1}",
        "none",
    ),
    Erratum("yhat-iterate", "sec:derivations#15", "typo", "y_{t,i} = h_t(μ_{t,i-1})", "ŷ_{t,i} = h_t(μ_{t,i-1})", "none"),
    Erratum(
        "linear-names",
        "sec:derivations#19",
        "typo",
        "the linear(f)-Gaussian and linear(h)-delta approximations",
        "linear(h)-Gaussian and linear(f)-delta, as defined in sec:linearized",
        "none on the equations; the other pairing would not drop the network's Hessian",
    ),
    Erratum("FC-KL-parenthesis", "sec:FC-Nat#5", "typo", "−½ log|Σ_{t,i-1}|) + const", "no closing parenthesis", "none"),
    Erratum(
        "FC-psi2-symmetry",
        "sec:FC-Nat#21",
        "convention",
        "D = 2Σ(∇_μ ℓ)μᵀ + 2Σ(∇_Σ ℓ)Σ",
        _SYMMETRIC,
        "the unsymmetric D is the gradient over all matrices; along E = e₀e₁ᵀ + e₁e₀ᵀ only its symmetric part is seen",
    ),
    Erratum("FC-NLL-psi2-symmetry", "eq:FC-NLL-psi2", "convention", "D = 2Σgμᵀ + ΣGΣ", _SYMMETRIC, _ASYMMETRIC),
    Erratum(
        "FC-KL-psi2-symmetry",
        "eq:FC-KL-psi2",
        "convention",
        "D = 2ΣΣ_p⁻¹(μ − μ_p)μᵀ + Σ(Σ_p⁻¹ − Σ⁻¹)Σ",
        _SYMMETRIC,
        _ASYMMETRIC,
    ),
    Erratum("bog-FC-psi2-symmetry", "sec:FC-Nat#33", "convention", "ψ⁽²⁾ + 2αΣgμᵀ + αΣGΣ", _SYMMETRIC, _ASYMMETRIC),
    Erratum("bog-FC-symmetry", "eq:bog-FC-nat-prec", "convention", "Σ⁻¹ − 4αΣgμᵀ − 2αΣGΣ", _SYMMETRIC, _ASYMMETRIC),
    Erratum(
        "bog-lin-hess-FC-symmetry",
        "sec:FC-Nat#37",
        "convention",
        "Σ⁻¹ − 4αΣHᵀR⁻¹(y − ŷ)μᵀ + 2αΣHᵀR⁻¹HΣ",
        _SYMMETRIC,
        _ASYMMETRIC,
    ),
    Erratum("bbb-FC-psi2-left", "sec:FC-Nat#39", "index", "ψ_t⁽²⁾ on the left", "ψ_{t,i}⁽²⁾", _ITERATE),
    Erratum(
        "bbb-FC-psi2-G",
        "sec:FC-Nat#39",
        "index",
        "α Σ_{t|t-1} G_t Σ_{t|t-1}",
        "α Σ_{t,i-1} G_{t,i} Σ_{t,i-1}",
        "right at i = 1 only; eq:bbb-FC-nat-prec has the right indices. Against autograd of E[log p] − KL "
        "at a random point, P = 3: corrected to 7e-16, printed off by 2.95",
    ),
    Erratum(
        "bbb-FC-psi2-symmetry",
        "sec:FC-Nat#39",
        "convention",
        "the increment of ψ⁽²⁾ as a whole",
        _SYMMETRIC,
        _ASYMMETRIC,
    ),
    Erratum("bbb-FC-symmetry", "eq:bbb-FC-nat-prec", "convention", "Σ⁻¹ − 2αΣ(…)", _SYMMETRIC, _ASYMMETRIC),
    Erratum("bbb-lin-hess-FC-symmetry", "sec:FC-Nat#43", "convention", "Σ⁻¹ − 2αΣ(…)", _SYMMETRIC, _ASYMMETRIC),
    Erratum("bbb-lin-hess-FC-mom-left", "sec:FC-Mom#34", "index", "Σ_t on the left", "Σ_{t,i}", _ITERATE),
    Erratum(
        "diag-dual",
        "sec:diag-Nat#2",
        "typo",
        "ρ⁽²⁾ = μμᵀ + σ²",
        "ρ⁽²⁾ = μ² + σ², elementwise",
        "as printed a matrix is added to a vector; sec:diag-Nat#4 inverts the elementwise form",
    ),
    Erratum(
        "diag-KL-sum",
        "sec:diag-Nat#5",
        "typo",
        "½(μ − μ_p)² σ_p⁻² + ½ Σ(…)",
        "½ Σ((μ − μ_p)² σ_p⁻² + …): the sum covers the first term too",
        "as printed a vector is added to a scalar; the gradients that follow are those of the sum",
    ),
    Erratum("diag-chain", "sec:diag-Nat#16", "typo", "∇_{Σ_{t,i-1}} ℓ", "∇_{σ²_{t,i-1}} ℓ", "none: its factor is 0"),
    Erratum("bbb-diag-psi2-left", "sec:diag-Nat#45", "index", "ψ_t⁽²⁾ on the left", "ψ_{t,i}⁽²⁾", _ITERATE),
    Erratum("bbb-diag-mom-left", "eq:bbb-diag-mom-var", "index", "σ_t² on the left", "σ²_{t,i}", _ITERATE),
    Erratum("bbb-lin-hess-diag-mom-left", "sec:diag-Mom#30", "index", "σ_t² on the left", "σ²_{t,i}", _ITERATE),
    Erratum(
        "DLR-g",
        "eq:DLR-NLL-mu",
        "typo",
        "g_{ψ_{t,i}}",
        "g_{t,i}",
        "none; the three gradients here also write p(y|h_t) for p(y|f_t)",
    ),
    Erratum(
        "DLR-top-vectors",
        "sec:DLR-deriv#13",
        "wrong claim",
        "W contains the top R singular vectors and values of the FC posterior",
        "of W̃; they are those of the posterior precision Υ̃ + W̃W̃ᵀ only when Υ̃ is a multiple of I",
        "with Υ̃ = diag(10, 1), W̃ = diag(1, 2), R = 1 the projection keeps the second axis; the precision is largest on the first",
    ),
    Erratum(
        "DLR-cancellation",
        "sec:DLR-deriv#14",
        "convention",
        "Υ̃ + diag(W̃W̃ᵀ − WWᵀ), by subtraction",
        _CANCEL,
        "exact on paper; in float64 with singular values 1, 1e-9, 1e-9 the subtraction gives −3e-17 for 5e-19",
    ),
    Erratum(
        "bong-dlr-cancellation",
        "eq:bong-dlr-Ups",
        "convention",
        "Υ + diag(W̃W̃ᵀ − WWᵀ), by subtraction",
        _CANCEL,
        "as sec:DLR-deriv#14",
    ),
    Erratum(
        "blr-dlr-cancellation",
        "eq:blr-dlr-Ups",
        "convention",
        "Υ̃ + diag(W̃W̃ᵀ − WWᵀ), by subtraction",
        _CANCEL,
        "as sec:DLR-deriv#14",
    ),
    Erratum("bong-lin-hess-dlr-chol", "sec:DLR-deriv#29", "convention", "A = chol(R⁻¹) with W̃ = [W, HᵀAᵀ]", _CHOL, _LOWER),
    Erratum("blr-lin-hess-dlr-chol", "sec:LBLR-DLR#6", "convention", "A = chol(R⁻¹) with W̃ = […, √α HᵀAᵀ]", _CHOL, _LOWER),
    Erratum(
        "bog-lin-hess-dlr-chol",
        "sec:DLR-deriv#39",
        "convention",
        "HᵀAᵀ, with A not defined in this subsection",
        _CHOL,
        _LOWER,
    ),
    Erratum(
        "blr-dlr-alpha",
        "eq:blr-dlr-Wtilde",
        "convention",
        "√(1 − α) W_{t,i-1}, for any α",
        "0 < α ≤ 1",
        "for α > 1 the low-rank part is not of the form W̃W̃ᵀ; blr in the other families has no such bound",
    ),
    Erratum(
        "bog-dlr-cost",
        "eq:bog-dlr-B",
        "wrong cost",
        "mc-ef: O(RMP + MR² + R³); lin-ef: O(RP + R³)",
        "mc-ef: O(R(R + M)P + MR² + R³); lin-ef: O(R²P + R³)",
        "WᵀΥ⁻¹W alone takes R²P, which sec:bbb-dlr counts and this does not; it matters when R > M",
    ),
    Erratum(
        "bog-lin-hess-dlr-cost",
        "sec:DLR-deriv#39",
        "wrong cost",
        "O(C(C + R)P + CR² + R³)",
        "O((C² + CR + R²)P + CR² + R³)",
        "WᵀΥ⁻¹W again; it matters when R > C",
    ),
    Erratum("bbb-dlr-g", "eq:bbb-dlr-mu", "index", "α g_t", "α g_{t,i}", "right at i = 1 only"),
    Erratum("slang-g", "eq:slang-mu", "index", "g_t − λμ_{i-1}", "g_i − λμ_{i-1}", "none: the batch form has no t"),
    Erratum(
        "slang-A",
        "sec:blr-batch#22",
        "typo",
        "A_i = chol(R_i⁻¹) among the mc-ef rows",
        "no such row: nothing there uses A_i",
        "none",
    ),
    Erratum(
        "slang-lin-ef-size",
        "eq:slang-mu",
        "typo",
        "for SLANG-LIN-EF replace I_{R+M} by I_R",
        "by I_{R+1}: W̃ = [√(1−α) W, √α g] has R + 1 columns",
        "as printed the sizes do not fit",
    ),
    Erratum(
        "batch-y",
        "sec:blr-batch#3",
        "index",
        "y_t − ŷ_i, here and in the other linearized batch rows",
        "y − ŷ_i: the batch form has no t",
        "none",
    ),
)


def for_equation(id: str) -> tuple[Erratum, ...]:
    """The errata at this equation, or at this section's text."""
    return tuple(e for e in ERRATA if e.where == id)
