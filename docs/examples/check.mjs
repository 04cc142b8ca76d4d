// The vectors without Python: an implementation of the diagonal families in JavaScript, and the kit that holds it against the vectors.
//
//     node docs/examples/check.mjs [folder of the vectors]
//
// It prints one line a level and every failure, and exits with status 1 if anything offered fails. Plain Node.js, no packages.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const shipped = fileURLToPath(new URL("../../bongref/conformance/vectors", import.meta.url));
const folder = process.argv[2] ?? shipped;

// --- the implementation under test: every rule in diag and diag_mom, linear models, all likelihoods -------------------------------

const zip = (f, ...a) => a[0].map((_, i) => f(...a.map((v) => v[i])));
const sum = (a) => a.reduce((s, v) => s + v, 0);
const dot = (a, b) => sum(zip((x, y) => x * y, a, b));

// a step: prior, current {mu, var}; curv {g, d = diag G}; one entry of theta at a time
const STEPS = {
  bong: {
    diag: (m0, v0, m, v, g, d) => {
      const post = 1 / (1 / v0 - d);
      return [m0 + post * g, post];
    },
    diag_mom: (m0, v0, m, v, g, d) => [m0 + v0 * g, v0 + v0 * v0 * d],
  },
  blr: {
    diag: (m0, v0, m, v, g, d, a) => {
      const post = 1 / ((1 - a) / v + a / v0 - a * d);
      return [m + a * post * ((m0 - m) / v0 + g), post];
    },
    diag_mom: (m0, v0, m, v, g, d, a) => [m + a * v * ((m0 - m) / v0 + g), v + a * v * v * (1 / v - 1 / v0 + d)],
  },
  bog: {
    diag: (m0, v0, m, v, g, d, a) => {
      const post = 1 / (1 / v0 - 4 * a * v0 * m0 * g - 2 * a * v0 * v0 * d);
      return [post * (m0 / v0 + a * v0 * g), post];
    },
    diag_mom: (m0, v0, m, v, g, d, a) => [m0 + a * g, v0 + (a / 2) * d],
  },
  bbb: {
    diag: (m0, v0, m, v, g, d, a) => {
      const pull = g + (m0 - m) / v0; // the gradient of E[log p] - KL in the mean
      const post = 1 / (1 / v - 4 * a * v * m * pull - 2 * a * v * v * (d + 1 / v - 1 / v0));
      return [post * (m / v + a * v * pull), post];
    },
    diag_mom: (m0, v0, m, v, g, d, a) => [m + a * (g + (m0 - m) / v0), v + (a / 2) * (d + 1 / v - 1 / v0)],
  },
};

function step({ method, prior, current, curv, params }) {
  const [rule, , , family] = method.split("-");
  const rows = STEPS[rule][family];
  if (rows === undefined) return NOT_OFFERED;
  if (!prior.var.every((v) => v > 0)) throw new Error("the variances of the prior must be positive");
  const alpha = params.alpha ?? 1;
  const out = zip((...row) => rows(...row, alpha), prior.mu, prior.var, current.mu, current.var, curv.g, curv.d);
  return { mu: out.map((r) => r[0]), var: out.map((r) => r[1]) };
}

// o = W x + b, theta = (W row by row, b)
function outputs({ sizes: [n, C], bias }, theta, x) {
  return Array.from({ length: C }, (_, c) => dot(theta.slice(c * n, (c + 1) * n), x) + (bias ? theta[C * n + c] : 0));
}

// J^T s: the gradient in theta of s . o
function pullback({ sizes: [n, C], bias }, x, s) {
  return [...s.flatMap((sc) => x.map((xi) => sc * xi)), ...(bias ? s : [])];
}

function mean(kind, o) {
  if (kind === "gaussian") return o;
  if (kind === "poisson") return o.map(Math.exp);
  if (kind === "bernoulli") return o.map((v) => 1 / (1 + Math.exp(-v)));
  const top = Math.max(...o);
  const e = o.map((v) => Math.exp(v - top));
  return e.map((v) => v / sum(e));
}

// the score d log p / d o and the information matrix -E d^2 log p / d o^2
function local(likelihood, o, y) {
  const h = mean(likelihood.kind, o);
  const e = zip((a, b) => a - b, y, h);
  if (likelihood.kind === "gaussian") {
    const inverse = invert(likelihood.R);
    return { score: inverse.map((row) => dot(row, e)), info: inverse };
  }
  const own = { categorical: (p) => p, bernoulli: (p) => p * (1 - p), poisson: (p) => p }[likelihood.kind];
  const cross = likelihood.kind === "categorical" ? 1 : 0;
  return { score: e, info: h.map((a, i) => h.map((b, j) => (i === j ? own(a) : 0) - cross * a * b)) };
}

function invert(R) {
  // Gauss-Jordan, for the small matrices of a likelihood
  const n = R.length;
  const A = R.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))]);
  for (let k = 0; k < n; k++) {
    const pivot = A[k][k];
    A[k] = A[k].map((v) => v / pivot);
    for (let i = 0; i < n; i++) if (i !== k) A[i] = zip((a, b, f = A[i][k]) => a - f * b, A[i], A[k]);
  }
  return A.map((row) => row.slice(n));
}

function estimate({ hess, model, likelihood, theta, x, y, samples }) {
  if (model.kind !== "linear") return NOT_OFFERED;
  const batch = Array.isArray(x[0]) ? zip((a, b) => [a, b], x, y) : [[x, y]];
  const points = hess.startsWith("lin") ? [theta] : samples;
  const P = theta.length;
  const total = points.map((point) => {
    const g = new Array(P).fill(0);
    const d = new Array(P).fill(0); // diag of -J^T info J, which is the whole Hessian of a linear model
    for (const [xi, yi] of batch) {
      const { score, info } = local(likelihood, outputs(model, point, xi), yi);
      pullback(model, xi, score).forEach((v, p) => (g[p] += v));
      const squares = pullback(model, xi.map((v) => v * v), info.map((row, c) => row[c]));
      squares.forEach((v, p) => (d[p] -= v));
    }
    return { g, d };
  });
  const average = (rows) => rows[0].map((_, p) => sum(rows.map((row) => row[p])) / rows.length);
  const g = average(total.map((t) => t.g));
  if (hess.endsWith("hess")) return { g, d: average(total.map((t) => t.d)) };
  return { g, d: average(total.map((t) => t.g.map((v) => -v * v))) };
}

function update({ method, model, likelihood, prior, x, y, samples, params }) {
  const [, h1, h2, family] = method.split("-");
  if (!family.startsWith("diag")) return NOT_OFFERED;
  let current = prior;
  for (let i = 0; i < (params.n_iter ?? 1); i++) {
    const curv = estimate({ hess: `${h1}-${h2}`, model, likelihood, theta: current.mu, x, y, samples: samples?.[i] });
    if (curv === NOT_OFFERED) return NOT_OFFERED;
    current = step({ method, prior, current, curv, params });
  }
  return current;
}

// --- the kit: reads the vectors, calls, compares --------------------------------------------------------------------------------------

const NOT_OFFERED = Symbol("not offered");
const CALLS = { step, estimate, update };
const NAMES = { "diag G": "d" }; // a quantity is called by the key that is returned, except for this one
const flat = (v) => (Array.isArray(v) ? v.flatMap(flat) : [v]);

function judge(spec, got) {
  for (const { quantity, equation, value, scale, tolerance } of spec.expected) {
    const answer = got[NAMES[quantity] ?? quantity];
    if (answer === undefined) continue; // G of an implementation that has only its diagonal
    const [a, b] = [flat(answer), flat(value)];
    if (a.length !== b.length) return `${quantity} has ${a.length} numbers, wanted ${b.length}`;
    const relative = Math.max(...zip((u, v) => Math.abs(u - v), a, b)) / scale;
    if (!(relative <= tolerance.float64)) return `${quantity} (${equation}): relative difference ${relative}, tolerance ${tolerance.float64}`;
  }
  return "";
}

let failures = 0;
const counts = {};
for (const file of readdirSync(folder).filter((f) => f.endsWith(".json")).sort()) {
  const { schema, level, cases } = JSON.parse(readFileSync(join(folder, file), "utf8"));
  if (!["bongref-vectors-1", "bongref-vectors-2"].includes(schema)) throw new Error(`${file}: unknown schema ${schema}`);
  const count = (counts[level] ??= { pass: 0, fail: 0, "not offered": 0 });
  for (const spec of cases) {
    const { id, input, result } = spec;
    let got = NOT_OFFERED;
    let refused = "";
    try {
      if (CALLS[level] !== undefined) got = CALLS[level]({ ...spec, ...input });
    } catch (error) {
      refused = `raised ${error.message}`;
    }
    if (got === NOT_OFFERED && !refused) {
      count["not offered"] += 1;
      continue;
    }
    let wrong;
    if (result === "refuse") wrong = refused ? "" : "returned a result for an input that must be refused";
    else wrong = refused || judge(spec, got); // the values of a lost positive definiteness are compared like any others
    count[wrong ? "fail" : "pass"] += 1;
    if (wrong) {
      failures += 1;
      console.log(`FAIL ${id} [${spec.flags.join(", ")}]: ${wrong}`);
    }
  }
}
for (const [level, count] of Object.entries(counts)) {
  console.log(`${level.padEnd(11)} ${Object.entries(count).map(([k, n]) => `${n} ${k}`).join(", ")}`);
}
process.exitCode = failures > 0 || !Object.values(counts).some((c) => c.pass > 0) ? 1 : 0;
