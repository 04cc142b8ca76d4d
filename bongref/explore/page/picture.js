// Pictures in SVG: the plane of the two parameters, and the data. Nothing here computes a result of the library.

const NS = "http://www.w3.org/2000/svg";
export const SIZE = 520;
const PAD = 34;

export function element(name, attributes = {}, children = []) {
  const svg = ["svg", "g", "path", "circle", "rect", "line", "text", "title", "defs", "linearGradient", "stop", "clipPath"].includes(name);
  const node = svg ? document.createElementNS(NS, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...[children].flat().filter((c) => c !== null && c !== undefined));
  return node;
}

// --- scales ------------------------------------------------------------------------------------------------------------------

export function plane(view) {
  const [x0, x1, y0, y1] = view;
  const span = SIZE - 2 * PAD;
  return {
    to: ([a, b]) => [PAD + ((a - x0) / (x1 - x0)) * span, SIZE - PAD - ((b - y0) / (y1 - y0)) * span],
    from: ([u, v]) => [x0 + ((u - PAD) / span) * (x1 - x0), y0 + ((SIZE - PAD - v) / span) * (y1 - y0)],
  };
}

const line = (points) => "M" + points.map((p) => p.map((v) => v.toFixed(2)).join(" ")).join("L");

// axes of an ellipse: lengths (standard deviations) and angle of the first
export function axes([[a, b], [, c]]) {
  const mid = (a + c) / 2, half = Math.hypot((a - c) / 2, b);
  return { s: [Math.sqrt(mid + half), Math.sqrt(Math.max(mid - half, 0))], angle: Math.atan2(2 * b, a - c) / 2 };
}

export function covariance({ s, angle }) {
  const [p, q] = [s[0] ** 2, s[1] ** 2], c = Math.cos(angle), n = Math.sin(angle);
  return [[p * c * c + q * n * n, (p - q) * c * n], [(p - q) * c * n, p * n * n + q * c * c]];
}

function ellipse(scale, { mean, cov }, r) {
  const { s, angle } = axes(cov), points = [];
  for (let k = 0; k < 72; k += 1) {
    const t = (2 * Math.PI * k) / 72, u = r * s[0] * Math.cos(t), v = r * s[1] * Math.sin(t);
    points.push(scale.to([mean[0] + u * Math.cos(angle) - v * Math.sin(angle), mean[1] + u * Math.sin(angle) + v * Math.cos(angle)]));
  }
  return line(points) + "Z";
}

function gaussian(scale, q, kind, extra = "") {
  const [u, v] = scale.to(q.mean);
  return [
    ...[1, 2].map((r) => element("path", { class: `${kind} ${extra}`, d: ellipse(scale, q, r), "data-role": kind })),
    element("circle", { class: `mean ${kind}`, cx: u, cy: v, r: 4, "data-role": kind }),
  ];
}

// --- handles: a pointer or the arrow keys move them --------------------------------------------------------------------------

export function handle(svg, at, label, move, className, moved) {
  const [u, v] = at;
  const visible = element("circle", { class: `handle ${className}`, cx: u, cy: v, r: 7 });
  const grab = element("circle", {
    class: "grab", cx: u, cy: v, r: 20, tabindex: 0, role: "button", "aria-label": `${label}; the arrow keys move it`, "data-handle": label,
    onpointerdown: (event) => {
      event.preventDefault();
      event.stopPropagation();
      const turn = (e) => {
        const box = svg.getBoundingClientRect(), k = svg.viewBox.baseVal.width / box.width;
        move([(e.clientX - box.left) * k, (e.clientY - box.top) * k]);
      };
      const end = () => {
        window.removeEventListener("pointermove", turn);
        window.removeEventListener("pointerup", end);
        window.removeEventListener("pointercancel", end);
      };
      window.addEventListener("pointermove", turn);
      window.addEventListener("pointerup", end);
      window.addEventListener("pointercancel", end);
    },
    onkeydown: (event) => {
      const d = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!d) return;
      event.preventDefault();
      event.stopPropagation();
      const size = event.shiftKey ? 2 : 10;
      move([u + d[0] * size, v + d[1] * size], d);
      if (moved) moved(label);
    },
  }, [element("title", {}, [label])]);
  return [visible, grab];
}

function handles(svg, scale, q, kind, change, label) {
  const { s, angle } = axes(q.cov), out = [];
  const end = (k) => {
    const t = angle + (k * Math.PI) / 2;
    return [q.mean[0] + s[k] * Math.cos(t), q.mean[1] + s[k] * Math.sin(t)];
  };
  for (const k of [0, 1]) {
    out.push(...handle(svg, scale.to(end(k)), `${label}: axis ${k + 1}`, (to) => {
      const [a, b] = scale.from(to), t = Math.atan2(b - q.mean[1], a - q.mean[0]) - (k * Math.PI) / 2;
      const length = Math.min(Math.max(Math.hypot(a - q.mean[0], b - q.mean[1]), 0.05), 20);
      const lengths = k === 0 ? [length, s[1]] : [s[0], length];
      change({ mean: q.mean, cov: covariance({ s: lengths, angle: t }) });
    }, `of-${kind}`));
  }
  out.push(...handle(svg, scale.to(q.mean), `${label}: mean`, (to) => change({ mean: scale.from(to), cov: q.cov }), `of-${kind}`));
  return out;
}

// --- the plane of the parameters ---------------------------------------------------------------------------------------------

function ticks(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
  const out = [];
  for (let v = Math.ceil(low / size) * size; v <= high + 1e-9; v += size) out.push(Math.abs(v) < size / 1e6 ? 0 : v);
  return out;
}

function frame(scale, view) {
  const [x0, x1, y0, y1] = view, out = [], labels = [];
  const word = (v) => String(Number(v.toPrecision(4)));
  for (const v of ticks(x0, x1)) {
    const [u] = scale.to([v, y0]);
    out.push(element("line", { class: "axis", x1: u, x2: u, y1: PAD, y2: SIZE - PAD }));
    out.push(element("text", { class: "tick", x: u, y: SIZE - PAD + 18, "text-anchor": "middle" }, [word(v)]));
  }
  for (const v of ticks(y0, y1)) {
    const [, w] = scale.to([x0, v]);
    out.push(element("line", { class: "axis", x1: PAD, x2: SIZE - PAD, y1: w, y2: w }));
    labels.push(element("text", { class: "tick inner", x: PAD + 4, y: w - 4 }, [word(v)]));
  }
  out.push(element("text", { class: "tick", x: SIZE - 4, y: SIZE - PAD + 6, "text-anchor": "end" }, ["θ₁"]));
  out.push(element("text", { class: "tick", x: PAD, y: PAD - 10, "text-anchor": "middle" }, ["θ₂"]));
  return [out, labels];
}

function likelihood(scale, view, lik, id) {
  // constant along x·θ = o: a gradient along the direction of x
  const [a, b] = lik.x, n = a * a + b * b;
  if (n === 0) return [];
  const at = (o) => scale.to([(o * a) / n, (o * b) / n]);
  const [first, last] = [at(lik.o[0]), at(lik.o[lik.o.length - 1])];
  const stops = lik.relative.map((p, k) => element("stop", {
    offset: k / (lik.relative.length - 1), "stop-color": "var(--likelihood)", "stop-opacity": (0.6 * p).toFixed(4),
  }));
  const gradient = element("linearGradient", { id, gradientUnits: "userSpaceOnUse", x1: first[0], y1: first[1], x2: last[0], y2: last[1] }, stops);
  return [element("defs", {}, [gradient]), element("rect", {
    class: "likelihood", x: PAD, y: PAD, width: SIZE - 2 * PAD, height: SIZE - 2 * PAD, fill: `url(#${id})`, "data-role": "likelihood",
  })];
}

export function drawPlane(svg, answer, index, options) {
  const scale = plane(answer.view), m = answer.methods[index], parts = [];
  svg.setAttribute("viewBox", `0 0 ${SIZE} ${SIZE}`);
  parts.push(element("rect", { class: "frame", x: PAD, y: PAD, width: SIZE - 2 * PAD, height: SIZE - 2 * PAD }));
  const [grid, labels] = frame(scale, answer.view), inside = [];
  parts.push(...grid);
  if (answer.likelihood) inside.push(...likelihood(scale, answer.view, answer.likelihood, `likelihood-${index}`));
  for (const theta of options.hidden ? [] : m.samples || []) {
    const [u, v] = scale.to(theta);
    inside.push(element("circle", { class: "sample", cx: u, cy: v, r: 2.5, "data-role": "samples" }));
  }
  if (m.prior) inside.push(...gaussian(scale, m.prior, "prior"));
  if (answer.t > 1) inside.push(element("path", { class: "prior initial", d: ellipse(scale, answer.prior, 1) }));
  if (!options.hidden) {
    for (const contour of answer.exact.contours) inside.push(element("path", { class: "exact", d: line(contour.map(scale.to)) + "Z", "data-role": "exact" }));
    const [u, v] = scale.to(answer.exact.mean);
    inside.push(element("circle", { class: "mean exact", cx: u, cy: v, r: 4, "data-role": "exact" }));
    if (m.posterior && answer.t > 0) {
      const trail = (m.path || []).filter((p) => p.every((w) => typeof w === "number")).map(scale.to);
      if (trail.length > 2) {
        inside.push(element("path", { class: "path", d: line(trail), "data-role": "posterior" }));
        inside.push(...trail.slice(1, -1).map(([a, b]) => element("circle", { class: "path-dot", cx: a, cy: b, r: 2.2, "data-role": "posterior" })));
      }
      inside.push(...gaussian(scale, m.posterior, "posterior"));
    }
  }
  if (options.guess) inside.push(...gaussian(scale, options.guess, "guess"));
  const clip = element("clipPath", { id: `clip-${index}` }, [element("rect", { x: PAD, y: PAD, width: SIZE - 2 * PAD, height: SIZE - 2 * PAD })]);
  parts.push(element("defs", {}, [clip]), element("g", { "clip-path": `url(#clip-${index})` }, inside), ...labels);
  parts.push(...handles(svg, scale, answer.prior, "prior", options.changePrior, "prior"));
  if (options.guess && options.hidden) parts.push(...handles(svg, scale, options.guess, "guess", options.changeGuess, "guess"));
  replace(svg, parts);
}

// the element that has the focus keeps it, though it is drawn anew
function replace(svg, parts) {
  const focused = svg.contains(document.activeElement) ? document.activeElement.dataset.handle : null;
  svg.replaceChildren(...parts);
  if (focused) svg.querySelector(`[data-handle="${focused}"]`)?.focus();
}

// --- the data ----------------------------------------------------------------------------------------------------------------

export function drawData(svg, answer, options) {
  const W = 640, H = 230, { x, y } = answer.stream;
  const top = answer.model === "logistic" ? 1.2 : Math.max(...y, 1) * 1.15 + 0.3;
  const low = answer.model === "linear" ? Math.min(...y, -1) * 1.15 - 0.3 : answer.model === "logistic" ? -0.2 : -top / 12;
  const to = ([u, v]) => [PAD + ((u + 4) / 8) * (W - 2 * PAD), H - PAD - ((v - low) / (top - low)) * (H - PAD - 10)];
  const from = ([a, b]) => [((a - PAD) / (W - 2 * PAD)) * 8 - 4, low + ((H - PAD - b) / (H - PAD - 10)) * (top - low)];
  const parts = [element("rect", { class: "frame", x: PAD, y: 10, width: W - 2 * PAD, height: H - PAD - 10 })];
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  for (const u of [-4, -2, 0, 2, 4]) parts.push(element("text", { class: "tick", x: to([u, low])[0], y: H - PAD + 18, "text-anchor": "middle" }, [String(u)]));
  parts.push(element("text", { class: "tick", x: W - PAD, y: H - 2, "text-anchor": "end" }, ["u"]));
  for (const v of answer.model === "logistic" ? [0, 1] : ticks(low, top)) {
    const [, b] = to([0, v]);
    parts.push(element("line", { class: "axis", x1: PAD, x2: W - PAD, y1: b, y2: b }));
    parts.push(element("text", { class: "tick", x: PAD - 6, y: b + 4, "text-anchor": "end" }, [String(Number(v.toPrecision(3)))]));
  }
  const curve = (values, kind, name = "", right = 4) => {
    const shown = values.map((v, k) => [answer.curve.u[k], v]).filter(([, v]) => v >= low && v <= top).map(to);
    if (shown.length > 1) parts.push(element("path", { class: kind, d: line(shown), "data-role": kind }));
    if (shown.length > 1 && name) parts.push(element("text", { class: "tick", x: shown.at(-1)[0] + right, y: shown.at(-1)[1] + 4 }, [name]));
  };
  if (answer.curve && !options.hidden) {
    curve(answer.curve.exact, "exact");
    answer.methods.forEach((m, k) => m.curve && curve(m.curve, "posterior", answer.methods.length > 1 ? "AB"[k] : "", 4 + 12 * k));
  }
  x.forEach((row, k) => {
    const at = to([row[1], y[k]]), when = k + 1 === answer.t ? "now" : k < answer.t ? "" : "later";
    parts.push(element("circle", { class: `point ${when}`, cx: at[0], cy: at[1], r: when === "now" ? 8 : 5, "data-role": when === "now" ? "likelihood" : null }));
    const [, grab] = handle(svg, at, `observation ${k + 1}`, (there, key) => {
      const [u, v] = from(there);
      if (key && key[1] && answer.model !== "linear") options.changeObservation(k, row[1], y[k] - key[1]);
      else options.changeObservation(k, u, key && !key[1] ? y[k] : v);
    }, "");
    grab.setAttribute("r", when === "now" ? 20 : 12);
    parts.push(grab);
  });
  replace(svg, parts);
}
