// The explorer: its state is one request for bongref.explore.respond and a few switches of the page; a link holds both.

import { drawData, drawPlane, element } from "./picture.js";
import { code, equations, link, numbers, summary, text as number } from "./panels.js";
import { transport } from "./transport.js";

const $ = (id) => document.getElementById(id);
const RULES = ["bong", "blr", "bog", "bbb"], HESSIANS = ["lin-hess", "lin-ef", "mc-hess", "mc-ef"], FAMILIES = ["fc", "fc_mom", "diag", "diag_mom", "dlr"];
const METHOD = { rule: "bong", hess: "lin-hess", family: "fc", alpha: 0.5, n_iter: 10, n_samples: 10, rank: 1 };
const START = await (await fetch("start.json")).json();

let state = structuredClone(START), answer = null, iteration = Infinity;
let linked = false, notice = ""; // whether the request came from a link that was not answered yet; what to say of one that is refused
const say = (text) => { $("status").textContent = text; };
const bridge = transport(say);

// --- asking: one question at a time, and of those that wait only the last ----------------------------------------------------

let busy = false, again = false;
async function ask() {
  keep();
  if (busy) { again = true; return; }
  busy = true;
  do {
    again = false;
    const began = performance.now();
    let got = null;
    try {
      got = await bridge.ask(question());
    } catch (error) {
      fail(error instanceof TypeError ? "no answer; is `bongref explore` still running?" : error.message);
    }
    if (got && got.error && linked) { // nothing to draw: the defaults, and why
      refuse(got.error.message);
      again = true;
    } else if (got && got.error) fail(got.error.message);
    else if (got) {
      if (notice) fail(notice);
      else $("error").hidden = true;
      [answer, linked, notice] = [got, false, ""];
      draw();
    }
    document.documentElement.dataset.took = (performance.now() - began).toFixed(1);
  } while (again);
  busy = false;
  document.documentElement.dataset.answered = String(Number(document.documentElement.dataset.answered || 0) + 1);
}

function question() {
  const r = { ...state.request, methods: state.request.methods.slice(0, state.compare ? 2 : 1) };
  if (state.predict && state.guess && state.revealed) r.guess = state.guess;
  return r;
}

function fail(message) {
  $("error").textContent = message;
  $("error").hidden = false;
}

// --- the link ----------------------------------------------------------------------------------------------------------------

const encode = (data) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(data)))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const decode = (text) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0))));

let timer = 0;
function keep() {
  clearTimeout(timer);
  timer = setTimeout(() => history.replaceState(null, "", `#${encode(state)}`), 120);
}

function refuse(why) {
  state = structuredClone(START);
  linked = false;
  notice = `this link cannot be restored (${why}); the explorer starts from its defaults`;
  fail(notice);
  keep();
}

// the page's own switches are checked here, the request by the library
function restore() {
  if (location.hash.length < 2) return;
  try {
    const given = decode(location.hash.slice(1)), start = structuredClone(START);
    if (given === null || typeof given !== "object" || given.request === null || typeof given.request !== "object") throw new Error();
    const request = { ...start.request, ...given.request };
    if (!Array.isArray(request.methods) || request.methods.length === 0) throw new Error();
    request.methods = request.methods.concat([METHOD, METHOD]).slice(0, 2).map((m) => ({ ...METHOD, ...m }));
    const flag = (name) => given[name] === true;
    state = {
      ...start, request, compare: flag("compare"), predict: flag("predict"), revealed: flag("revealed"), zoom: flag("zoom"),
      tab: given.tab === 1 ? 1 : 0, drawn: Number.isInteger(given.drawn) ? given.drawn : 0, guess: isGaussian(given.guess) ? given.guess : null,
    };
    linked = true;
  } catch {
    refuse("it is not whole");
  }
}

const isNumbers = (v, n) => Array.isArray(v) && v.length === n && v.every(Number.isFinite);
const isGaussian = (q) => Boolean(q) && isNumbers(q.mean, 2) && Array.isArray(q.cov) && q.cov.length === 2 && q.cov.every((row) => isNumbers(row, 2));

// --- drawing -----------------------------------------------------------------------------------------------------------------

const hidden = () => state.predict && !state.revealed && answer.t > 0;

function draw() {
  const two = answer.methods.length === 2, planes = $("planes");
  planes.classList.toggle("two", two);
  while (planes.children.length > answer.methods.length) planes.lastChild.remove();
  while (planes.children.length < answer.methods.length) {
    planes.append(element("figure", {}, [element("svg", { role: "group" }), element("figcaption")]));
  }
  answer.methods.forEach((m, k) => {
    const figure = planes.children[k], svg = figure.firstChild, ok = m.status === "ok";
    svg.setAttribute("aria-label", `Method ${"AB"[k]}, ${m.name}: prior, likelihood and posterior of θ₁ and θ₂`);
    drawPlane(svg, answer, k, {
      hidden: hidden(), guess: state.predict ? state.guess : null,
      changePrior: (q) => { state.request.prior = rounded(q); reguess(); ask(); },
      changeGuess: (q) => { state.guess = rounded(q); draw(); keep(); },
    });
    const verdict = hidden() ? "" : ok ? [" KL ", element("b", { "data-n": `methods.${k}.kl` }, [number(m.kl)])] : [element("b", { class: "lost" }, [` ${m.status}`])];
    figure.lastChild.replaceChildren(element("b", {}, [`${"AB"[k]}: ${m.name}`]), ...verdict);
  });
  $("data").hidden = !answer.curve;
  if (answer.curve) drawData($("data").querySelector("svg"), answer, { hidden: hidden(), changeObservation });
  numbers($("numbers"), answer, { hidden: hidden(), guess: state.predict && state.revealed });
  read();
  controls();
  $("summary").textContent = summary(answer, hidden());
}

function read() {
  const tab = Math.min(state.tab, answer.methods.length - 1), m = answer.methods[tab];
  const most = Math.max(1, ...(m.equations || []).map((e) => e.values.length)), i = Math.min(iteration, most);
  $("tabs").hidden = answer.methods.length < 2;
  document.querySelectorAll("[data-tab]").forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.tab) === tab)));
  $("iteration-label").hidden = most === 1;
  Object.assign($("iteration"), { max: most, value: i });
  $("iteration-value").textContent = `${i} of ${most}`;
  equations($("equations"), m, tab, i, hidden());
  code($("code"), m);
}

function controls() {
  const { t, stream } = answer, n = stream.y.length, r = state.request;
  $("where").textContent = `observation ${t} of ${n}`;
  $("back").disabled = $("reset").disabled = t === 0;
  $("step").disabled = t === n;
  $("model").value = r.model;
  $("noise").value = r.noise;
  $("noise-label").hidden = r.model !== "linear";
  $("stream-seed").value = "seed" in r.stream ? String(r.stream.seed) : "mine";
  $("compare").checked = state.compare;
  $("predict").checked = state.predict;
  $("zoom").checked = state.zoom;
  $("reveal").hidden = !hidden();
  $("guess-key").hidden = !state.predict;
  document.querySelectorAll(".method").forEach((box) => {
    const k = Number(box.dataset.method), m = r.methods[k];
    box.querySelectorAll("[data-p]").forEach((input) => {
      if (document.activeElement !== input) input.value = m[input.dataset.p];
      const acts = { alpha: m.rule !== "bong", n_iter: ["blr", "bbb"].includes(m.rule), n_samples: m.hess.startsWith("mc"), rank: m.family === "dlr" }[input.dataset.p];
      input.closest("label").hidden = acts === false || (k === 1 && !state.compare);
    });
    const alpha = box.querySelector("output");
    if (alpha) alpha.textContent = m.alpha;
  });
}

const round = (v, d = 4) => Number(v.toFixed(d));
const rounded = (q) => ({ mean: q.mean.map((v) => round(v)), cov: q.cov.map((r) => r.map((v) => round(v, 6))) });

// --- changes -----------------------------------------------------------------------------------------------------------------

function changeObservation(k, u, v) {
  const { x, y } = structuredClone(answer.stream), model = state.request.model;
  const value = model === "logistic" ? (v > 0.5 ? 1 : 0) : model === "poisson" ? Math.max(0, Math.round(v)) : round(v, 2);
  x[k] = [1, round(Math.min(Math.max(u, -4), 4), 2)];
  y[k] = Math.min(value, 500);
  state.request.stream = { x, y };
  answer.stream = { x, y };
  ask();
}

// a new step in "predict first": the guess starts at what is known, the prior of the step
function reguess() {
  state.revealed = false;
  const m = answer && answer.methods[0];
  state.guess = state.predict && m ? rounded(state.request.t <= 1 ? state.request.prior : m.posterior || m.prior) : null;
}

// the part of the plane that is shown: all of it, or what is near the exact posterior
function look() {
  const { mean, cov } = answer.exact, far = 4 * Math.sqrt(Math.max(cov[0][0], cov[1][1]));
  state.request.view = state.zoom ? [mean[0] - far, mean[0] + far, mean[1] - far, mean[1] + far].map((v) => round(v)) : START.request.view;
}

function go(t) {
  state.request.t = Math.min(Math.max(t, 0), answer.stream.y.length);
  iteration = Infinity;
  look();
  reguess();
  ask();
}

function build() {
  $("stream-seed").append(...Array.from({ length: 10 }, (_, k) => element("option", { value: k }, [`drawn, seed ${k}`])), element("option", { value: "mine" }, ["edited"]));
  document.querySelectorAll(".method").forEach((box) => {
    const k = Number(box.dataset.method);
    const pick = (name, label, values) => element("label", {}, [label, element("select", { "data-p": name, "aria-label": `${label} of method ${"AB"[k]}` }, values.map((v) => element("option", {}, [v])))]);
    const count = (name, label, max) => element("label", {}, [label, element("input", { "data-p": name, type: "number", min: 1, max, step: 1, "aria-label": `${label} of method ${"AB"[k]}` })]);
    box.append(
      pick("rule", "rule", RULES), pick("hess", "Hessian", HESSIANS), pick("family", "family", FAMILIES),
      element("label", {}, [element("span", {}, ["α = ", element("output", {})]), element("input", { "data-p": "alpha", type: "range", min: 0.01, max: 1, step: 0.01, "aria-label": `alpha of method ${"AB"[k]}` })]),
      count("n_iter", "iterations I", 50), count("n_samples", "samples M", 200), count("rank", "rank R", 2),
    );
    box.addEventListener("input", ({ target }) => {
      if (!target.dataset.p) return;
      const value = target.tagName === "SELECT" ? target.value : Number(target.value);
      if (target.type === "number" && !(Number.isInteger(value) && value >= 1 && value <= Number(target.max))) return fail(`${target.ariaLabel} must be an integer in 1 … ${target.max}, got ${target.value || "nothing"}`);
      state.request.methods[k] = { ...state.request.methods[k], [target.dataset.p]: value };
      iteration = Infinity;
      ask();
    });
  });
  $("model").addEventListener("input", () => { Object.assign(state.request, { model: $("model").value, stream: { seed: state.drawn, n: 12 } }); reguess(); ask(); });
  $("noise").addEventListener("input", () => { state.request.noise = Number($("noise").value); ask(); });
  $("stream-seed").addEventListener("input", () => {
    if ($("stream-seed").value === "mine") state.request.stream = structuredClone(answer.stream);
    else { state.drawn = Number($("stream-seed").value); state.request.stream = { seed: state.drawn, n: 12 }; }
    reguess();
    ask();
  });
  $("zoom").addEventListener("input", () => { state.zoom = $("zoom").checked; look(); ask(); });
  $("compare").addEventListener("input", () => { state.compare = $("compare").checked; state.tab = 0; ask(); });
  $("predict").addEventListener("input", () => { state.predict = $("predict").checked; reguess(); if (state.predict && answer.methods[0].prior) state.guess = rounded(answer.methods[0].prior); ask(); });
  $("reveal").addEventListener("click", () => { state.revealed = true; ask(); });
  $("step").addEventListener("click", () => go(state.request.t + 1));
  $("back").addEventListener("click", () => go(state.request.t - 1));
  $("reset").addEventListener("click", () => go(0));
  $("iteration").addEventListener("input", () => { iteration = Number($("iteration").value); read(); });
  document.querySelectorAll("[data-tab]").forEach((b) => b.addEventListener("click", () => { state.tab = Number(b.dataset.tab); read(); keep(); }));
  $("link").addEventListener("click", async () => {
    history.replaceState(null, "", `#${encode(state)}`);
    try {
      await navigator.clipboard.writeText(location.href);
      say("the link is in the clipboard");
    } catch {
      say("the address bar has the link");
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, [data-handle]") || event.ctrlKey || event.metaKey || event.altKey || !answer) return;
    if (event.key === "ArrowRight") go(state.request.t + 1);
    else if (event.key === "ArrowLeft") go(state.request.t - 1);
    else if (event.key === "Home") go(0);
    else return;
    event.preventDefault();
  });
  window.addEventListener("hashchange", () => { restore(); if (answer) ask(); });
  link(document);
  $("controls").addEventListener("submit", (event) => event.preventDefault());
}

// --- start -------------------------------------------------------------------------------------------------------------------

build();
restore();
if (location.hash.length < 2) {
  const first = await bridge.first();
  if (first) { answer = first; draw(); }
}
bridge.ready.then(say, (error) => { say("Python is not there"); fail(error.message); });
await ask();
document.documentElement.dataset.ready = "yes";
