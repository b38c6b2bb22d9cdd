// How values are said.

import { el } from "./dom.js";

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const UNITS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000]];

/** A duration in milliseconds. */
export function duration(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** How long ago, as an element that also tells the exact time. */
export function moment(ms) {
  const past = Date.now() - ms;
  const [unit, size] = UNITS.find(([, size]) => past >= size) ?? ["second", 1_000];
  const said = past < 5_000 ? "just now" : AGO.format(-Math.floor(past / size), unit);
  const exact = new Date(ms);
  return el("time", { datetime: exact.toISOString(), title: MOMENT.format(exact) }, said);
}

/** A moment in full. */
export function exactly(ms) {
  return MOMENT.format(new Date(ms));
}

/** Dollars; null is unknown. */
export function dollars(usd) {
  return usd === null || usd === undefined ? "unknown" : `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;
}

/** A score, with no more places than tell something. */
export function score(value) {
  return String(Math.round(value * 100) / 100);
}

/** A duration as workflow files spell it, in the largest unit that says it whole. */
export function spelled(duration) {
  const [, number, unit] = /^(\d+)(ms)$/.exec(duration) ?? [];
  if (unit === undefined) return duration;
  const [name, size] = [["h", 3_600_000], ["m", 60_000], ["s", 1_000]].find(([, size]) => number % size === 0) ?? ["ms", 1];
  return `${number / size}${name}`;
}

/** A word that contracts write with `_`. */
export function plain(word) {
  return word.replaceAll("_", " ");
}

const SIGNS = {
  queued: "○", pending: "○", ready: "○", skipped: "–", running: "▶", active: "▶", retrying: "↻",
  paused: "‖", cancelling: "✕", cancelled: "✕", completed: "✓", failed: "!",
};

/** A status in words and a sign, so that colour is not all that tells it. */
export function badge(status, reason = null) {
  return el(
    "span", { class: `badge ${status}` },
    el("span", { "aria-hidden": "true", class: "sign" }, SIGNS[status] ?? "·"),
    reason ? `${status}: ${plain(reason)}` : status,
  );
}

/** A JSON value as people read it. */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
