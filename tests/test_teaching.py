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
# (lesson, exercise, the function's body, words of the hint)
WRONG = [
    (
        1,
        "normal_update",
        "v = 1/(1/var + 1/noise_var); return mu - v*(y - mu)/noise_var, v",
        "sign of y - mu",
    ),
    (
        1,
        "normal_update",
        "v = 1/(1/var + 1/noise_var**2); return mu + v*(y - mu)/noise_var**2, v",
        "noise_var taken for a standard deviation",
    ),
    (
        1,
        "normal_update",
        "v = 1/(1/var + 1/noise_var); return mu + var*(y - mu)/noise_var, v",
        "prior's variance in place of the new",
    ),
    (
        1,
        "normal_update",
        "p = 1/var + 1/noise_var; return mu + (y - mu)/noise_var/p, p",
        "precision is returned",
    ),
    (2, "natural", "return inv(Sigma) @ mu, -inv(Sigma)", "without the factor 1/2"),
    (2, "natural", "return Sigma @ mu, -Sigma/2", "covariance in place of the precision"),
    (2, "moments", "S = inv(-2*psi2); return S @ psi1, 2*S", "Sigma is 2 times"),
    (
        2,
        "kl",
        "P = len(mu); d = mu - mu0; A = inv(Sigma0); return np.trace(A@Sigma) + d@A@d - P + np.log(np.linalg.det(Sigma0)/np.linalg.det(Sigma))",
        "factor 1/2",
    ),
    (3, "gradients", "return 3*a*(mu**2 + var) + 2*b*mu + c, 6*a*mu + 2*b", "factor 1/2 of Price"),
    (3, "gradients", "return 3*a*mu**2 + 2*b*mu + c, 3*a*mu + b", "at the mean"),
    (3, "bong_fc", "S = inv(inv(Sigma) + G); return S, mu + S@g", "sign of G"),
    (3, "bong_fc", "S = inv(inv(Sigma) - G/2); return S, mu + S@g", "G/2 in place of G"),
    (4, "empirical_fisher", "return -Ghat.T @ Ghat", "divided by M"),
    (
        4,
        "gauss_newton",
        "p = np.exp(f)/np.exp(f).sum(); return -F.T @ np.diag(p) @ F",
        "without - p p^T",
    ),
    (5, "kalman_gain", "return (Sigma @ H.T @ inv(H@Sigma@H.T + R)).T", "shape (2, 3)"),
    (
        5,
        "kalman_gain",
        "return Sigma @ H.T @ inv(H@Sigma@H.T + R@R)",
        "R taken for a standard deviation",
    ),
    (
        5,
        "bong_fc",
        "N = inv(inv(Sigma) + S@S.T); return N, mu + Sigma@g",
        "covariance of the prior in place of the new one",
    ),
    (5, "bong_fc", "N = inv(inv(Sigma) + S@S.T); return inv(N), mu + N@g", "precision"),
    (5, "bong_fc", "N = inv(inv(Sigma) + S@S.T); return N, mu - N@g", "the sign of g"),
    (6, "bong_fc_mom", "A = Sigma@S; return mu + Sigma@g, Sigma + A@A.T", "sign of G"),
    (6, "largest_loss", "return np.linalg.eigvalsh(S.T@S)[-1]", "Sigma is left out"),
    (7, "bong_diag", "v = 1/(1/var - d); return np.sqrt(v), mu + v*g", "standard deviation"),
    (7, "bong_diag", "v = 1/(1/var - 2*d); return v, mu + v*g", "2"),
    (
        8,
        "blr_fc",
        "A, N = inv(Sigma), inv((1-alpha)*inv(Sigma_i) + alpha*(inv(Sigma) + S@S.T)); return N, mu_i + N@(A@(mu - mu_i) + g)",
        "alpha",
    ),
    (
        8,
        "blr_fc",
        "A = inv(Sigma); N = inv((1-alpha)*A + alpha*(A + S@S.T)); return N, mu + alpha*N@g",
        "the prior in place of the iterate",
    ),
    (8, "bog_diag_mom", "return mu + alpha*g, var + alpha*d", "2"),
    (
        9,
        "ou_predict",
        "return gamma*mu + (1-gamma)*mu0, gamma*Sigma + (1-gamma)*Sigma0",
        "not squared",
    ),
    (9, "steady_variance", "v = (-q + np.sqrt(q*q + 4*q*r))/2; return v + q", "before the update"),
    (
        10,
        "predictive",
        "return (H@mu)[0], (H@Sigma@H.T)[0, 0]",
        "noise of the observation is left out",
    ),
    (
        10,
        "nlpd",
        "return np.mean(np.log(2*np.pi*var**2)/2 + (y - mean)**2/(2*var**2))",
        "standard deviation",
    ),
    (
        11,
        "blr_diag",
        "v = 1/((1-alpha)/var_i + alpha*(1/var - d)); return v, mu_i + v*((mu - mu_i)/var + g)",
        "alpha",
    ),
    (
        11,
        "bbb_diag_mom",
        "return mu_i + alpha*(g - (mu_i - mu)/var), var_i + alpha*(d - 1/var + 1/var_i)",
        "2",
    ),
]


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


@pytest.mark.parametrize(("lesson", "name", "body", "words"), WRONG)
def test_a_typical_mistake_is_named(lesson, name, body, words, tmp_path):
    (e,) = [e for e in teaching.exercises(lesson) if e.name == name]
    text = f"{INV}def {name}({', '.join(e.arguments)}):\n    {body}\n"
    got = mark(teaching.grade(write(tmp_path, lesson, text)), name)
    assert got.status == "wrong" and got.points == 0
    said = " ".join((got.hints or ("",))[:1]) + " " + got.message
    assert words in said, got


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
    assert first.status == "error" and "not numbers" in first.message
    assert "1 values were returned: return mu, var" in second.message


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
