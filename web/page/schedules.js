// Schedules: what asks for runs by the clock, and what people may do about it.

import { get, post } from "./api.js";
import { ask } from "./ask.js";
import { el, labelled } from "./dom.js";
import { Refresher } from "./live.js";
import { failed } from "./run_list.js";
import { badge, exactly, plain } from "./words.js";

const EVERY_MS = 5_000;

/** All of them, or the one that is named, with its latest firings; looked at again every few seconds. */
export async function schedulesView(name) {
  const note = el("p", { class: "problem", role: "alert" });
  const shown = el("div", { class: "schedules" });
  let known = "";

  async function load() {
    const told = await get(name === undefined ? "/schedules" : path(name));
    if (JSON.stringify(told) === known) return; // nobody loses their place for nothing
    known = JSON.stringify(told);
    shown.replaceChildren(...(name === undefined ? list(told.schedules) : one(told, () => refresher.want())));
  }

  const refresher = new Refresher(load, (error) => failed(error, note));
  await refresher.now();
  const clock = setInterval(() => refresher.want(), EVERY_MS);
  const node = el("section", { "aria-labelledby": "schedules" },
    el("div", { class: "head" }, el("h1", { id: "schedules" }, name ?? "Schedules")),
    name === undefined ? null : el("p", { class: "crumbs" }, el("a", { href: "#/schedules" }, "All schedules")),
    note, shown);
  return { node, leave: () => { refresher.stop(); clearInterval(clock); } };
}

function path(name, ...parts) {
  return ["/schedules", encodeURIComponent(name), ...parts].join("/");
}

function table(label, columns, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", { class: "runs" }, el("caption", { class: "unseen" }, label),
      el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col" }, column)))),
      el("tbody", {}, rows)));
}

function list(schedules) {
  if (!schedules.length) {
    return [el("p", { class: "quiet" }, "No schedules yet: ", el("code", {}, "mulligan schedule create"), " makes one.")];
  }
  return [table("Schedules, by name", ["Schedule", "Workflow", "When", "Status", "Next", "Latest"],
    schedules.map((row) => el("tr", {},
      el("th", { scope: "row" }, el("a", { href: `#/schedules/${encodeURIComponent(row.name)}` }, row.name)),
      el("td", {}, row.workflow),
      el("td", {}, el("code", {}, row.cron), ` ${row.timezone}`),
      el("td", {}, badge(row.status)),
      el("td", {}, row.next_ms === null ? "" : exactly(row.next_ms)),
      el("td", {}, row.last === null ? "" : cameTo(row.last)))))];
}

// --- One schedule ----------------------------------------------------------------------------------

function one(schedule, done) {
  return [
    el("p", {}, badge(schedule.status), schedule.detail ? ` ${schedule.detail}` : null),
    el("p", { class: "quiet" }, `${schedule.workflow} at `, el("code", {}, schedule.cron),
      ` by the clocks of ${schedule.timezone}; overlap: ${schedule.overlap}, catch-up: ${schedule.catch_up}`),
    schedule.next_ms.length ? el("p", {}, `Next: ${schedule.next_ms.map(exactly).join(" · ")}`) : null,
    el("div", { class: "buttons" },
      schedule.status === "paused" ? action(schedule, "resume", done) : action(schedule, "pause", done),
      action(schedule, "run-now", done)),
    schedule.firings.length
      ? table("Latest firings, newest first", ["Due", "Came to"], schedule.firings.map((firing) => el("tr", {},
        el("td", {}, moments(firing)), el("td", {}, cameTo(firing)))))
      : el("p", { class: "quiet" }, "It has not fired yet."),
  ].filter((part) => part !== null);
}

const ACTIONS = {
  pause: ["Pause", "It asks for no run until it is resumed. Runs that it asked for go on."],
  resume: ["Resume", "It asks for runs again from now on; what would have been due meanwhile is not made up for."],
  "run-now": ["Run now", "It asks for one run now, whatever else goes on. A worker does so."],
};

function action(schedule, name, done) {
  const [word, told] = ACTIONS[name];
  const open = () => {
    const reason = name === "pause" ? el("input", { maxlength: 2_000 }) : null;
    const key = crypto.randomUUID();
    ask({
      title: `${word}: ${schedule.name}?`,
      tells: [told],
      fields: reason ? [labelled("Why", reason, "Is shown here.")] : [],
      act: word,
      send: async (by) => {
        await post(path(schedule.name, name), { by, ...(reason ? { reason: reason.value } : {}), ...(name === "run-now" ? { key } : {}) });
        return `${schedule.name}: ${word} done`;
      },
      done,
    });
  };
  return el("button", { type: "button", onclick: open }, `${word} …`);
}

function moments(firing) {
  return firing.from_ms === null ? exactly(firing.due_ms) : `${exactly(firing.from_ms)} – ${exactly(firing.due_ms)}`;
}

function cameTo(firing) {
  const by = firing.by ? ` (by ${firing.by})` : "";
  if (firing.outcome === "requested") {
    return el("span", {}, el("a", { href: `#/runs/${encodeURIComponent(firing.run)}` }, firing.run), " ",
      firing.status ? badge(firing.status) : null, by);
  }
  if (firing.outcome === "open") return el("span", {}, `${firing.run} is to be asked for${by}`);
  const many = firing.count > 1 ? ` ${firing.count.toLocaleString("en")} times` : "";
  return el("span", {}, `skipped${many}: ${plain(firing.reason)}`, firing.detail ? el("span", { class: "hint" }, ` ${firing.detail}`) : null, by);
}
