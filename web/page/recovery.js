// The recovery meters: what of each allowance is used, and for what.

import { el } from "./dom.js";
import { badge, dollars, plain } from "./words.js";

const MOST = 100;

/** A meter for each invocation that has an allowance. */
export function meters(recovery) {
  const some = recovery.invocations.slice(0, MOST);
  const left = recovery.invocations.length - some.length;
  return el("div", {},
    some.length ? some.map(meter) : el("p", { class: "quiet" }, "No agent has begun."),
    left ? el("p", { class: "hint" }, `${left} more are told by mulligan recovery.`) : null);
}

function meter(one) {
  const used = one.used ?? 0;
  const said = one.limit ? `${used} of ${one.limit} extra attempts used` : "no extra attempts";
  const name = one.parent_id ? `${one.invocation_id} (called by ${one.parent_id})` : one.invocation_id;
  const phase = one.status === "active" ? one.phase ?? "active" : one.status;
  return el("div", { class: "meter" },
    el("div", {}, el("strong", {}, name), badge(phase)),
    one.limit ? el("meter", {
      min: 0, max: one.limit, value: used, low: one.limit * 0.51, high: one.limit * 0.99, optimum: 0,
      "aria-label": `Recovery of ${one.invocation_id}`, "aria-valuetext": said,
    }) : null,
    el("p", { class: "hint" }, `${said}, ${requests(one.requests ?? 0)}`,
      one.number > 1 ? `, allowance number ${one.number}` : ""),
    history(one.entries ?? []),
    one.cause ? el("p", { class: "bad" }, cause(one.cause)) : null,
    one.failure ? el("p", { class: "bad" }, cause(one.failure)) : null);
}

function requests(count) {
  return `${count} request${count === 1 ? "" : "s"}`;
}

function history(entries) {
  const told = entries.filter((entry) => entry.kind !== "dispatch");
  if (!told.length) return null;
  return el("ul", { class: "entries", "aria-label": "What it was used for" }, told.map((entry) => el("li", {},
    entry.kind === "reserve" ? `after attempt ${entry.attempt}: ${plain(entry.reason ?? "")}` : `${entry.count ?? 1} given back`)));
}

function cause(one) {
  return [plain(one.kind), one.message, one.status && `status ${one.status}`].filter(Boolean).join(": ");
}

/** Tokens and cost, by model. */
export function usageList(usage) {
  const models = Object.entries(usage);
  if (!models.length) return el("p", { class: "quiet" }, "No model has been asked.");
  return el("dl", { class: "usage" }, models.flatMap(([name, one]) => [
    el("dt", {}, name),
    el("dd", {}, requests(one.requests), one.unknown ? `, ${one.unknown} of them of unknown usage` : ""),
    el("dd", {}, `${one.prompt_tokens.toLocaleString("en")} tokens in, ${one.completion_tokens.toLocaleString("en")} out`),
    el("dd", {}, `cost ${dollars(one.cost_usd)}`),
  ]));
}
