// The list of runs: a page of it at a time, by filters that stand in the address, kept up to date.

import { ApiError, get } from "./api.js";
import { announce, el, labelled, setText } from "./dom.js";
import { Refresher, follow } from "./live.js";
import { badge, duration, moment, plain } from "./words.js";

const PAGE = 100;
const STATUSES = ["queued", "running", "paused", "cancelling", "completed", "failed", "cancelled"];
const SINCE = { "": "any time", "15m": "15 minutes", "2h": "2 hours", "1d": "a day", "7d": "a week", "30d": "30 days" };
const COLUMNS = ["Run", "Workflow", "Status", "Nodes ended", "Tags", "Requested", "Took"];
// After these events a row says something else.
const TELLS = /^(Run|Node(Completed|Failed|Skipped|Cancelled)|(Tool|Input|Decision|Effect)(Approved|Denied|Provided|Made|Reconciled))/;

/** The view; `query` holds the filters, and `after`, where the page begins. */
export async function listView(query) {
  const rows = new Rows();
  const note = el("p", { class: "problem", role: "alert" });
  const count = el("p", { class: "quiet", "aria-live": "polite" });
  const pages = el("nav", { "aria-label": "Pages", class: "pages" });
  let told = "";

  async function load() {
    const list = await get("/runs", asked(query));
    rows.show(list.runs);
    const said = summary(list, query);
    if (said !== told) setText(count, (told = said));
    turn(pages, list, query);
  }

  const refresher = new Refresher(load, (error) => failed(error, note));
  await refresher.now();
  const changed = (event) => {
    if (event.type === undefined || TELLS.test(event.type)) refresher.want();
  };
  const stop = follow("/events?start=now", {
    message: changed, gap: () => refresher.want(), set_back: () => refresher.want(),
  }, () => refresher.want());
  const clock = setInterval(() => rows.tick(), 15_000);

  const node = el(
    "section", { "aria-labelledby": "runs" },
    el("div", { class: "head" }, el("h1", { id: "runs" }, "Runs"),
      el("a", { href: "#/new", class: "button primary" }, "New run")),
    filters(query), note, count, rows.node, pages,
  );
  return { node, leave: () => { refresher.stop(); stop(); clearInterval(clock); } };
}

/** What is told where a look at the server failed; a token that ended is asked for again. */
export function failed(error, note) {
  if (error instanceof ApiError && error.status === 401) window.dispatchEvent(new Event("signed-out"));
  setText(note, error ? `${error.message} What is shown may be old.` : "");
}

function asked(query) {
  const wanted = new URLSearchParams(query);
  wanted.set("limit", PAGE);
  return wanted;
}

function summary(list, query) {
  const filtered = [...query.keys()].some((name) => name !== "after");
  if (!list.runs.length) {
    return filtered ? "No run is like that." : query.has("after") ? "No older runs." : "No runs yet.";
  }
  const more = list.left_off ? `, and ${list.left_off.toLocaleString("en")} older ones` : "";
  return `${list.runs.length} run${list.runs.length === 1 ? "" : "s"}${more}`;
}

function turn(pages, list, query) {
  const links = [];
  if (query.has("after")) links.push(["Newest", without(query, "after")]);
  if (list.next) links.push(["Older", changedTo(query, "after", list.next)]);
  if (pages.dataset.of === JSON.stringify(links)) return;
  pages.dataset.of = JSON.stringify(links);
  pages.replaceChildren(...links.map(([name, href]) => el("a", { href, class: "button" }, name)));
}

function without(query, ...names) {
  const left = new URLSearchParams(query);
  names.forEach((name) => left.delete(name));
  return `#/${String(left) ? `?${left}` : ""}`;
}

function changedTo(query, name, value) {
  const changed = new URLSearchParams(query);
  changed.set(name, value);
  return `#/?${changed}`;
}

// --- Filters ---------------------------------------------------------------------------------------

function filters(query) {
  const workflow = el("input", { name: "workflow", value: query.get("workflow") ?? "", maxlength: 200 });
  const tags = el("input", { name: "tag", value: query.getAll("tag").join(", "), autocomplete: "off" });
  const since = el(
    "select", { name: "since" },
    Object.entries(SINCE).map(([value, said]) =>
      el("option", { value, selected: value === (query.get("since") ?? "") }, said)),
  );
  const chosen = query.getAll("status");
  const statuses = STATUSES.map((status) => {
    const box = el("input", { type: "checkbox", name: "status", value: status, checked: chosen.includes(status) });
    return el("label", { class: "choice" }, box, status);
  });
  const form = el(
    "form", { class: "filters", role: "search", "aria-label": "Filter runs" },
    el("fieldset", {}, el("legend", {}, "Status"), statuses),
    labelled("Workflow", workflow), labelled("Tags", tags), labelled("Requested within", since),
    el("button", {}, "Filter"),
    [...query.keys()].length ? el("a", { href: "#/", class: "button plain" }, "Clear") : null,
  );
  const go = () => (location.hash = address(new FormData(form)));
  form.addEventListener("submit", (event) => { event.preventDefault(); go(); });
  return form;
}

function address(data) {
  const wanted = new URLSearchParams();
  data.getAll("status").forEach((status) => wanted.append("status", status));
  if (data.get("workflow").trim()) wanted.set("workflow", data.get("workflow").trim());
  data.get("tag").split(",").map((tag) => tag.trim()).filter(Boolean)
    .forEach((tag) => wanted.append("tag", tag));
  if (data.get("since")) wanted.set("since", data.get("since"));
  return String(wanted) ? `#/?${wanted}` : "#/";
}

// --- Rows ------------------------------------------------------------------------------------------

class Rows {
  constructor() {
    this.rows = new Map();
    this.body = el("tbody");
    this.node = el(
      "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of runs" },
      el("table", { class: "runs" }, el("caption", { class: "unseen" }, "Runs, newest first"),
        el("thead", {}, el("tr", {}, COLUMNS.map((name) => el("th", { scope: "col" }, name)))),
        this.body),
    );
  }

  /** Shows these runs; a row that stays is changed in place, so that nobody loses their place. */
  show(runs) {
    const kept = new Map(runs.map((run) => [run.run, this.rows.get(run.run) ?? new Row(run.run)]));
    runs.forEach((run) => kept.get(run.run).show(run));
    for (const [name, row] of this.rows) if (!kept.has(name)) row.node.remove();
    [...kept.values()].forEach((row, index) => {
      const there = this.body.children[index];
      if (there !== row.node) this.body.insertBefore(row.node, there ?? null);
    });
    this.rows = kept;
    this.node.hidden = !runs.length;
  }

  tick() {
    this.rows.forEach((row) => row.tick());
  }
}

class Row {
  constructor(run) {
    this.cells = COLUMNS.slice(1).map(() => el("td"));
    const name = el("th", { scope: "row" }, el("a", { href: `#/runs/${encodeURIComponent(run)}` }, run));
    this.node = el("tr", {}, name, this.cells);
    this.known = "";
  }

  show(run) {
    this.run = run;
    const known = JSON.stringify(run);
    if (known === this.known) return;
    const [workflow, status, nodes, tags] = this.cells;
    const was = this.status;
    this.status = run.status ?? "queued"; // the API leaves out what is as it begins
    setText(workflow, run.workflow ?? "");
    status.replaceChildren(badge(this.status, run.reason));
    if (run.unreadable) status.append(el("span", { class: "hint" }, " can't be read on: ", run.unreadable));
    setText(nodes, ended(run.nodes ?? {}));
    tags.replaceChildren(...(run.tags ?? []).map((tag) => el("span", { class: "tag" }, tag)));
    if (this.known && was !== this.status) {
      this.node.classList.remove("changed");
      void this.node.offsetWidth; // so that the mark is shown once more
      this.node.classList.add("changed");
      announce(`${run.run} is ${this.status}`);
    }
    this.known = known;
    this.tick();
  }

  tick() {
    const [, , , , requested, took] = this.cells;
    if (this.run.requested_ms) requested.replaceChildren(moment(this.run.requested_ms));
    const { started_ms: began, ended_ms: over } = this.run;
    setText(took, over && began ? duration(over - began) : "");
  }
}

function ended(nodes) {
  const parts = Object.entries(nodes).map(([how, number]) => `${number} ${plain(how)}`);
  return parts.join(", ");
}
