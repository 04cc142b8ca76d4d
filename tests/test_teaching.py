"""Grading: right solutions get all points, typical mistakes get the right words, nothing escapes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bongref import cli, teaching
from bongref.errors import InvalidValue
from bongref.teaching import hints, table, templates

FOLDER = Path(__file__).parent / "lessons"
LESSONS = sorted(templates.LESSONS)

INV = "import numpy as np\ninv = np.linalg.inv\n"
# lesson | exercise | the function's body | words of the hint
WRONG = """
1 | normal_update | v = 1/(1/var + 1/noise_var); return mu - v*(y - mu)/noise_var, v | sign of y - mu
1 | normal_update | v = 1/(1/var + 1/noise_var**2); return mu + v*(y - mu)/noise_var**2, v | noise_var taken for a standard deviation
1 | normal_update | v = 1/(1/var + 1/noise_var); return mu + var*(y - mu)/noise_var, v | prior's variance in place of the new
1 | normal_update | p = 1/var + 1/noise_var; return mu + (y - mu)/noise_var/p, p | precision is returned
2 | natural | return inv(Sigma) @ mu, -inv(Sigma) | without the factor 1/2
2 | natural | return Sigma @ mu, -Sigma/2 | covariance in place of the precision
2 | moments | S = inv(-2*psi2); return S @ psi1, 2*S | Sigma is 2 times
2 | kl | P = len(mu); d = mu - mu0; A = inv(Sigma0); return np.trace(A@Sigma) + d@A@d - P + np.log(np.linalg.det(Sigma0)/np.linalg.det(Sigma)) | factor 1/2
3 | gradients | return 3*a*(mu**2 + var) + 2*b*mu + c, 6*a*mu + 2*b | factor 1/2 of Price
3 | gradients | return 3*a*mu**2 + 2*b*mu + c, 3*a*mu + b | at the mean
3 | bong_fc | S = inv(inv(Sigma) + G); return S, mu + S@g | sign of G
3 | bong_fc | S = inv(inv(Sigma) - G/2); return S, mu + S@g | G/2 in place of G
4 | empirical_fisher | return -Ghat.T @ Ghat | divided by M
4 | gauss_newton | p = np.exp(f)/np.exp(f).sum(); return -F.T @ np.diag(p) @ F | without - p p^T
5 | kalman_gain | return (Sigma @ H.T @ inv(H@Sigma@H.T + R)).T | transpose of K
5 | kalman_gain | return Sigma @ H.T @ inv(H@Sigma@H.T + R@R) | R taken for a standard deviation
5 | bong_fc | N = inv(inv(Sigma) + S@S.T); return N, mu + Sigma@g | covariance of the prior in place of the new one
5 | bong_fc | N = inv(inv(Sigma) + S@S.T); return inv(N), mu + N@g | precision
5 | bong_fc | N = inv(inv(Sigma) + S@S.T); return N, mu - N@g | the sign of g
6 | bong_fc_mom | A = Sigma@S; return mu + Sigma@g, Sigma + A@A.T | sign of G
6 | largest_loss | return np.linalg.eigvalsh(S.T@S)[-1] | Sigma is left out
7 | bong_diag | v = 1/(1/var - d); return np.sqrt(v), mu + v*g | standard deviation
7 | bong_diag | v = 1/(1/var - 2*d); return v, mu + v*g | 2
8 | blr_fc | A, N = inv(Sigma), inv((1-alpha)*inv(Sigma_i) + alpha*(inv(Sigma) + S@S.T)); return N, mu_i + N@(A@(mu - mu_i) + g) | alpha
8 | blr_fc | A = inv(Sigma); N = inv((1-alpha)*A + alpha*(A + S@S.T)); return N, mu + alpha*N@g | the prior in place of the iterate
8 | bog_diag_mom | return mu + alpha*g, var + alpha*d | 2
9 | ou_predict | return gamma*mu + (1-gamma)*mu0, gamma*Sigma + (1-gamma)*Sigma0 | not squared
9 | steady_variance | v = (-q + np.sqrt(q*q + 4*q*r))/2; return v + q | before the update
10 | predictive | return (H@mu)[0], (H@Sigma@H.T)[0, 0] | noise of the observation is left out
10 | nlpd | return np.mean(np.log(2*np.pi*var**2)/2 + (y - mean)**2/(2*var**2)) | standard deviation
11 | blr_diag | v = 1/((1-alpha)/var_i + alpha*(1/var - d)); return v, mu_i + v*((mu - mu_i)/var + g) | alpha
11 | bbb_diag_mom | return mu_i + alpha*(g - (mu_i - mu)/var), var_i + alpha*(d - 1/var + 1/var_i) | 2
"""
# the same, tested by their numbers alone, without a file and a process
MORE = """
1 | beta_update | return a*y, b*(1-y) | the counts are multiplied: they add up
1 | beta_update | return a + y, b - y | y is subtracted from b: a failure adds 1 - y
1 | beta_update | return a - 1 + y, b - y | 1 is subtracted from both counts
1 | normal_update | K = var/(var+noise_var); return mu + K*y, (1-K)*var | y in place of y - mu: the gain multiplies the error of the prediction
1 | normal_update | K = noise_var/(var+noise_var); return mu + K*(y-mu), (1-K)*var | var and noise_var exchanged in the gain, in mean and variance
1 | normal_update | K = var/(var+noise_var); return mu + K*(y-mu), K*var | the prior's variance is multiplied by the gain K, not by 1 - K
1 | normal_update | K = var/(var+noise_var); return mu + K*(y-mu), (1-K)**2*var | (1 - K)^2 var: the noise's part, K^2 noise_var, is missing
1 | normal_update | v=1/(1/var+1/noise_var); return v*(mu/var + y/noise_var), np.sqrt(v) | var is the square root of what it should be: a standard deviation for a variance
1 | normal_update | v=1/(1/var+1/noise_var); return v, v*(mu/var + y/noise_var) | returned in another order: var, mu in place of mu, var
1 | normal_update | return (mu+y)/2, 1/(1/var+1/noise_var) | mu and y have equal weights: they are weighted by their precisions
2 | natural | return inv(Sigma) @ mu, inv(Sigma) | psi2 without the factor -1/2
2 | natural | return mu @ inv(Sigma), -2*inv(Sigma) | psi2 with the factor -2 in place of -1/2
2 | natural | return mu, -0.5*inv(Sigma) | psi1 is not the mean: it is Sigma^-1 mu
2 | natural | return mu / Sigma, -0.5 / Sigma | a division by Sigma is elementwise: a matrix is inverted by np.linalg.inv
2 | moments | return inv(psi2) @ psi1, inv(psi2) | psi2 is inverted as it is: psi2 = -1/2 Sigma^-1
2 | moments | S = -inv(psi2)/2; return S @ psi1, inv(S) | the precision is returned in place of Sigma
2 | kl | d = mu - mu0; return 0.5*(np.trace(inv(Sigma0)@Sigma) + d@inv(Sigma0)@d - len(mu) - np.log(np.linalg.det(Sigma0)/np.linalg.det(Sigma))) | the sign of the log-determinants
2 | kl | d = mu - mu0; return 0.5*(np.trace(inv(Sigma)@Sigma0) + d@inv(Sigma)@d - len(mu) + np.log(np.linalg.det(Sigma)/np.linalg.det(Sigma0))) | the two Gaussians exchanged
2 | kl | d = mu - mu0; return 0.5*(np.trace(inv(Sigma0)@Sigma) + d@inv(Sigma0)@d - len(mu)) | the log-determinants are left out
2 | kl | d = mu - mu0; return 0.5*(np.trace(inv(Sigma0)@Sigma) + d@inv(Sigma)@d - len(mu) + np.log(np.linalg.det(Sigma0)/np.linalg.det(Sigma))) | Sigma in place of Sigma0 between the means: (mu - mu0)^T Sigma0^-1 (mu - mu0)
3 | gradients | return 3*a*(mu**2+var) + 2*b*mu + c, 6*a*mu/2 + 2*b | only one of the terms of f'' is halved
3 | gradients | return a*(mu**3+3*mu*var) + b*(mu**2+var)+c*mu, 3*a*mu+b | E[f] itself is returned, not its gradient in mu
3 | gradients | return 3*a*(mu**2+var) + 2*b*mu, 3*a*mu+b | the derivative of c theta is left out
3 | bong_fc | S = inv(inv(Sigma) - G); return S, mu + Sigma@g | the covariance of the prior in place of the new one in the mean
3 | bong_fc | S = inv(inv(Sigma) - G); return S, S@g | mu is left out: the new mean is mu + Sigma_new g
3 | bong_fc | S = inv(Sigma - G); return S, mu+S@g | the covariance read as a precision
3 | bong_fc | S = inv(inv(Sigma) - G); return mu+S@g, S | returned in another order: mu, Sigma in place of Sigma, mu
3 | bong_fc | S = inv(Sigma) - G; return S, mu+inv(S)@g | the precision returned in place of the covariance
4 | empirical_fisher | return -Ghat @ Ghat.T / len(Ghat) | Ghat Ghat^T, which is M x M: the gradients are the rows
4 | empirical_fisher | return -Ghat.T @ Ghat / Ghat.shape[1] | divided by P, the number of parameters, not by M
4 | empirical_fisher | return -np.cov(Ghat.T) | the mean is subtracted, and divided by M - 1: a covariance of the gradients
4 | empirical_fisher | return -Ghat.T @ Ghat / (len(Ghat)-1) | divided by M - 1, not by M
4 | empirical_fisher | return -Ghat.T @ Ghat / len(Ghat)**2 | divided by M twice
4 | gauss_newton | p = np.exp(f)/np.exp(f).sum(); R = np.diag(p) - np.outer(p,p); return F.T @ R @ F | the sign of G
4 | gauss_newton | p = 1/(1+np.exp(-f)); R = np.diag(p*(1-p)); return -F.T @ R @ F | a sigmoid of each logit in place of the softmax
4 | gauss_newton | p = np.exp(f)/np.exp(f).sum(); R = np.diag(p*(1-p)); return -F.T @ R @ F | only the diagonal of R, p (1 - p): classes are not independent
4 | gauss_newton | R = np.diag(f) - np.outer(f,f); return -F.T @ R @ F | the logits f in place of p = softmax(f)
5 | kalman_gain | return inv(H @ Sigma @ H.T + R) @ H @ Sigma | H in place of H^T on the left: this is the transpose of K
5 | kalman_gain | return Sigma @ H.T @ inv(H @ Sigma @ H.T + inv(R)) | R^-1 in place of R
5 | kalman_gain | return Sigma @ H.T @ inv(R) | H Sigma H^T is left out of the innovation's covariance
5 | kalman_update | K = Sigma@H.T@inv(H@Sigma@H.T+R); return mu + K@y, Sigma - K@H@Sigma | yhat is not subtracted from y
5 | kalman_update | K = Sigma@H.T@inv(H@Sigma@H.T+R); return mu + K@(y-H@mu), Sigma - K@H@Sigma | H mu in place of yhat: a network's prediction is not linear
5 | kalman_update | K = Sigma@H.T@inv(H@Sigma@H.T+R); return mu + K@(y-yhat), Sigma - K@R@K.T | K R K^T in place of K H Sigma
5 | kalman_update | K = Sigma@H.T@inv(H@Sigma@H.T+R); return mu + K@(y-yhat), np.eye(3) - K@H | Sigma is left out: I - K H, not (I - K H) Sigma
5 | bong_fc | N = inv(inv(Sigma) - S@S.T); return N, mu + N@g | the sign of G
5 | bong_fc | N = inv(inv(Sigma) + 0.5*S@S.T); return N, mu + N@g | G/2 in place of G
5 | bong_fc | N = inv(inv(Sigma) + S@S.T); return N, mu + inv(N)@g | the precision in place of the covariance in the mean
6 | bong_fc_mom | return mu + Sigma @ g, Sigma - S @ S.T | Sigma on both sides of G is left out
6 | bong_fc_mom | N = Sigma - Sigma@S@S.T@Sigma; return mu + N @ g, N | the new covariance in place of the old one in the mean
6 | bong_fc_mom | N = inv(inv(Sigma) + S@S.T); return mu + Sigma @ g, N | the covariance of the natural form, (Sigma^-1 + S S^T)^-1
6 | bong_fc_mom | return mu + g, Sigma - Sigma@S@S.T@Sigma | Sigma^-1 g in place of g (a Sigma left out before g)
6 | bong_fc_mom | return mu + Sigma @ g, Sigma - 0.5*Sigma@S@S.T@Sigma | G/2 in place of G
6 | largest_loss | return np.linalg.norm(S.T@Sigma@S, 'fro') | the Frobenius norm, not an eigenvalue
6 | largest_loss | return np.linalg.eigvalsh(S.T@Sigma@S) | all eigenvalues, not the largest
6 | largest_loss | return np.linalg.eigvalsh(Sigma@S@S.T)[-1] | eigvalsh of Sigma S S^T, which is not symmetric
6 | largest_loss | return 1 - np.linalg.eigvalsh(S.T@Sigma@S)[-1] | one minus the eigenvalue
7 | bong_diag | v = 1/(1/var + d); return v, mu + v*g | the sign of G
7 | bong_diag | v = 1/(1/var - d); return 1/v, mu + v*g | the precision returned in place of the covariance
7 | bong_diag | v = 1/(1/var - d); return v, mu + var*g | the covariance of the prior in place of the new one in the mean
7 | bong_diag | v = var - d; return v, mu + v*g | d is subtracted from the variance, not from the precision
7 | bong_diag | v = 1/(1/var - d); return np.sqrt(v), mu + np.sqrt(v)*g | standard deviations in place of variances
7 | project | U,s,_ = np.linalg.svd(W, full_matrices=False); A=U[:,:2]*s[:2]; B=U[:,2:]*s[2:]; return A@A.T, Ups + B@B.T | the whole matrix of what is discarded is added to Ups, not its diagonal
7 | project | U,s,_ = np.linalg.svd(W, full_matrices=False); A=U[:,2:]*s[2:]; B=U[:,:2]*s[:2]; return A@A.T, Ups + (B**2).sum(1) | the smallest singular directions are kept, not the largest
7 | project | U,s,_ = np.linalg.svd(W, full_matrices=False); A=U[:,:2]*np.sqrt(s[:2]); B=U[:,2:]*s[2:]; return A@A.T, Ups + (B**2).sum(1) | the square roots of the singular values in W_new
8 | blr_fc | A=inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*(A + S@S.T)); return N, mu + alpha*N@(A@(mu-mu_i)+g) | mu of the prior in front, in place of the iterate's mu_i
8 | blr_fc | A=inv(Sigma); N = inv(inv(Sigma_i) + alpha*(A + S@S.T)); return N, mu_i + alpha*N@(A@(mu-mu_i)+g) | 1 - alpha is left out in front of the iterate's precision
8 | blr_fc | A=inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*A + S@S.T); return N, mu_i + alpha*N@(A@(mu-mu_i)+g) | alpha is left out in front of S S^T
8 | blr_fc | A=inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*(A + S@S.T)); return N, mu_i + alpha*Sigma_i@(A@(mu-mu_i)+g) | the covariance of the last iterate in place of the new one in the mean
8 | blr_fc | A=inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*(A + S@S.T)); return N, mu_i + alpha*N@(A@(mu_i-mu)+g) | the sign of mu - mu_i
8 | bog_diag_mom | return mu + alpha*g, var - alpha*d/2 | the sign of G
8 | bog_diag_mom | return mu + alpha*var*g, var + alpha*var**2*d | the update of blr
8 | bog_diag_mom | return mu - alpha*g, var - alpha*d/2 | the signs of g and G (those of the negative log-likelihood)
8 | bog_diag_mom | return mu + g, var + d/2 | alpha left out (alpha = 1)
9 | ou_predict | return gamma*mu, gamma**2*Sigma + (1-gamma**2)*Sigma0 | the mean does not revert to mu0
9 | ou_predict | return gamma*mu + (1-gamma)*mu0, gamma**2*Sigma + (1-gamma)*Sigma0 | gamma is squared in front of Sigma only: Sigma0 has 1 - gamma^2
9 | ou_predict | return gamma**2*mu + (1-gamma**2)*mu0, gamma**2*Sigma + (1-gamma**2)*Sigma0 | gamma is squared in the mean too
9 | ou_predict | return gamma*mu + (1-gamma)*mu0, gamma**2*Sigma | what is drawn anew, (1 - gamma^2) Sigma0, is left out
9 | ou_predict | return gamma*mu + (1-gamma)*mu0, gamma**2*Sigma + Sigma0 | Sigma0 is added whole, without 1 - gamma^2
9 | steady_variance | return q*r/(q+r) | the first update, from a variance q: repeat it until v no longer changes
9 | steady_variance | return (q + np.sqrt(q*q+4*q*r))/2 | the variance before the update, v + q, not after it
9 | steady_variance | return np.sqrt(q*r) | q v is left out of v^2 + q v - q r = 0
9 | steady_variance | return (-q - np.sqrt(q*q+4*q*r))/2 | the negative root of v^2 + q v - q r = 0
9 | steady_variance | return (-q + np.sqrt(q*q+4*q*r)) | the formula of the roots without its 1/2
10 | predictive | return H@mu, H@Sigma@H.T + noise_var | arrays in place of numbers: take the entry of H mu and of H Sigma H^T
10 | predictive | return (H@mu)[0], (H@Sigma@H.T)[0,0] - noise_var | the noise is subtracted: it makes y less certain
10 | predictive | return (H@mu)[0], (H@np.diag(np.diag(Sigma))@H.T)[0,0] + noise_var | only the diagonal of Sigma: the covariances of theta are left out
10 | predictive | return (H@mu)[0], (H@inv(Sigma)@H.T)[0,0] + noise_var | the precision in place of the covariance
10 | nlpd | return 0.5*np.log(2*np.pi*var) + (y-mean)**2/(2*var) | one number for each observation: take their mean
10 | nlpd | return np.mean(0.5*np.log(2*np.pi) + np.log(var) + (y-mean)**2/(2*var)) | log(var) is not halved
10 | nlpd | return np.mean((y-mean)**2) | the mean squared error, which does not see var
10 | nlpd | return np.mean(0.5*np.log(2*np.pi*var) + (y-mean)**2/2) | the squared error is not divided by var
11 | bong_diag | v = 1/(1/var - 0.5*d); return v, mu + v*g | G/2 in place of G
11 | bong_diag | v = 1/(1/var - d); return v, mu - v*g | the sign of g
11 | blr_diag | v = 1/((1-alpha)/var + alpha*(1/var - d)); return v, mu_i + alpha*v*((mu-mu_i)/var + g) | the covariance of the prior in place of the iterate's
11 | blr_diag | v = 1/((1-alpha)/var_i + alpha*(1/var - d)); return v, mu_i + alpha*v*((mu-mu_i)/var_i + g) | the iterate's variance in place of the prior's under mu - mu_i
11 | blr_diag | v = 1/((1-alpha)/var_i + alpha*(1/var + d)); return v, mu_i + alpha*v*((mu-mu_i)/var + g) | the sign of G
11 | blr_diag | v = (1-alpha)*var_i + alpha/(1/var - d); return v, mu_i + alpha*v*((mu-mu_i)/var + g) | variances are averaged, not precisions
11 | bbb_diag_mom | return mu_i + alpha*(g - (mu_i-mu)/var), var_i + alpha*(d/2) | the gradient of the KL term is left out of var
11 | bbb_diag_mom | return mu_i + alpha*(g + (mu_i-mu)/var), var_i + alpha/2*(d + 1/var - 1/var_i) | the signs of the gradient of the KL term: it is subtracted
11 | bbb_diag_mom | return mu + alpha*g, var + alpha/2*d | the prior in place of the iterate
"""


def rows(text):
    """The rows of a table: lesson, exercise, body, words."""
    found = [line.split(" | ") for line in text.strip().splitlines()]
    return [(int(lesson), name, body, words) for lesson, name, body, words in found]


def write(folder, lesson, text):
    file = folder / f"lesson{lesson:02}.py"
    file.write_text(text, encoding="utf-8")
    return file


def mark(grade, name):
    return next(m for m in grade.marks if m.exercise == name)


@pytest.mark.parametrize("lesson", LESSONS)
def test_solutions_are_right(lesson):
    found = teaching.grade(FOLDER / f"solution{lesson:02}.py", lesson)
    assert found.points == found.out_of, str(found)
    assert found.out_of >= 10


@pytest.mark.parametrize("lesson", LESSONS)
def test_templates_are_python_and_not_done(lesson, tmp_path):
    found = teaching.grade(write(tmp_path, lesson, teaching.template(lesson)))
    assert {m.status for m in found.marks} == {"not done"} and found.points == 0


def test_solutions_are_not_in_the_package():
    """What a student gets has no code but stubs, and the package ships no solution files."""
    for lesson in LESSONS:
        text = teaching.template(lesson)
        assert text.count("raise NotImplementedError") == len(teaching.exercises(lesson)) + 1
        assert "return " not in text.replace("Return ", "")
    package = Path(teaching.__file__).parent
    assert not list(package.rglob("*solution*"))


@pytest.mark.parametrize(("lesson", "name", "body", "words"), rows(WRONG))
def test_a_typical_mistake_is_named(lesson, name, body, words, tmp_path):
    (e,) = [e for e in teaching.exercises(lesson) if e.name == name]
    text = f"{INV}def {name}({', '.join(e.arguments)}):\n    {body}\n"
    got = mark(teaching.grade(write(tmp_path, lesson, text)), name)
    assert got.status == "wrong" and got.points == 0
    said = " ".join((got.hints or ("",))[:1]) + " " + got.message
    assert words in said, got


@pytest.mark.parametrize(("lesson", "name", "body", "words"), rows(MORE))
def test_more_mistakes_are_named(lesson, name, body, words):
    (e,) = [e for e in teaching.exercises(lesson) if e.name == name]
    scope = {}
    exec(f"{INV}def {name}({', '.join(e.arguments)}):\n    {body}\n", scope)
    tried = table.trials(e)
    got = [table.arrays(scope[name](*t.arguments)) for t in tried]
    assert words in hints.hints(e, tried, got)[0]


@pytest.mark.parametrize("e", [e for es in templates.LESSONS.values() for e in es if e.wrong],
                         ids=lambda e: e.name)  # fmt: skip
def test_wrong_forms_are_wrong_and_told_apart(e):
    """Each form in the table differs from the right one and gets its own words, and no others."""
    tried = table.trials(e)
    for text, form in e.wrong.items():
        got = [table.arrays(form(*t.arguments)) for t in tried]
        assert hints.hints(e, tried, got) == [text]


def test_errors_of_the_student_have_their_line(tmp_path):
    text = "import numpy as np\n\ndef kalman_gain(Sigma, H, R):\n    x = 1\n    return Sigma @ x_typo\n"
    got = mark(teaching.grade(write(tmp_path, 5, text)), "kalman_gain")
    assert got.status == "error" and "line 5: return Sigma @ x_typo" in got.message
    assert "NameError" in got.message and "worker" not in got.message


def test_a_file_that_is_not_python(tmp_path):
    found = teaching.grade(write(tmp_path, 5, "def kalman_gain(Sigma, H, R)\n    return 1\n"))
    assert {m.status for m in found.marks} == {"error"}
    assert "SyntaxError" in found.marks[0].message and "line 1" in found.marks[0].message


def test_endless_loops_are_stopped(tmp_path):
    text = "def beta_update(a, b, y):\n    return a + y, b + 1 - y\n\ndef normal_update(*a):\n    while True: pass\n"
    found = teaching.grade(write(tmp_path, 1, text), seconds=8)
    assert [m.status for m in found.marks] == ["right", "too slow"]


def test_a_function_that_never_returns_does_not_cost_the_others(tmp_path):
    """A loop, a killed process, a question at the keyboard: only that function loses its points."""
    right = "def normal_update(mu, var, y, noise_var):\n    v = 1/(1/var + 1/noise_var)\n    return v*(mu/var + y/noise_var), v\n"
    for body, status, said in (
        ("while True: print('x' * 1000)", "too slow", "this call takes longer than 4 s"),
        ("import os; os.kill(os.getpid(), 9)", "error", "ended the process"),
        ("return float(input('a? ')), b", "error", "EOFError"),
    ):
        text = f"def beta_update(a, b, y):\n    {body}\n\n{right}"
        first, second = teaching.grade(write(tmp_path, 1, text), seconds=4).marks
        assert (first.status, second.status) == (status, "right"), (body, first, second)
        assert said in first.message and first.points == 0 and second.points == 6


def test_a_file_that_never_loads(tmp_path):
    found = teaching.grade(write(tmp_path, 1, "while True: pass\n"), seconds=3)
    assert {m.status for m in found.marks} == {"too slow"}
    assert "the file itself takes longer than 3 s" in found.marks[0].message
    assert "killed" not in str(teaching.grade(write(tmp_path, 1, "import os\nos._exit(1)\n")))


def test_other_right_forms_are_right(tmp_path):
    """What is right by the text of an exercise: a list, NumPy numbers, rank as a slice's end."""
    for lesson, name, body in (
        (7, "project", "U, s, _ = np.linalg.svd(W, full_matrices=False)\n"
         "    A = U[:, :rank] * s[:rank]\n"
         "    return A @ A.T, Ups + np.diag(W @ W.T - A @ A.T)"),
        (1, "beta_update", "return [a + y, b + 1 - y]"),
        (1, "beta_update", "return (a + 1, b) if y == 1 else (a, b + 1)"),
        (6, "largest_loss", "return max(np.linalg.eigvals(S.T @ Sigma @ S))"),
        (4, "gauss_newton", "p = np.exp(f) / np.exp(f).sum()\n"
         "    return (-F.T @ (np.diag(p) - np.outer(p, p)) @ F).tolist()"),
    ):  # fmt: skip
        (e,) = [e for e in teaching.exercises(lesson) if e.name == name]
        text = f"{INV}def {name}({', '.join(e.arguments)}):\n    {body}\n"
        assert mark(teaching.grade(write(tmp_path, lesson, text)), name).status == "right", text


def test_what_comes_back_is_told(tmp_path):
    for body, said in (
        ("a + y, b + 1 - y", "returned None: is a return statement missing?"),
        ("return 1j, b", "complex numbers, not real numbers"),
        ("return {'a': a, 'b': b}", "dict, not real numbers"),
        ("return a + y", "1 value was returned: return a, b"),
    ):
        text = f"def beta_update(a, b, y):\n    {body}\n"
        got = mark(teaching.grade(write(tmp_path, 1, text)), "beta_update")
        assert got.points == 0 and said in got.message, got


def test_no_hint_is_given_that_holds_in_one_case_only(tmp_path):
    """Sigma^-1 plus g gᵀ is no mistake that is known: silence, not the factor of the first case."""
    text = f"{INV}def bong_fc(mu, Sigma, g, S):\n    N = inv(inv(Sigma) + S@S.T + np.outer(g, g))\n    return N, mu + N@g\n"
    assert mark(teaching.grade(write(tmp_path, 5, text)), "bong_fc").hints == ()


def test_hints_use_the_names_of_the_exercise(tmp_path):
    """Not those of the package's code: prior.mu, current.mu, curv.g."""
    args = "mu, Sigma, mu_i, Sigma_i, g, S, alpha"
    text = f"{INV}def blr_fc({args}):\n    A = inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*(A + S@S.T))\n    return N, mu_i + alpha*N@g\n"
    (hint,) = mark(teaching.grade(write(tmp_path, 8, text)), "blr_fc").hints
    assert "no mu - mu_i" in hint and "prior." not in hint


def test_a_process_that_ends_itself_is_no_pass(tmp_path):
    found = teaching.grade(
        write(tmp_path, 1, "import os\ndef beta_update(a, b, y):\n    os._exit(0)\n")
    )
    assert [m.points for m in found.marks] == [0, 0] and found.marks[0].status == "error"


def test_prints_and_changed_arguments_do_no_harm(tmp_path):
    """Output goes nowhere, and what a function does to its arguments stays in its process."""
    text = (
        INV
        + "print('hello')\ndef natural(mu, Sigma):\n    print('x')\n    P = inv(Sigma); a = P @ mu\n    Sigma[:] = 0; mu[:] = 0\n    return a, -P / 2\n"
    )
    assert mark(teaching.grade(write(tmp_path, 2, text)), "natural").status == "right"


def test_what_is_no_number(tmp_path):
    text = "def beta_update(a, b, y):\n    return 'a', 'b'\n\ndef normal_update(mu, var, y, noise_var):\n    return mu\n"
    first, second = teaching.grade(write(tmp_path, 1, text)).marks
    assert first.status == "error" and "not real numbers" in first.message
    assert "1 value was returned: return mu, var" in second.message


def test_nan_is_wrong(tmp_path):
    text = "def beta_update(a, b, y):\n    return float('nan'), float('nan')\n"
    assert mark(teaching.grade(write(tmp_path, 1, text)), "beta_update").status == "wrong"


def test_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["grade", "--new", "5"]) == 0
    assert cli.main(["grade", "--new", "5"]) == 2  # never overwritten
    assert "already there" in capsys.readouterr().err
    assert cli.main(["grade", "lesson05.py", "--json"]) == 1
    assert [m["status"] for m in json.loads(capsys.readouterr().out)] == ["not done"] * 3
    assert cli.main(["grade", str(FOLDER / "solution05.py"), "--lesson", "5"]) == 0
    assert "total 10 of 10" in capsys.readouterr().out
    for wrong in (
        ["grade"],
        ["grade", "nosuch05.py"],
        ["grade", "--new", "12"],
        ["grade", sys.executable],
    ):
        assert cli.main(wrong) == 2
    with pytest.raises(InvalidValue, match="lesson must be 1 to 11"):
        teaching.exercises(0)


def test_right_forms_agree_with_the_library():
    """The table's right forms where the library computes the same."""
    import bongref as br
    from bongref.teaching import basics, methods

    rng = np.random.default_rng(3)
    mu, Sigma, mu0, Sigma0, gamma = methods._ou(rng)
    want = br.gaussians.kl(br.FC(mu, Sigma), br.FC(mu0, Sigma0))
    assert np.isclose(basics.kl(mu, Sigma, mu0, Sigma0), want, rtol=1e-12)
    ou = br.dynamics.OU(gamma=gamma, mu0=mu0, var0=1.0)
    assert np.allclose(br.predict(br.FC(mu, Sigma), ou).mu,
                       methods.ou_predict(mu, Sigma, mu0, np.eye(3), gamma)[0])  # fmt: skip
