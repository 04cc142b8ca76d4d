"""The explorer in a browser, by both transports: load, step, drag, change the method, every shown
number, a link.
"""

import base64
import importlib.util
import json
import re
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from static import folder, running

from bongref.explore import respond
from bongref.explore.server import server

ROOT = Path(__file__).parent.parent
READY = "document.documentElement?.dataset.ready === 'yes'"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on this machine")


def builder():
    spec = importlib.util.spec_from_file_location(
        "explorer_build", ROOT / "docs" / "explorer_build.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The static folder with the library in WebAssembly."""
    module, out = builder(), tmp_path_factory.mktemp("explorer") / "site"
    said = module.build(out, download=False)
    if "without WebAssembly" in said:
        pytest.skip(said)
    return out


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture(params=["loopback", "wasm"])
def page(request, browser):
    """The explorer, loaded, and its address."""
    own = server(0) if request.param == "loopback" else folder(request.getfixturevalue("site"))
    with running(own) as address:
        browser.errors.clear()
        browser.size(1280, 900)
        browser.go(address)
        browser.wait(READY, 120)
        browser.address = address
        yield browser
        assert browser.errors == []


# what the page does by itself; loading Python in WebAssembly takes ten seconds
loopback = pytest.mark.parametrize("page", ["loopback"], indirect=True)


# --- what the page shows --------------------------------------------------------------------------


def settle(page, act):
    """Do something, and wait until the page has its answer and the link."""
    before = int(page.js("document.documentElement.dataset.answered || 0"))
    act()
    page.wait(f"Number(document.documentElement.dataset.answered || 0) > {before}", 60)
    page.wait(f"JSON.stringify(location.hash) !== {json.dumps(json.dumps(''))}")
    page.js("new Promise((done) => setTimeout(done, 150))")  # the link is written after a pause


def view(page):
    """The state that the link holds, and the request that it stands for."""
    text = page.js("location.hash")[1:]
    state = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    r = dict(state["request"])
    r["methods"] = r["methods"][: 2 if state["compare"] else 1]
    if state["predict"] and state["revealed"] and state["guess"]:
        r["guess"] = state["guess"]
    return state, r


def at(data, path):
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def parse(text):
    """A number or nested list as the page writes it."""
    return json.loads(text.replace("−", "-"))


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def symbol(answer, path):
    """The name of a value of an equation or of an operand; empty for other numbers."""
    parts = path.split(".")
    if "operands" in parts:
        return at(answer, path.rpartition(".")[0])["name"]
    return at(answer, ".".join(parts[:4]))["symbol"] if "equations" in parts else ""


def check_numbers(page):
    """Every number that the page shows is the library's, to the four digits that it shows."""
    _, request = view(page)
    answer = respond(request)
    assert "error" not in answer, answer
    shown = page.js(
        "[...document.querySelectorAll('[data-n]')].map((n) => [n.dataset.n, n.textContent])"
    )
    for path, text in shown:
        want = at(answer, path)
        if isinstance(want, dict):  # a large array: its shape and first entries
            shape, first = text.split(" numbers, ")
            assert shape == "×".join(map(str, want["shape"])), path
            got, want = parse(f"[{first.removesuffix(' …')}]"), want["first"]
        else:
            got = parse(text)
        name = symbol(answer, path)
        if name == "V":  # singular vectors are free to rotate where singular values are equal
            continue
        for a, b in zip(flat(got), flat(want), strict=True):
            if name in ("W", "W_tilde", "prior.W", "current.W"):  # and their signs are free
                a, b = abs(a), abs(b)
            # four digits; exact.error is of rounding and may differ between platforms
            assert abs(a - b) <= 6e-4 * abs(b) + 1e-13 or path == "exact.error", (path, text, want)
    return answer, len(shown)


# --- end to end -----------------------------------------------------------------------------------


def test_load_step_and_every_number(page):
    settle(page, lambda: page.js("document.getElementById('step').click()"))
    answer, n = check_numbers(page)
    assert answer["t"] == 2 and n > 20
    assert "observation 2 of 12" in page.js("document.getElementById('where').textContent")
    assert answer["methods"][0]["name"] in page.js("document.getElementById('summary').textContent")
    settle(page, lambda: page.key("ArrowRight"))
    assert check_numbers(page)[0]["t"] == 3
    settle(page, lambda: page.key("ArrowLeft"))
    settle(page, lambda: page.key("Home"))
    assert check_numbers(page)[0]["t"] == 0


@pytest.mark.parametrize("model", ["logistic", "linear", "poisson"])
def test_a_whole_stream(page, model):
    if model != "logistic":
        settle(page, lambda: choose(page, "#model", model))
    for t in range(2, 13):
        settle(page, lambda: page.key("ArrowRight"))
        assert check_numbers(page)[0]["t"] == t
    assert page.js("document.getElementById('step').disabled")


def test_drag_the_observation_and_the_prior(page):
    before = view_after(page, lambda: page.drag('[data-handle="observation 1"]', 60, 120))
    assert before["stream"]["x"][0][0] == 1 and "seed" not in before["stream"]
    drawn = respond({"stream": {"seed": 0, "n": 12}})["stream"]
    assert before["stream"]["x"][0][1] - drawn["x"][0][1] == pytest.approx(
        60 * 8 / plane_width(page), rel=0.1
    )
    check_numbers(page)
    moved = view_after(page, lambda: page.drag('[data-handle="prior: mean"]', 50, -30))
    assert moved["prior"]["mean"][0] > 0.3 and moved["prior"]["mean"][1] > 0.15
    check_numbers(page)
    tilted = view_after(page, lambda: page.drag('[data-handle="prior: axis 1"]', 10, -60))
    (a, b), (b2, c) = tilted["prior"]["cov"]
    assert b == b2 and b > 0.05 and a * c > b * b
    answer, _ = check_numbers(page)
    assert answer["methods"][0]["prior"]["cov"][0][1] == pytest.approx(b)


def view_after(page, act):
    settle(page, act)
    return view(page)[1]


def plane_width(page):
    """The width of the data's axis from −4 to 4, in pixels of the screen."""
    return page.js("document.querySelector('#data .frame').getBoundingClientRect().width")


def choose(page, selector, value):
    page.js(
        f"(() => {{ const n = document.querySelector({json.dumps(selector)});"
        f"n.value = {json.dumps(value)};"
        "n.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_change_the_method_and_compare(page):
    method_a = ".method[data-method='0'] [data-p={}]"
    settle(page, lambda: choose(page, method_a.format("rule"), "blr"))
    settle(page, lambda: choose(page, method_a.format("alpha"), "0.25"))
    answer, _ = check_numbers(page)
    assert answer["methods"][0]["params"]["alpha"] == 0.25
    settle(page, lambda: page.js("document.getElementById('compare').click()"))
    method_b = ".method[data-method='1'] [data-p={}]"
    for name, value in (("rule", "bong"), ("hess", "mc-hess"), ("family", "dlr")):
        settle(page, lambda name=name, value=value: choose(page, method_b.format(name), value))
    answer, _ = check_numbers(page)
    assert answer["methods"][1]["status"] == "not derived"
    assert "not derived" in page.js("document.getElementById('numbers').textContent")
    settle(page, lambda: choose(page, method_b.format("hess"), "mc-ef"))
    page.js("document.querySelector('[data-tab=\"1\"]').click()")
    answer, n = check_numbers(page)
    assert answer["methods"][1]["status"] == "ok" and n > 25
    for model in ("poisson", "linear"):
        settle(page, lambda model=model: choose(page, "#model", model))
        assert check_numbers(page)[0]["model"] == model


def test_a_link_restores_the_view(page):
    settle(page, lambda: page.js("document.getElementById('compare').click()"))
    settle(page, lambda: page.drag('[data-handle="prior: mean"]', 40, 20))
    settle(page, lambda: page.js("document.getElementById('step').click()"))
    link, numbers = (
        page.js("location.href"),
        page.js("document.getElementById('numbers').innerText"),
    )
    page.go(link)
    page.wait(READY, 120)
    assert page.js("document.getElementById('numbers').innerText") == numbers
    check_numbers(page)


BROKEN = (
    "not-a-link",
    "null",
    {"request": {"t": -5}},  # refused by the library
    {"request": {"methods": "x"}},
    {"request": {"methods": []}, "tab": -1, "drawn": "q"},
    {"request": {"methods": [{"rule": "<img src=x>"}]}, "compare": 7},
    {"request": None},
)


@pytest.mark.parametrize(
    ("page", "given"),
    [("wasm", BROKEN[2]), *(("loopback", given) for given in BROKEN)],
    indirect=["page"],
)
def test_a_link_that_cannot_be_restored_says_so_and_starts_from_the_defaults(page, given):
    """The page is never left empty, and the message stays beside the defaults."""
    text = given if isinstance(given, str) and given != "null" else json.dumps(given)
    raw = text if text == "not-a-link" else base64.urlsafe_b64encode(text.encode()).decode()
    page.go(page.address + "#" + raw)
    page.wait(READY, 120)
    assert "cannot be restored" in page.js("document.getElementById('error').textContent")
    assert not page.js("document.getElementById('error').hidden")
    assert page.js("document.querySelector('[data-p=rule]').value") == "bong"
    settle(page, lambda: page.js("document.getElementById('step').click()"))
    check_numbers(page)
    assert page.js("document.getElementById('error').hidden")


@loopback
def test_a_guess_in_a_link_that_is_no_gaussian_is_left_out(page):
    text = json.dumps({"request": {"t": 1}, "predict": True, "revealed": True, "guess": "x"})
    page.go(page.address + "#" + base64.urlsafe_b64encode(text.encode()).decode())
    page.wait(READY, 120)
    assert page.js("document.getElementById('error').hidden")
    settle(page, lambda: page.js("document.getElementById('step').click()"))
    check_numbers(page)


@loopback
def test_zoom_shows_what_is_near_the_exact_posterior(page):
    for _ in range(11):
        settle(page, lambda: page.js("document.getElementById('step').click()"))
    settle(page, lambda: page.js("document.getElementById('zoom').click()"))
    check_numbers(page)
    wide = "document.querySelector('#planes path.posterior').getBBox().width"
    near = page.js(wide)
    settle(page, lambda: page.js("document.getElementById('zoom').click()"))
    assert near > 1.2 * page.js(wide)


def test_predict_first(page):
    settle(page, lambda: page.js("document.getElementById('predict').click()"))
    assert (
        page.js("document.querySelectorAll('path.posterior, path.exact', '#planes').length") <= 2
    )  # the legend's
    assert "hidden" in page.js("document.getElementById('numbers').textContent")
    assert "kl" not in " ".join(
        page.js("[...document.querySelectorAll('[data-n]')].map((n) => n.dataset.n)")
    )
    page.drag('[data-handle="guess: mean"]', 30, -30)
    settle(page, lambda: page.js("document.getElementById('reveal').click()"))
    answer, _ = check_numbers(page)
    assert answer["guess"]["kl"] > 0
    shown = page.js("document.querySelector('[data-n=\"guess.kl\"]').textContent")
    # four digits are shown: half a unit of the last one is at most 5e-4
    assert parse(shown) == pytest.approx(answer["guess"]["kl"], rel=1e-3)


@loopback
def test_equations_picture_and_code_light_up_each_other(page):
    hot = "[...document.querySelectorAll('.hot')].map((n) => n.getAttribute('class'))"
    page.js("document.querySelector('.card[data-role=posterior]').focus()")
    lit = " | ".join(page.js(hot))
    assert "posterior" in lit and "code-line" in lit and lit.count("card") == 1
    page.js("document.querySelector('.code-line[data-role=likelihood]').focus()")
    lit = " | ".join(page.js(hot))
    assert "card" in lit and "likelihood" in lit and "posterior hot" not in lit
    x, y = page.middle("#planes path.posterior")
    box = page.js(
        "(() => { const b = document.querySelector('#planes path.posterior')"
        ".getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
    )
    del x, y
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] / 2, y=box[1] + 1)
    assert "card" in " | ".join(page.js(hot))


@loopback
def test_the_keyboard_moves_handles(page):
    page.js("document.querySelector('[data-handle=\"prior: mean\"]').focus()")
    settle(page, lambda: page.key("ArrowRight"))
    _, first = view(page)
    assert first["prior"]["mean"][0] > 0 and first["t"] == 1  # the handle moves, not the stream
    settle(page, lambda: page.key("ArrowRight"))  # it kept the focus
    assert view(page)[1]["prior"]["mean"][0] > first["prior"]["mean"][0]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(browser, width):
    with running(server(0)) as address:
        browser.size(width, 844)
        browser.go(address)
        browser.wait(READY)
        assert browser.js("document.documentElement.scrollWidth") <= width
        unnamed = browser.js(
            "[...document.querySelectorAll('button, select, input, [tabindex]')]"
            ".filter((n) => !(n.ariaLabel || n.textContent.trim() || n.closest('label')))"
            ".map((n) => n.outerHTML)"
        )
        assert unnamed == []


def test_loads_nothing_from_elsewhere():
    for file in (ROOT / "bongref" / "explore" / "page").iterdir():
        for found in re.findall(r"https?://[^\s\"')]+", file.read_text(encoding="utf-8")):
            assert found == "http://www.w3.org/2000/svg", (file.name, found)
