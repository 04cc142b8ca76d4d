// Numbers, equations and code beside the picture. Each shown number carries its place in the answer, data-n="methods.0.kl".

import { element } from "./picture.js";

const DIGITS = 4;

export function text(value) {
  if (typeof value === "string") return value; // inf and nan
  if (Array.isArray(value)) return `[${value.map(text).join(", ")}]`;
  if (value && value.shape) return `${value.shape.join("×")} numbers, ${value.first.map(text).join(", ")} …`;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const word = size >= 1e5 || size < 1e-4 ? value.toExponential(DIGITS - 1) : String(Number(value.toPrecision(DIGITS)));
  return word.replace("-", "−");
}

const shown = (path, value) => element("span", { "data-n": path }, [text(value)]);

// μ_{t|t-1} as μ with a subscript, ^{...} as a superscript; both may be nested
export function formula(plain) {
  const out = [];
  let k = 0, word = "";
  while (k < plain.length) {
    if ((plain[k] === "_" || plain[k] === "^") && k + 1 < plain.length) {
      let end = k + 2, inner = plain[k + 1];
      if (inner === "{") {
        for (let depth = 1; depth > 0 && end < plain.length; end += 1) depth += { "{": 1, "}": -1 }[plain[end]] || 0;
        inner = plain.slice(k + 2, end - 1);
      }
      out.push(word, element(plain[k] === "_" ? "sub" : "sup", {}, formula(inner)));
      [word, k] = ["", end];
    } else {
      word += plain[k];
      k += 1;
    }
  }
  return [...out, word].filter((part) => part !== "");
}

// --- numbers -----------------------------------------------------------------------------------------------------------------

const row = (role, name, cells) => element("tr", { "data-role": role }, [element("th", { scope: "row" }, [name]), ...cells.map((c) => element("td", {}, c))]);

export function numbers(box, answer, { hidden, guess }) {
  const ms = answer.methods, head = ["", ...ms.map((m, k) => `${"AB"[k]}: ${m.name}`)];
  const of = (role, name, f) => row(role, name, ms.map((m, k) => f(m, `methods.${k}`)));
  const pair = (path, q) => (q ? ["mean ", shown(`${path}.mean`, q.mean), element("br"), "cov ", shown(`${path}.cov`, q.cov)] : ["–"]);
  const state = (m, at) => {
    if (m.status !== "ok") return [element("span", { class: "lost" }, [`${m.status}: ${m.reason}`])];
    return pair(`${at}.posterior`, m.posterior);
  };
  const rows = [of("prior", "prior q(t|t−1)", (m, at) => pair(`${at}.prior`, m.prior))];
  if (hidden) rows.push(row("posterior", "posterior", ms.map(() => ["hidden: place your guess, then reveal"])));
  else {
    rows.push(of("posterior", "posterior q(t)", state));
    rows.push(of("posterior", "KL(q | exact), nats", (m, at) => ("kl" in m ? [shown(`${at}.kl`, m.kl)] : ["–"])));
    rows.push(of("prior", "KL(prior | exact)", (m, at) => ("kl_prior" in m ? [shown(`${at}.kl_prior`, m.kl_prior)] : ["–"])));
    const both = (cells) => element("tr", { "data-role": "exact" }, [element("th", { scope: "row" }, [cells[0]]), element("td", { colspan: ms.length }, cells[1])]);
    rows.push(both(["exact posterior", pair("exact", answer.exact)]));
    rows.push(both(["log evidence", [shown("exact.log_evidence", answer.exact.log_evidence), "  (quadrature error below ", shown("exact.error", answer.exact.error), ")"]]));
    if (guess && answer.guess) {
      rows.push(element("tr", { "data-role": "guess" }, [element("th", { scope: "row" }, ["KL(your guess | exact)"]), element("td", { colspan: ms.length }, [shown("guess.kl", answer.guess.kl)])]));
    }
  }
  const notes = ms.filter((m) => m.note).map((m) => element("p", { class: "from" }, [`${m.name}: ${m.note}`]));
  const table = element("table", {}, [element("thead", {}, [element("tr", {}, head.map((h) => element("th", { scope: "col" }, [h])))]), element("tbody", {}, rows)]);
  box.replaceChildren(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers" }, [table]), ...notes);
}

// --- equations and code ------------------------------------------------------------------------------------------------------

export function equations(list, m, index, i, hidden) {
  if (!m.equations || !m.equations.length) {
    const why = m.status !== "ok" ? `${m.reason}. This step has no equations to show.` : "Take a step: its equations appear here with their numbers.";
    list.replaceChildren(element("li", { class: "card" }, [why]));
    return;
  }
  list.replaceChildren(...m.equations.map((e, k) => {
    const at = Math.min(i, e.values.length) - 1, secret = hidden && e.role !== "likelihood";
    const operands = e.operands[at].flatMap((o, n) => [n ? ",  " : "", `${o.name} = `, shown(`methods.${index}.equations.${k}.operands.${at}.${n}.value`, o.value)]);
    return element("li", { class: "card", tabindex: 0, "data-role": e.role, "data-line": `${e.file}:${e.line}` }, [
      element("div", { class: "formula" }, formula(e.formula)),
      element("div", { class: "value" }, [element("b", {}, [e.symbol]), e.symbol === "S" ? " (G = −S Sᵀ) = " : " = ", secret ? "hidden" : shown(`methods.${index}.equations.${k}.values.${at}`, e.values[at])]),
      secret || !operands.length ? null : element("div", { class: "from" }, ["with ", ...operands]),
      element("div", { class: "at" }, [`${e.number ? `(${e.number}) ` : ""}${e.equation}  ·  ${e.file}:${e.line}`, e.errata.length ? `  ·  erratum ${e.errata.join(", ")}` : ""]),
    ]);
  }));
}

export function code(box, m) {
  const lines = new Map((m.equations || []).flatMap((e) => Array.from({ length: e.last - e.line + 1 }, (_, k) => [`${e.file}:${e.line + k}`, e])));
  box.replaceChildren(...(m.sources || []).map((s) => element("div", {}, [
    element("div", { class: "at" }, [`${s.file}, ${s.where}`]),
    element("pre", { tabindex: 0, "aria-label": `Source of ${s.where}` }, s.lines.map((t, k) => {
      const e = lines.get(`${s.file}:${s.first + k}`);
      const linked = e ? { class: "code-line linked", tabindex: 0, "data-line": `${e.file}:${e.line}`, "data-role": e.role } : { class: "code-line" };
      return element("span", linked, [element("span", { class: "n", "aria-hidden": "true" }, [String(s.first + k)]), t]);
    })),
  ])));
}

// --- links: what has the pointer or the focus lights up its counterparts ------------------------------------------------------

export function link(root) {
  const light = (event) => {
    const from = event.target.closest?.("[data-role]");
    root.querySelectorAll(".hot").forEach((n) => n.classList.remove("hot"));
    if (!from) return;
    const { role, line } = from.dataset;
    // an equation lights its line of code and its part of the picture; a part of the picture all equations of its role
    root.querySelectorAll(`[data-role="${role}"]`).forEach((n) => {
      if (!line || !n.dataset.line || n.dataset.line === line) n.classList.add("hot");
    });
  };
  for (const kind of ["pointerover", "focusin"]) root.addEventListener(kind, light);
  root.addEventListener("pointerleave", light);
}

// --- one sentence for screen readers -----------------------------------------------------------------------------------------

export function summary(answer, hidden) {
  const { t, stream } = answer;
  const said = [t ? `Step ${t} of ${stream.y.length}: observation u ${text(stream.x[t - 1][1])}, y ${text(stream.y[t - 1])}.` : "At the prior."];
  for (const m of answer.methods) {
    if (hidden) said.push(`${m.name}: the posterior is hidden.`);
    else if (m.status !== "ok") said.push(`${m.name}: ${m.status}. ${m.reason}.`);
    else said.push(`${m.name}: posterior mean ${text(m.posterior.mean)}, KL divergence from the exact posterior ${text(m.kl)} nats.`);
  }
  if (!hidden) said.push(`Exact posterior mean ${text(answer.exact.mean)}.`);
  return said.join(" ");
}
