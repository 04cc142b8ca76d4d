"""Grading: right solutions get all points, typical mistakes the right words, nothing escapes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bongref import cli, teaching
from bongref.errors import InvalidValue
from bongref.teaching import forms, hints, table, templates

FOLDER = Path(__file__).parent / "lessons"
LESSONS = sorted(templates.LESSONS)

INV = "import numpy as np\ninv = np.linalg.inv\n"
# (lesson, exercise, the function's body, words of the hint)
_WRONG = json.loads((FOLDER / "wrong.json").read_text(encoding="utf-8"))
WRONG = [tuple(row) for row in _WRONG["graded as files"]]
# the same, tested by their numbers alone, without a file and a process
MORE = [tuple(row) for row in _WRONG["tested by their numbers"]]


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


@pytest.mark.parametrize(("lesson", "name", "body", "words"), MORE)
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


ALL = [e for es in templates.LESSONS.values() for e in es]


@pytest.mark.parametrize("e", ALL, ids=lambda e: e.name)
def test_forms_are_right(e):
    """What the single edits are made from agrees with the right form or the kit's exact values."""
    written = forms.FORMS[e.name, e.arguments]
    assert written
    for form in written:
        for t in table.trials(e):
            got = table.arrays(form(*t.arguments))
            assert all(map(hints.agrees, got, t.right, t.scales, t.tolerances))


@pytest.mark.parametrize("e", ALL, ids=lambda e: e.name)
def test_every_edit_of_a_form_that_changes_its_numbers_is_named(e):
    """A tenth of the edits; none of them passes, and each gets words."""
    tried = table.trials(e)
    for text, edited in list(forms.slips(e))[::10]:
        try:
            with np.errstate(all="ignore"):
                got = [table.arrays(edited(*t.arguments)) for t in tried]
        except hints.NO_VALUE:
            continue
        known = [[hints.agrees(*x) for x in zip(v, t.right, t.scales, t.tolerances, strict=True)]
                 for v, t in zip(got, tried, strict=True)]  # fmt: skip
        assert all(map(all, known)) or hints.hints(e, tried, got), text


def test_a_quantity_is_right_only_if_it_is_in_every_case(tmp_path):
    """With y = 0 in the first case `a - y` is right, and b is not; with y = 1 a is wrong too."""
    text = "def beta_update(a, b, y):\n    return a - y, b - 1 + y\n"
    got = mark(teaching.grade(write(tmp_path, 1, text)), "beta_update")
    assert got.message.startswith("a is wrong first, in 2 of 4 cases")


def test_two_slips_in_two_quantities_are_named_each(tmp_path):
    args = "Sigma, H, R, y, yhat"
    text = (
        f"{INV}def kalman_update(mu, {args}):\n"
        "    K = Sigma@H.T@inv(H@Sigma@H.T + R)\n"
        "    return mu + K@(y + yhat), Sigma + K@H@Sigma\n"
    )
    first, second = mark(teaching.grade(write(tmp_path, 5, text)), "kalman_update").hints
    assert "`y + yhat` in place of `y - yhat` in `mu_new`" in first
    assert "in `Sigma_new`" in second


def test_errors_of_the_student_have_their_line(tmp_path):
    text = (
        "import numpy as np\n\ndef kalman_gain(Sigma, H, R):\n    x = 1\n"
        "    return Sigma @ x_typo\n"
    )
    got = mark(teaching.grade(write(tmp_path, 5, text)), "kalman_gain")
    assert got.status == "error" and "line 5: return Sigma @ x_typo" in got.message
    assert "NameError" in got.message and "worker" not in got.message


def test_a_file_that_is_not_python(tmp_path):
    found = teaching.grade(write(tmp_path, 5, "def kalman_gain(Sigma, H, R)\n    return 1\n"))
    assert {m.status for m in found.marks} == {"error"}
    assert "SyntaxError" in found.marks[0].message and "line 1" in found.marks[0].message


def test_endless_loops_are_stopped(tmp_path):
    text = (
        "def beta_update(a, b, y):\n    return a + y, b + 1 - y\n\n"
        "def normal_update(*a):\n    while True: pass\n"
    )
    found = teaching.grade(write(tmp_path, 1, text), seconds=8)
    assert [m.status for m in found.marks] == ["right", "too slow"]


def test_a_function_that_never_returns_does_not_cost_the_others(tmp_path):
    """A loop, a killed process, a question at the keyboard: only that function loses its points."""
    right = (
        "def normal_update(mu, var, y, noise_var):\n"
        "    v = 1/(1/var + 1/noise_var)\n"
        "    return v*(mu/var + y/noise_var), v\n"
    )
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
    project = """
def project(Ups, W, rank):
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    kept = U[:, :rank] * s[:rank]
    return kept @ kept.T, Ups + np.diag(W @ W.T - kept @ kept.T)
"""
    for lesson, name, text in (
        (7, "project", INV + project),
        (1, "beta_update", "def beta_update(a, b, y):\n    return [a + y, b + 1 - y]\n"),
        (
            1,
            "beta_update",
            "def beta_update(a, b, y):\n    return (a + 1, b) if y == 1 else (a, b + 1)\n",
        ),
        (
            6,
            "largest_loss",
            f"{INV}def largest_loss(Sigma, S):\n"
            "    return max(np.linalg.eigvals(S.T @ Sigma @ S))\n",
        ),
        (
            4,
            "gauss_newton",
            f"{INV}def gauss_newton(F, f):\n    p = np.exp(f) / np.exp(f).sum()\n"
            "    return (-F.T @ (np.diag(p) - np.outer(p, p)) @ F).tolist()\n",
        ),
    ):
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
    text = (
        f"{INV}def bong_fc(mu, Sigma, g, S):\n"
        "    N = inv(inv(Sigma) + S@S.T + np.outer(g, g))\n"
        "    return N, mu + N@g\n"
    )
    assert mark(teaching.grade(write(tmp_path, 5, text)), "bong_fc").hints == ()


def test_hints_use_the_names_of_the_exercise(tmp_path):
    """Not those of the package's code: prior.mu, current.mu, curv.g."""
    args = "mu, Sigma, mu_i, Sigma_i, g, S, alpha"
    text = (
        f"{INV}def blr_fc({args}):\n"
        "    A = inv(Sigma); N = inv((1-alpha)*inv(Sigma_i) + alpha*(A + S@S.T))\n"
        "    return N, mu_i + alpha*N@g\n"
    )
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
        INV + "print('hello')\ndef natural(mu, Sigma):\n    print('x')\n"
        "    P = inv(Sigma); a = P @ mu\n    Sigma[:] = 0; mu[:] = 0\n"
        "    return a, -P / 2\n"
    )
    assert mark(teaching.grade(write(tmp_path, 2, text)), "natural").status == "right"


def test_what_is_no_number(tmp_path):
    text = (
        "def beta_update(a, b, y):\n    return 'a', 'b'\n\n"
        "def normal_update(mu, var, y, noise_var):\n    return mu\n"
    )
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
    with pytest.raises(InvalidValue, match=r"lesson must be an integer in 1\.\.\.11, got"):
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


@pytest.mark.parametrize("seconds", [-1.0, 0.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(tmp_path, seconds):
    file = tmp_path / "lesson01.py"
    file.write_text("", encoding="utf-8")
    with pytest.raises(InvalidValue, match="seconds must be"):
        teaching.grade(file, seconds=seconds)


def test_an_array_of_quantities_is_right_and_a_mean_without_its_variance_is_named(tmp_path):
    file = tmp_path / "lesson01.py"
    file.write_text(
        "import numpy as np\n"
        "def beta_update(a, b, y):\n    return np.array([a + y, b + 1 - y])\n"
        "def normal_update(mu, var, y, noise_var):\n"
        "    return mu / var + y / noise_var, 1 / (1 / var + 1 / noise_var)\n",
        encoding="utf-8",
    )
    first, second = teaching.grade(file).marks
    assert first.status == "right"
    assert "left out of the mean" in second.hints[0]
