// The rounds of repair: score and cost as a plot, and what each round did.

import { diff } from "./diff.js";
import { el, svg } from "./dom.js";
import { dollars, duration, plain, pretty, score } from "./words.js";

const WIDE = 640;
const HIGH = 240;
const EDGE = { left: 44, right: 64, top: 16, bottom: 34 };
const INSET = 24;

/** A part for each loop of a run. */
export function repairs(loops) {
  return loops.map((loop) => el("section", { class: "loop", "aria-label": `Repair of ${loop.node}` },
    el("p", {}, el("strong", {}, loop.node), ` ${outcome(loop)}`),
    loop.assessments.length ? plot(loop) : null,
    loop.iterations.length ? rounds(loop) : el("p", { class: "quiet" }, "No round has ended."),
    others(loop)));
}

function outcome(loop) {
  if (loop.awaits_decision) return `waits for a decision${loop.halt_reason ? ` (${plain(loop.halt_reason)})` : ""}`;
  if (loop.outcome === null) return "is being repaired";
  return [plain(loop.outcome), loop.halt_reason && `(${plain(loop.halt_reason)})`, loop.decided_by && `decided by ${loop.decided_by}`]
    .filter(Boolean).join(" ");
}

// --- The plot --------------------------------------------------------------------------------------

function plot(loop) {
  const last = Math.max(1, ...loop.assessments.map((one) => one.iteration), ...loop.iterations.map((one) => one.iteration));
  const step = (WIDE - EDGE.left - EDGE.right - 2 * INSET) / last;
  const x = (round) => EDGE.left + INSET + round * step;
  const y = (of) => EDGE.top + (100 - of) / 100 * (HIGH - EDGE.top - EDGE.bottom);
  const costs = loop.iterations.map((one) => one.cost_usd ?? 0);
  const most = Math.max(...costs, 0);
  return el("figure", {},
    svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": inWords(loop), class: "plot" },
      grid(y, last, x, most), loop.iterations.map((one) => costBar(one, x, step, most)), line(loop, x, y)),
    el("figcaption", {}, el("span", { class: "key score" }, "overall score"), el("span", { class: "key cost" }, "cost of the round")));
}

function inWords(loop) {
  const scores = loop.assessments.map((one) => `${score(one.overall_score)} after round ${one.iteration}`).join(", ");
  const costs = loop.iterations.map((one) => `round ${one.iteration} ${dollars(one.cost_usd)}`).join(", ");
  return `Overall score ${scores}.${costs ? ` Cost: ${costs}.` : ""}`;
}

function grid(y, last, x, most) {
  const marks = [0, 25, 50, 75, 100].map((mark) => svg("g", {},
    svg("line", { x1: EDGE.left, x2: WIDE - EDGE.right, y1: y(mark), y2: y(mark), class: "grid" }),
    svg("text", { x: EDGE.left - 8, y: y(mark) + 4, "text-anchor": "end" }, String(mark))));
  const every = Math.ceil((last + 1) / 14);
  const rounds = [...Array(last + 1).keys()].filter((round) => round % every === 0).map((round) =>
    svg("text", { x: x(round), y: HIGH - 12, "text-anchor": "middle" }, round ? String(round) : "before"));
  const cost = most ? svg("text", { x: WIDE - EDGE.right + 8, y: EDGE.top + 4, class: "cost" }, dollars(most)) : null;
  return [...marks, ...rounds, cost].filter(Boolean);
}

function costBar(one, x, step, most) {
  if (!one.cost_usd) return null;
  const high = one.cost_usd / most * (HIGH - EDGE.top - EDGE.bottom);
  const wide = Math.min(step * 0.5, 36);
  return svg("rect", { x: x(one.iteration) - wide / 2, y: HIGH - EDGE.bottom - high, width: wide, height: high, class: "cost" },
    svg("title", {}, `round ${one.iteration}: ${dollars(one.cost_usd)}`));
}

function line(loop, x, y) {
  const points = loop.assessments.map((one) => `${x(one.iteration)},${y(one.overall_score)}`).join(" ");
  const dots = loop.assessments.map((one) => svg("circle", {
    cx: x(one.iteration), cy: y(one.overall_score), r: 5, class: one.passed ? "passed" : "score",
  }, svg("title", {}, `${score(one.overall_score)}${one.passed ? ", passed" : ""}`)));
  return [svg("polyline", { points, class: "score" }), ...dots];
}

// --- The rounds ------------------------------------------------------------------------------------

function rounds(loop) {
  const columns = ["Round", "Level", "For", "Score", "Verdict", "Cost", "Took"];
  return el("div", { class: "scroll" }, el("table", {}, el("caption", { class: "unseen" }, `Rounds of ${loop.node}`),
    el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, loop.iterations.flatMap(round))));
}

function round(one) {
  const cells = [`${one.level}`, plain(one.metric), `${score(one.score_before)}\u00a0→\u00a0${score(one.score_after)}`, plain(one.verdict),
    dollars(one.cost_usd), duration(one.duration_seconds * 1_000)];
  const row = el("tr", {}, el("th", { scope: "row" }, String(one.iteration)), cells.map((text) => el("td", {}, text)));
  if (!one.actions.length) return [row];
  const edits = el("details", {}, el("summary", {}, `${one.actions.length} edit${one.actions.length === 1 ? "" : "s"} of round ${one.iteration}`));
  edits.addEventListener("toggle", () => edits.append(...one.actions.map(action)), { once: true });
  return [row, el("tr", { class: "under" }, el("td", { colspan: cells.length + 1 }, edits))];
}

function action(one) {
  const where = [one.line && `line ${one.line}`, one.section].filter(Boolean).join(", ");
  const head = `${plain(one.type)}${where ? ` at ${where}` : ""}${one.skipped ? `, skipped: ${plain(one.skipped)}` : ""}`;
  const both = one.before !== undefined || one.after !== undefined;
  return el("div", { class: "action" }, el("p", {}, head),
    both ? diff(text(one.before), text(one.after)) : null);
}

function text(value) {
  return value === undefined || value === null ? "" : pretty(value);
}

function others(loop) {
  const over = loop.passed_over.map((one) => `before round ${one.before_iteration}, level ${one.level} was passed over: ${plain(one.because)}`);
  const reviews = loop.reviews.map((one) => `review: ${plain(one.verdict)}${one.counted ? "" : " (of another draft: does not count)"}`);
  return over.length + reviews.length ? el("ul", { class: "hint" }, [...over, ...reviews].map((said) => el("li", {}, said))) : null;
}
