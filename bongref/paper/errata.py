"""What the paper prints and what it should print. The code computes the corrected form.

Kinds: typo (no reader is misled), index (a wrong time or iteration index), convention (true under one reading only),
wrong claim, wrong cost. `where` is the id of the equation, or of the section or table when the slip is in its text; `also` are the
other places with the same slip. Printed forms that give other numbers are functions of :mod:`bongref.paper.printed`.
An erratum without a test has been established by reading two places of the paper against each other.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = ("typo", "index", "convention", "wrong claim", "wrong cost")

PLACES = {
    "sec:related": "Related work",
    "sec:families": "Methods / Variational families and their parameterizations",
    "sec:method-space": "Methods / Overall space of methods",
    "tab:methods": "Methods / Overall space of methods: the table of time complexities",
    "sec:experiments": "Experiments",
    "sec:speed": "Additional experiment results / Running time measures",
    "sec:mnist-appx": "Additional experiment results / Detailed results for CNN on MNIST",
    "sec:sarcos": "Additional experiment results / SARCOS dataset",
    "sec:lr-sensitivity": "Additional experiment results / Learning rate sensitivity",
}  # parts of the paper without a displayed equation


class Erratum(NamedTuple):
    """One slip: where it is, what is printed, what is meant, and what follows from taking it literally."""

    id: str  # E01, ...: stable
    name: str
    where: str
    kind: str
    printed: str
    corrected: str
    effect: str
    line: int  # in the paper's LaTeX
    also: tuple[str, ...] = ()
    latex: str = ""  # a piece of the equation as the ledger has it that shows the slip
    test: str = ""  # goes red if the printed form were right; empty: by reading
    function: str = ""  # the printed form, in bongref.paper.printed


_T = "tests/test_errata.py::test_"
_ITERATE = "none if the left side is read as the new iterate"

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "E01",
        "DLR-covariance",
        "sec:related",
        "typo",
        "families defined by full covariance, diagonal covariance, and DLR covariance",
        "DLR precision, as everywhere else in the paper",
        (
            "the two families differ: with three parameters and rank 1 the off-diagonal entries of the precision have a "
            "positive product in one and a negative product in the other"
        ),
        454,
        test=_T + "dlr_covariance_and_dlr_precision_are_different_families",
    ),
    Erratum(
        "E02",
        "f-is-natural",
        "sec:background",
        "convention",
        "f may compute the mean for regression",
        (
            "f is the natural parameter wherever a derivation uses it (eq:exfam-likelihood-general, eq:fbar, algo:update): "
            "for N(m, R) it is R⁻¹m, not m, unless R = I"
        ),
        (
            "with f = m the linear(f)-delta side of Prop. 4.2 gives g = Fᵀ(y − ŷ) with F = ∂m/∂θ, which is R times the right "
            "one: ten times too small at R = 0.1"
        ),
        508,
        test=_T + "f_must_be_the_natural_parameter",
        function="lin_hess_with_f_the_mean",
    ),
    Erratum(
        "E03",
        "drift",
        "sec:background",
        "typo",
        "0 ≤ γ ≤ 1 is the degree of drift",
        "γ is what is kept: γ = 1 is no drift (the paper's own static case) and γ = 0 forgets everything",
        "none on the equations",
        533,
        test=_T + "gamma_is_what_is_kept",
    ),
    Erratum(
        "E04",
        "static-dynamics",
        "sec:background",
        "index",
        "p(θ_t | θ_{-1}) = δ(θ_t − θ_{t-1})",
        "p(θ_t | θ_{t-1}) = δ(θ_t − θ_{t-1})",
        "none",
        547,
    ),
    Erratum(
        "E05",
        "strictly-convex",
        "sec:background",
        "convention",
        "Φ is strictly convex, which holds in the cases we study, with ψ = (Σ⁻¹μ, −½ vec(Σ⁻¹))",
        (
            "it holds over symmetric matrices (P + P(P+1)/2 coordinates); over all P² entries of vec(·) an antisymmetric part "
            "changes nothing, and F_ψ is singular"
        ),
        (
            "for P = 2 the covariance of (θ, vec θθᵀ) is 6 × 6 of rank 5, so F⁻¹ in eq:bong does not exist in these "
            "coordinates; the symmetry erratum of the GD rules has the same root"
        ),
        573,
        also=("sec:variational#1",),
        test=_T + "fisher_over_all_matrices_is_singular",
    ),
    Erratum(
        "E06",
        "PSD",
        "sec:variational#1",
        "typo",
        "Σ_{t|t-1} can be any positive semi-definite matrix",
        "positive definite",
        "Σ⁻¹, and with it ψ, does not exist for a singular Σ",
        696,
        test=_T + "a_singular_covariance_has_no_natural_parameters",
    ),
    Erratum(
        "E07",
        "gL-softmax",
        "eq:gL",
        "convention",
        "Hᵀ R⁻¹ (y − ŷ) and −Hᵀ R⁻¹ H for every exponential family, and F = R⁻¹H in the proof",
        (
            "Fᵀ(y − ŷ) and −FᵀRF with F the Jacobian of the natural parameter (the linear(f)-delta side of the same result); "
            "or C − 1 of the C one-hot outputs"
        ),
        (
            "with one-hot y, R = diag(p) − ppᵀ has rank C − 1: the printed form cannot be evaluated. R + 10⁻³I in its place "
            "moves FᵀRF with F = I by 0.27 % at p = (0.2, 0.3, 0.5) and by 3.3 % at p = (0.01, 0.01, 0.98); a pseudo-inverse "
            "gives the right numbers"
        ),
        859,
        also=("eq:GL", "sec:proofs#16", "sec:pseudocode#26", "sec:pseudocode#27"),
        latex=r"\mathbf{R}_t^{-1}",
        test=_T + "softmax_has_no_inverse_and_jitter_is_another_filter",
        function="lin_hess",
    ),
    Erratum(
        "E08",
        "EF-mean",
        "sec:EF",
        "convention",
        "if ŷ_t were the true E[y_t|x_t] then E[(y − ŷ)(y − ŷ)ᵀ] = R_t",
        "if both the mean and the covariance of y_t are those of the model",
        (
            "a right mean is enough where it fixes the covariance (Bernoulli, categorical); a Gaussian with the right mean "
            "and twice the variance has E[g gᵀ] = −2G"
        ),
        961,
        test=_T + "a_right_mean_is_not_enough_for_the_empirical_fisher",
    ),
    Erratum(
        "E09",
        "bog-rule",
        "eq:bog",
        "index",
        "ψ_t = ψ_t + α ∇_{ψ_t} E_{q_{ψ_t}}[log p]",
        "ψ_{t|t-1} in all three places on the right",
        "as printed the equation defines ψ_t by itself, and only a stationary point solves it; the derivations use the prior",
        1055,
        latex=r"\boldsymbol{\psi}_{t} = \boldsymbol{\psi}_{t} +",
        test=_T + "bog_as_printed_has_no_solution_away_from_stationary_points",
    ),
    Erratum(
        "E10",
        "blr-rule",
        "eq:blr",
        "typo",
        "α F_ψ ∇_ψ(…)",
        "α F_ψ⁻¹ ∇_ψ(…)",
        "as printed it is not natural gradient descent: for a variance σ² the step is off by F² = 1/(4σ⁸)",
        1075,
        latex=r"\alpha_t \mathbf{F}_{\boldsymbol{\psi}_{t,i-1}} \nabla",
        test=_T + "blr_with_the_fisher_in_place_of_its_inverse",
        function="blr_rule",
    ),
    Erratum(
        "E11",
        "blr-MD-subscript",
        "eq:blr-MD",
        "typo",
        "q_{ψ t,i-1} in the KL term",
        "q_{ψ_{t,i-1}}",
        "none",
        1094,
        latex=r"q_{\boldsymbol{\psi}{t,i-1}}",
    ),
    Erratum(
        "E12",
        "36-natural",
        "sec:method-space",
        "wrong claim",
        "the three variational families that use natural parameters",
        "two of them do (FC and Diag); (μ, Υ, W) of DLR are not natural parameters",
        (
            "∇²_ψ log q of a natural parameter does not depend on θ; in (μ, Υ, W) it does. The 36 are 3 Hessians × 3 families "
            "× 4 rules either way"
        ),
        1171,
        test=_T + "dlr_parameters_are_not_natural",
    ),
    Erratum(
        "E13",
        "table-RVGA-VON",
        "tab:methods",
        "wrong claim",
        "[RVGA] and [VON] in the MC-EF rows",
        (
            "both use the Hessian, so MC-HESS, as sec:FC-Nat-bong, sec:diag-Nat and sec:blr-batch say themselves (there MC-EF "
            "is VOGN); the caption allows for variants"
        ),
        "E[∇²] and −E[∇∇ᵀ] at one y are different matrices: see the tests for how far the steps are apart",
        1303,
        test="tests/test_literature.py::test_rvga_is_not_in_the_empirical_fisher_row_where_the_table_has_it",
    ),
    Erratum(
        "E14",
        "bbb-lin-hess-dlr-table",
        "tab:methods",
        "wrong cost",
        "BBB, LIN-HESS, DLR: O(I(C+R)RP)",
        "O(I(C+R)²P), as the text of its section has it",
        "HᵀAᵀ alone takes C²P, which the table leaves out; it matters when C > R",
        1312,
        test=_T + "cost_of_the_factor_of_lin_hess",
    ),
    Erratum(
        "E15",
        "mc-posterior",
        "sec:experiments",
        "typo",
        "posterior samples θ_t ~ p(θ_t | D)",
        "θ_t ~ q_{ψ_t}(θ_t), as in the integral above it",
        "none",
        1408,
    ),
    Erratum(
        "E16",
        "lin-mc-h",
        "sec:experiments",
        "convention",
        "Lin-MC replaces h(x, θ) by h̄(x, θ), after Immer et al.",
        "for a classifier f, the logits: h̄ of a softmax leaves the simplex, while softmax(f̄) cannot",
        (
            "three classes at p = (0.98, 0.01, 0.01), logits moved by (−2, 2, 0): h̄ is (0.92, 0.05, 0.03), the softmax "
            "(0.61, 0.34, 0.05); moved by (2, −2, 0) h̄ is (1.04, −0.03, −0.01)"
        ),
        1417,
        test=_T + "linearised_probabilities_leave_the_simplex",
    ),
    Erratum(
        "E17",
        "SE-or-SD",
        "sec:experiments",
        "wrong claim",
        "shaded regions in these and all other plots are ±1 SE over 5 trials",
        "not in all: the SARCOS figures have ±1 standard deviation over 3 trials (line 1963)",
        "an interval of ±1 SD is √3 times as wide as one of ±1 SE over 3 trials",
        1462,
        also=("sec:sarcos",),
    ),
    Erratum(
        "E18",
        "G-NSD",
        "sec:experiments",
        "wrong claim",
        "G_t is negative semi-definite for all 4 Hessian approximations",
        "for MC-EF, LIN-HESS and LIN-EF; the Hessian of a network's log-likelihood (MC-HESS) is indefinite in general",
        (
            "f(θ) = θ², y = 2, R = 1 at θ = 1: ∇² log p = 2(y − θ²) − 4θ² = −2; at θ = ½ it is +2.5, and BONG-MC-HESS with σ² "
            "= 1 gives a precision of −1.5. The same footnote says that diag(G) is added to the variance: "
            "eq:bong-diag-mom-var adds σ⁴diag(G)"
        ),
        1501,
        also=("eq:bong-diag-mom-var",),
        test=_T + "mc_hess_is_not_negative_semi_definite",
    ),
    Erratum(
        "E19",
        "outer-product",
        "sec:pseudocode",
        "index",
        "the outer product of this output as Ḡ_{t,1}",
        "minus the outer product, over M for MC-EF, as Ḡ_{t,i}",
        "taken literally G is positive semi-definite: the precision falls where it should rise",
        1577,
        test=_T + "the_outer_product_needs_its_sign",
        function="mc_ef_outer",
    ),
    Erratum(
        "E20",
        "loglik-bold-f",
        "sec:pseudocode#9",
        "typo",
        "log p(y_t | 𝐟_t(θ_t)), bold f",
        "f_t, the function of the line above",
        "none",
        1616,
        latex=r"\boldsymbol{f}_t",
    ),
    Erratum(
        "E21",
        "grad-fn-without-y",
        "sec:pseudocode#10",
        "typo",
        "grad-fn(ψ, ℓ_t, h_t, V_t, M)",
        "y_t is an argument too",
        "the two linearized estimators use y_t, which none of their arguments contains: they get ℓ_t = []",
        1620,
        latex=r"\text{grad-fn}(\boldsymbol{\psi}_{t,i-1}, \ell_t, h_t, \mathbf{V}_t, M)",
    ),
    Erratum(
        "E22",
        "EF-Hess",
        "sec:speed",
        "typo",
        "EF1-Lin0 = EF-Hess",
        "EF1-Lin0 = MC-EF: tab:hessian has no EF-Hess",
        "none",
        1752,
    ),
    Erratum(
        "E23",
        "ece-caption",
        "sec:mnist-appx",
        "typo",
        "the caption of the calibration of BONG variants says that BONG and BOG are both well calibrated",
        "it belongs under the figure before, which compares the rules on DLR; this one has no BOG",
        "none",
        1850,
    ),
    Erratum(
        "E24",
        "sarcos-D",
        "sec:sarcos",
        "typo",
        "SARCOS: D = 22",
        "D = 21, as the text (7 + 7 + 7 inputs) and the MLP 21-20-20-1 have it",
        "the 881 parameters are those of 21 inputs; 22 would make 901",
        1870,
        test=_T + "sarcos_has_21_inputs",
    ),
    Erratum(
        "E25",
        "proof-f-and-h",
        "sec:proofs",
        "typo",
        "the predicted mean ŷ_t = f_t(θ_t); the outcome-dependent part h_t(θ_t)ᵀ y_t",
        "the predicted mean is h_t(θ_t); the outcome-dependent part is f_t(θ_t)ᵀ y_t",
        "none on the proof, which uses the right ones",
        2252,
    ),
    Erratum(
        "E26",
        "proof-parentheses",
        "sec:proofs#10",
        "typo",
        "log p̄(y_t|θ_t)) on the left, (y_t − ŷ_t − H_t(θ_t − μ_{t|t-1}) on the right",
        "one parenthesis fewer on the left, one more on the right",
        "none",
        2258,
        latex=r"\boldsymbol{\theta}_{t}))\right]",
    ),
    Erratum(
        "E27",
        "proof-yhat",
        "sec:proofs#14",
        "index",
        "h_t(μ_{t|t-1}) = ŷ",
        "ŷ_t",
        "none",
        2277,
        latex=r"= \hat{\boldsymbol{y}}",
    ),
    Erratum(
        "E28",
        "bijection",
        "sec:MD-formulation",
        "wrong claim",
        "the mirror map is a bijection when Φ is convex",
        "strictly convex, as sec:background has it",
        "with vec(Σ⁻¹) as coordinates Φ is convex, and ψ + (0, antisymmetric) has the same ρ",
        2405,
        test=_T + "a_convex_log_partition_is_not_enough_for_a_bijection",
    ),
    Erratum(
        "E29",
        "eighty",
        "sec:derivations",
        "wrong claim",
        "derives the update equations for all 80 algorithms",
        "78: the two mc-hess methods of bong and blr in the DLR family are left out",
        "sec:DLR-deriv says so itself: the SVD projection needs G = −SSᵀ",
        2517,
        also=("sec:method-space",),
        test=_T + "seventy_eight_of_eighty",
    ),
    Erratum(
        "E30",
        "which-eighty",
        "sec:derivations",
        "wrong claim",
        "80 = tab:methods plus the MC-HESS and LIN-EF variants",
        "the table has the LIN-EF rows already: its 36, 12 with MC-HESS, and 32 in the two moment families",
        "36 + 12 = 48: the moment families are missing from the sum",
        2517,
        test=_T + "where_the_eighty_come_from",
    ),
    Erratum(
        "E31",
        "NGD-rho-index",
        "sec:derivations#1",
        "index",
        "the NGD methods use gradients with respect to ρ_{t,t-i}",
        "ρ_{t,i-1}",
        "none",
        2527,
    ),
    Erratum(
        "E32",
        "yhat-iterate",
        "sec:derivations#15",
        "typo",
        "y_{t,i} = h_t(μ_{t,i-1})",
        "ŷ_{t,i} = h_t(μ_{t,i-1})",
        "none",
        2575,
        latex=r"\boldsymbol{y}_{t,i} =h",
    ),
    Erratum(
        "E33",
        "linear-names",
        "sec:derivations#19",
        "typo",
        "the linear(f)-Gaussian and linear(h)-delta approximations",
        "linear(h)-Gaussian and linear(f)-delta, as defined in sec:linearized",
        "none on the equations; the other pairing would not drop the network's Hessian",
        2582,
    ),
    Erratum(
        "E34",
        "FC-KL-parenthesis",
        "sec:FC-Nat#5",
        "typo",
        "−½ log|Σ_{t,i-1}|) + const",
        "no closing parenthesis",
        "none",
        2619,
        latex=r"\right|)+",
    ),
    Erratum(
        "E35",
        "blr-FC-cost",
        "eq:BLR-FC-Nat-prec",
        "wrong cost",
        "Woodbury does not appear possible, BLR-FC requires time cubic in P; likewise BLR-FC_MOM",
        (
            "O(IKP²) for the first I iterations, K = M, C or 1: the inner loop starts at the prior, so Σ_{t,i}⁻¹ − "
            "Σ_{t|t-1}⁻¹ has rank iK at most, and so has Σ_{t,i} − Σ_{t|t-1} in FC_MOM"
        ),
        "quadratic in P, like BONG-FC, as long as IK is small beside P; for MC-HESS the statement stands",
        2743,
        also=("eq:blr-FC-mom-cov", "tab:methods"),
        test=_T + "the_inner_loop_of_blr_changes_the_prior_by_a_low_rank",
    ),
    Erratum(
        "E36",
        "bog-FC-symmetry",
        "eq:bog-FC-nat-prec",
        "convention",
        "Σ⁻¹ − 4αΣgμᵀ − 2αΣGΣ; D = 2Σ(∇_μ ℓ)μᵀ + 2Σ(∇_Σ ℓ)Σ for a gradient in ψ⁽²⁾",
        "its symmetric part, ½(D + Dᵀ): the precision is symmetric, so only symmetric directions count",
        (
            "the precision loses symmetry: with Σ = diag(1, 2), g = (1, 0), μ = (1, 2), α = 0.1 the term 4αΣgμᵀ has entries "
            "0.8 above and 0 below the diagonal"
        ),
        2768,
        also=(
            "sec:FC-Nat#21",
            "eq:FC-NLL-psi2",
            "eq:FC-KL-psi2",
            "sec:FC-Nat#33",
            "sec:FC-Nat#37",
            "sec:FC-Nat#39",
            "eq:bbb-FC-nat-prec",
            "sec:FC-Nat#43",
        ),
        latex=r"-4\alpha\boldsymbol{\Sigma}_{t|t-1}\boldsymbol{g}_{t}\boldsymbol{\mu}_{t|t-1}^{\intercal}",
        test=_T + "gradient_rules_of_fc_without_the_symmetric_part",
        function="bog_fc",
    ),
    Erratum(
        "E37",
        "bog-FC-cost",
        "eq:bog-FC-nat-mu",
        "wrong cost",
        "BOG-FC takes O(P³) because of the matrix inversion, and this can be traced to GD",
        "O(KP² + K³) with G = −SSᵀ: the precision changes by a matrix of rank K + 2, and Woodbury applies as for BONG",
        "quadratic in P; for MC-HESS the statement stands",
        2771,
        also=("tab:methods",),
        test=_T + "bog_fc_changes_the_precision_by_a_low_rank",
    ),
    Erratum(
        "E38",
        "left-index",
        "sec:FC-Nat#39",
        "index",
        "ψ_t⁽²⁾ on the left; likewise Σ_t and σ_t² in four rows of the BBB sections",
        "ψ_{t,i}⁽²⁾, Σ_{t,i}, σ²_{t,i}",
        _ITERATE,
        2789,
        also=("sec:FC-Mom#34", "sec:diag-Nat#45", "eq:bbb-diag-mom-var", "sec:diag-Mom#30"),
        latex=r"\boldsymbol{\psi}_{t}^{\left(2\right)} =",
    ),
    Erratum(
        "E39",
        "bbb-FC-psi2-G",
        "sec:FC-Nat#39",
        "index",
        "α Σ_{t|t-1} G_t Σ_{t|t-1}",
        "α Σ_{t,i-1} G_{t,i} Σ_{t,i-1}",
        (
            "right at i = 1 only; eq:bbb-FC-nat-prec has the right indices. On the problem of the test the increment of ψ⁽²⁾ "
            "is off by more than a tenth of its size"
        ),
        2791,
        latex=r"\alpha\boldsymbol{\Sigma}_{t|t-1}\mathbf{G}_{t}\boldsymbol{\Sigma}_{t|t-1}",
        test=_T + "bbb_fc_psi2_with_the_indices_of_the_prior",
        function="bbb_fc_psi",
    ),
    Erratum(
        "E40",
        "bbb-FC-cost",
        "eq:bbb-FC-nat-mu",
        "wrong cost",
        "BBB-FC takes O(P³) per iteration because of the matrix inversion; likewise BBB-FC_MOM",
        (
            "with G = −SSᵀ the loop stays in a Krylov space of the prior's covariance: quadratic in P for a fixed number of "
            "iterations, given the prior's precision, which it hands on"
        ),
        (
            "an upper bound that is not tight; the number of columns grows with i, so it pays for few iterations; for MC-HESS "
            "the statement stands"
        ),
        2811,
        also=("bbb-FC-mom-cov", "tab:methods"),
        test="tests/test_costs.py::test_bbb_fc_in_a_krylov_basis",
    ),
    Erratum(
        "E41",
        "fisher-vec",
        "sec:FC-Mom#15",
        "convention",
        "F_{Σ,Σ} = ½ Σ⁻¹ ⊗ Σ⁻¹ in the P² entries of vec(Σ), by the second-order formula",
        (
            "½ Σ⁻¹ ⊗ Σ⁻¹ on symmetric directions; the covariance of the score, which is the Fisher, has rank P(P+1)/2 and is "
            "0 on antisymmetric ones"
        ),
        "none on the updates, whose gradients are symmetric; for P = 2 the two matrices have ranks 4 and 3",
        2872,
        latex=r"\otimes",
        test=_T + "second_order_fisher_of_vec_sigma_is_full_rank_and_the_first_order_one_is_not",
    ),
    Erratum(
        "E42",
        "bog-mean",
        "eq:bog-fc-mom-mu",
        "wrong claim",
        "the mean update is vanilla OGD and does not depend on the covariance",
        "for LIN-HESS and LIN-EF; with MC g_t is a mean of gradients over θ ~ N(μ, Σ)",
        "f(θ) = θ², y = 2, R = 1, μ = 1: the exact E[g] is 2 − 6σ², so −4 at σ² = 1 and 2 at σ² → 0",
        2958,
        also=("eq:bog-diag-mom-mu", "eq:bog-dlr-mu"),
        test=_T + "mean_of_bog_depends_on_the_covariance_through_the_samples",
    ),
    Erratum(
        "E43",
        "diag-dual",
        "sec:diag-Nat#2",
        "typo",
        "ρ⁽²⁾ = μμᵀ + σ²",
        "ρ⁽²⁾ = μ² + σ², elementwise",
        "as printed a matrix is added to a vector; sec:diag-Nat#4 inverts the elementwise form",
        3014,
        latex=r"\boldsymbol{\mu}_{t,i-1}\boldsymbol{\mu}_{t,i-1}^{\intercal}",
        test=_T + "dual_of_the_diagonal_gaussian",
        function="diag_dual",
    ),
    Erratum(
        "E44",
        "diag-KL-sum",
        "sec:diag-Nat#5",
        "typo",
        "½(μ − μ_p)² σ_p⁻² + ½ Σ(…)",
        "½ Σ((μ − μ_p)² σ_p⁻² + …): the sum covers the first term too",
        "as printed a vector is added to a scalar; the gradients that follow are those of the sum",
        3028,
        latex=r"\boldsymbol{\sigma}_{t|t-1}^{-2}+\tfrac{1}{2}\sum",
        test=_T + "kl_of_the_diagonal_gaussian",
        function="diag_kl",
    ),
    Erratum(
        "E45",
        "diag-chain",
        "sec:diag-Nat#16",
        "typo",
        "∇_{Σ_{t,i-1}} ℓ",
        "∇_{σ²_{t,i-1}} ℓ",
        "none: its factor is 0",
        3056,
        latex=r"\nabla_{\boldsymbol{\Sigma}_{t,i-1}}\ell",
    ),
    Erratum(
        "E46",
        "diag-trick",
        "sec:diag-Nat",
        "index",
        "(AB)_{ii} = Σ_{j=1}^M A_ij B_ji with A of shape n × m",
        "j = 1, …, m: M is the number of samples",
        "right where the inner size is M, as for MC-EF; for LIN-HESS (m = C) terms are dropped or missing",
        3082,
        test=_T + "diagonal_of_a_product",
        function="diag_product",
    ),
    Erratum(
        "E47",
        "diag-reference",
        "sec:diag-Nat",
        "typo",
        "applying Prop. 4.2 to eq:bong-diag-mu, eq:bong-diag-prec",
        "to the two rows after them: those labels are on the rows of ψ⁽¹⁾ and ψ⁽²⁾, and what is displayed is (μ, σ⁻²)",
        "none",
        3112,
    ),
    Erratum(
        "E48",
        "VD-EKF",
        "sec:diag-Nat",
        "wrong claim",
        "BONG-LIN-HESS-DIAG is equivalent to VD-EKF",
        (
            "it has the variance of VD-EKF and another mean: VD-EKF keeps the mean of the full EKF, Σ_{t|t-1}Hᵀ(R + HΣHᵀ)⁻¹(y "
            "− ŷ), where BONG moves by σ_t² Hᵀ R⁻¹(y − ŷ)"
        ),
        ("prior N(0, I), H = [1, 1], R = 1, y − ŷ = 1: 1/3 for each parameter by VD-EKF, 1/2 by BONG; equal where HᵀR⁻¹H is diagonal"),
        3117,
        also=("sec:related", "tab:methods"),
        test="tests/test_literature.py::test_the_smallest_problem_on_which_vd_ekf_is_another_filter",
    ),
    Erratum(
        "E49",
        "diag-translate",
        "sec:diag-Nat",
        "typo",
        "translating to (μ_{t,i}, Σ_{t,i}) in the diagonal family",
        "(μ_{t,i}, σ²_{t,i})",
        "none",
        3188,
    ),
    Erratum(
        "E50",
        "DLR-chain-index",
        "sec:DLR-deriv#4",
        "index",
        "∇_{Υ_{t|t-1}} ℓ and ∇_{W_{t|t-1}} ℓ",
        "t,i−1 in place of t|t−1: the gradients that follow are at q_{t,i-1}",
        "none: the rule holds at any state",
        3364,
        also=("sec:DLR-deriv#5",),
        latex=r"\nabla_{\boldsymbol{\Upsilon}_{t|t-1}}\ell",
    ),
    Erratum(
        "E51",
        "DLR-g",
        "eq:DLR-NLL-mu",
        "typo",
        "g_{ψ_{t,i}}, and p(y | h_t(θ_t))",
        "g_{t,i}, and p(y | f_t(θ_t))",
        "none",
        3373,
        also=("eq:DLR-NLL-Ups", "eq:DLR-NLL-W"),
        latex=r"h_{t}\left(\boldsymbol{\theta}_{t}\right)",
    ),
    Erratum(
        "E52",
        "DLR-fisher",
        "sec:DLR-deriv",
        "wrong claim",
        "the block of (Υ, W) has not been inverted efficiently; brute force would take O(R³P³)",
        ("for R ≥ 2 it has no inverse: W and WQ with QQᵀ = I are the same Gaussian, so at least R(R−1)/2 directions have no information"),
        "P = 6, R = 2: the block is 18 × 18 of rank 17",
        3425,
        also=("sec:families",),
        test=_T + "fisher_of_ups_and_w_is_singular_beyond_rank_one",
    ),
    Erratum(
        "E53",
        "DLR-cancellation",
        "sec:DLR-deriv#14",
        "convention",
        "Υ̃ + diag(W̃W̃ᵀ − WWᵀ), by subtraction",
        "sum the squares of the discarded columns of UΛ, which is never negative",
        "exact on paper; in float64 with singular values 1, 1e-9, 1e-9 the subtraction gives −1e-16 where 2e-19 is right",
        3444,
        also=("eq:bong-dlr-Ups", "sec:DLR-deriv#26", "eq:blr-dlr-Ups", "sec:LBLR-DLR#3", "sec:blr-batch#19", "sec:blr-batch#26"),
        latex=r"\tilde{\mathbf{W}}_{t,i}^{\intercal}-\mathbf{W}_{t,i}",
        test=_T + "projection_by_subtraction_cancels",
        function="project",
    ),
    Erratum(
        "E54",
        "DLR-top-vectors",
        "sec:DLR-deriv#13",
        "wrong claim",
        "W contains the top R singular vectors and values of the FC posterior",
        "of W̃; they are those of the posterior precision Υ̃ + W̃W̃ᵀ only when Υ̃ is a multiple of I",
        ("with Υ̃ = diag(10, 1), W̃ = diag(1, 2), R = 1 the projection keeps the second axis; the precision is largest on the first"),
        3446,
        test=_T + "the_kept_vectors_are_those_of_w_tilde",
    ),
    Erratum(
        "E55",
        "chol",
        "sec:DLR-deriv#29",
        "convention",
        "A = chol(R⁻¹) with W̃ = [W, HᵀAᵀ]; sec:DLR-deriv#39 uses A without defining it",
        "any A with AᵀA = R⁻¹ (the upper Cholesky factor)",
        (
            "invisible when C = 1; with the lower factor of R = [[2, 0.5], [0.5, 1]], AᵀA is off R⁻¹ by 0.14, so the "
            "precision is that of another R"
        ),
        3504,
        also=("sec:LBLR-DLR#6", "sec:DLR-deriv#39", "sec:blr-batch#29"),
        latex=r"\mathrm{chol}",
        test=_T + "lower_cholesky_factor_is_another_precision",
        function="lin_hess_factor",
    ),
    Erratum(
        "E56",
        "blr-dlr-alpha",
        "eq:blr-dlr-Wtilde",
        "convention",
        "√(1 − α) W_{t,i-1}, for any α",
        "0 < α ≤ 1",
        "for α > 1 the low-rank part is not of the form W̃W̃ᵀ; blr in the other families has no such bound",
        3519,
        also=("sec:LBLR-DLR#5", "eq:slang-Wtilde"),
        latex=r"\sqrt{1-\alpha}",
        test=_T + "blr_dlr_has_no_low_rank_factor_beyond_alpha_one",
    ),
    Erratum(
        "E57",
        "DLR-text-index",
        "sec:BLR-DLR",
        "index",
        "W̃_t, Ĝ_t and g_t in the text of the BLR and BBB sections",
        "W̃_{t,i}, Ĝ_{t,i} and g_{t,i}",
        "right at i = 1 only",
        3522,
        also=("sec:LBLR-DLR", "sec:bbb-dlr"),
    ),
    Erratum(
        "E58",
        "bog-dlr-cost",
        "eq:bog-dlr-B",
        "wrong cost",
        "mc-ef: O(RMP + MR² + R³); lin-ef: O(RP + R³)",
        "mc-ef: O(R(R + M)P + MR² + R³); lin-ef: O(R²P + R³)",
        "WᵀΥ⁻¹W alone takes R²P, which sec:bbb-dlr counts and this does not; it matters when R > M",
        3598,
        also=("tab:methods",),
        test=_T + "cost_of_the_woodbury_core",
    ),
    Erratum(
        "E59",
        "bog-lin-hess-dlr-cost",
        "sec:DLR-deriv#39",
        "wrong cost",
        "O(C(C + R)P + CR² + R³)",
        "O((C² + CR + R²)P + CR² + R³)",
        "WᵀΥ⁻¹W again; it matters when R > C",
        3613,
        also=("tab:methods",),
        test=_T + "cost_of_the_woodbury_core",
    ),
    Erratum(
        "E60",
        "bbb-dlr-g",
        "eq:bbb-dlr-mu",
        "index",
        "α g_t",
        "α g_{t,i}",
        "right at i = 1 only; on the problem of the test the second mean is off by more than a tenth of its step",
        3621,
        latex=r"\alpha\boldsymbol{g}_{t}",
        test=_T + "bbb_dlr_with_the_gradient_of_the_first_iteration",
        function="bbb_dlr",
    ),
    Erratum(
        "E61",
        "batch-y",
        "sec:blr-batch#3",
        "index",
        "y_t − ŷ_i in the linearized batch rows",
        "y − ŷ_i: the batch form has no t",
        "none",
        3708,
        also=("sec:blr-batch#7", "sec:blr-batch#11", "sec:blr-batch#15", "sec:blr-batch#24"),
        latex=r"\boldsymbol{y}_{t}-\hat{\boldsymbol{y}}_{i}",
    ),
    Erratum(
        "E62",
        "VOGN",
        "sec:blr-batch",
        "wrong claim",
        "the MC-EF version with M = 1 is equivalent to VOGN",
        ("for a batch of one example; VOGN sums the squares of the gradients of single examples, MC-EF squares the gradient of the sum"),
        "two examples with gradients (1, −1) in one parameter: VOGN's curvature is 2, that of MC-EF 0",
        3752,
        also=("sec:diag-Nat",),
        test="tests/test_batch.py::test_vogn_sums_squares_where_mc_ef_squares_the_sum",
    ),
    Erratum(
        "E63",
        "slang-g",
        "eq:slang-mu",
        "index",
        "g_t − λμ_{i-1}",
        "g_i − λμ_{i-1}",
        "none: the batch form has no t",
        3810,
        latex=r"\boldsymbol{g}_t",
    ),
    Erratum(
        "E64",
        "slang-A",
        "sec:blr-batch#22",
        "typo",
        "A_i = chol(R_i⁻¹) among the mc-ef rows",
        "no such row: nothing there uses A_i",
        "none",
        3831,
        latex=r"\mathrm{chol}",
    ),
    Erratum(
        "E65",
        "slang-lin-ef-size",
        "eq:slang-mu",
        "typo",
        "for SLANG-LIN-EF replace I_{R+M} by I_R",
        "by I_{R+1}: W̃ = [√(1−α) W, √α g] has R + 1 columns",
        "as printed the sizes do not fit",
        3884,
        test=_T + "slang_lin_ef_with_an_identity_of_rank",
        function="slang_lin_ef",
    ),
)


def for_equation(id: str) -> tuple[Erratum, ...]:
    """The errata at this equation, or at this section's text."""
    return tuple(e for e in ERRATA if id == e.where or id in e.also)


def erratum(id: str) -> Erratum:
    """The erratum with this id (E07) or name."""
    for e in ERRATA:
        if id in (e.id, e.name):
            return e
    raise ValueError(f"no erratum {id!r}; there are E01 to {ERRATA[-1].id}")
