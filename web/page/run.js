// One run, as it stands and as it goes on.

import { get, runPath } from "./api.js";
import { actions, waiting } from "./decisions.js";
import { announce, el, freshId, setText } from "./dom.js";
import { Refresher, connection, follow } from "./live.js";
import { EventLog, LiveOutput } from "./output.js";
import { meters, usageList } from "./recovery.js";
import { repairs } from "./repair_rounds.js";
import { failed } from "./run_list.js";
import { Spans } from "./spans.js";
import { Bars, Steps } from "./timeline.js";
import { badge, duration, exactly, moment, pretty } from "./words.js";

const ENDED = new Set(["completed", "failed", "cancelled"]);
const CLOSES = new Set(["ModelAnswered", "ModelFailed", "ModelInterrupted"]);

/** The view of a run. */
export async function runView(name) {
  const shown = new Shown(name);
  const refresher = new Refresher(() => shown.load(), (error) => failed(error, shown.note));
  shown.done = () => refresher.want();
  await refresher.now();

  const stop = follow(runPath(name, "events?deltas=true"), {
    message: (event) => {
      shown.event(event);
      if (event.version > shown.version) refresher.want();
    },
    delta: (said) => shown.output.delta(said),
    void: (said) => shown.output.void(said),
    run_set_back: () => {
      shown.beginAgain("The log's server was set back: what was shown may not have happened.");
      refresher.want();
    },
    unreadable: (said, source) => { shown.log.tell(said.problem); source.close(); },
    end: (said, source) => { source.close(); shown.over(); refresher.want(); },
  });
  const clock = setInterval(() => shown.tick(), 1_000);
  return { node: shown.node, leave: () => { refresher.stop(); stop(); clearInterval(clock); } };
}

class Shown {
  constructor(name) {
    this.name = name;
    this.version = 0;
    this.known = {};
    this.spans = new Spans();
    this.behind = 0; // what the clock here is behind the server's, in milliseconds
    this.bars = new Bars();
    this.steps = new Steps();
    this.output = new LiveOutput();
    this.log = new EventLog();
    this.cards = new Map();
    this.done = () => {};
    this.build();
  }

  build() {
    this.note = el("p", { class: "problem", role: "alert" });
    this.state = el("span", { id: "state" });
    this.facts = el("p", { class: "facts quiet" });
    this.buttons = el("div", { class: "buttons" });
    this.why = el("div");
    this.people = section("Waits for you", "people");
    this.result = section("Output", "result");
    this.rounds = section("Repair", "rounds");
    this.meters = section("Recovery", "meters");
    this.usage = section("Usage", "usage");
    const timeline = section("Timeline", "timeline", this.bars.node, this.steps.node);
    const live = section("Live output", "live-output", this.output.node);
    const events = section("Events", "event-log", this.log.node);
    this.node = el("div", { class: "run" },
      el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Runs"), " / "),
      el("div", { class: "head" }, el("h1", {}, this.name), this.state, this.buttons),
      this.facts, this.note, this.why, this.people.node,
      el("div", { class: "columns" },
        el("div", {}, timeline.node, this.rounds.node, this.result.node, events.node),
        el("aside", { "aria-label": "Recovery, usage and live output" }, this.meters.node, this.usage.node, live.node)));
  }

  /** Loads how the run stands now. */
  async load() {
    const [run, trace, recovery, loops] = await Promise.all(
      ["result", "trace", "recovery", "repair-log"].map((view) => get(runPath(this.name, view))));
    this.run = run;
    this.version = run.version;
    this.head(run);
    this.once("people", [run.waits_for, run.unsettled, run.decisions], () => this.askPeople(run));
    this.once("why", [recovery.why, recovery.advice], () => this.why.replaceChildren(...reasons(recovery)));
    this.once("result", [run.status, run.output], () => this.result.fill(...outputOf(run)));
    this.once("rounds", loops, () => this.rounds.fill(...repairs(loops.loops)));
    this.once("meters", recovery.invocations, () => this.meters.fill(meters(recovery)));
    this.once("usage", recovery.usage, () => this.usage.fill(usageList(recovery.usage)));
    this.steps.show(trace, run.nodes);
    this.draw();
  }

  /** Renders a part only if what it shows is other than before: who reads or fills in is not disturbed. */
  once(part, value, render) {
    const known = JSON.stringify(value);
    if (this.known[part] === known) return;
    this.known[part] = known;
    render();
  }

  head(run) {
    this.once("state", [run.status, run.reason], () => {
      if (this.state.childElementCount) announce(`The run is ${run.status}`);
      this.state.replaceChildren(badge(run.status, run.reason));
    });
    this.once("actions", [run.status, run.reason, run.nodes], () => this.act(run));
    this.once("facts", [run.workflow, run.tags, run.requested_ms, run.ended_ms], () => {
      const fork = run.forked_from
        ? [", forked from ", el("a", { href: `#/runs/${encodeURIComponent(run.forked_from)}` }, run.forked_from)] : [];
      this.took = el("span");
      this.facts.replaceChildren(
        el("a", { href: `#/workflows/${encodeURIComponent(run.workflow)}` }, run.workflow), ", requested ",
        moment(run.requested_ms), this.took, ...fork,
        ...run.tags.map((tag) => el("span", { class: "tag" }, tag)));
      this.facts.title = `Requested ${exactly(run.requested_ms)}`;
    });
    this.tick();
  }

  /** Cards that stay are left alone, with what somebody is writing there. */
  askPeople(run) {
    const cards = waiting(run, () => this.decided());
    const had = this.people.node.contains(document.activeElement);
    for (const [id, card] of this.cards) if (!cards.has(id)) card.remove();
    for (const [id, make] of cards) {
      if (!this.cards.get(id)?.isConnected) this.cards.set(id, make());
      if (!this.cards.get(id).isConnected) this.people.body.append(this.cards.get(id));
    }
    this.people.node.hidden = !cards.size;
    if (had && !this.people.node.contains(document.activeElement)) this.toHeading();
  }

  act(run) {
    const had = this.buttons.contains(document.activeElement);
    this.buttons.replaceChildren(...actions(run, () => this.decided()));
    if (had) this.toHeading();
  }

  decided() {
    this.done();
    this.toHeading();
  }

  toHeading() {
    const heading = this.node.querySelector("h1");
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }

  tick() {
    const { started_ms: began, ended_ms: over } = this.run;
    const until = over ?? Date.now() + this.behind;
    setText(this.took, began ? `, ${over ? "took" : "for"} ${duration(Math.max(until - began, 0))}` : ", not begun");
    if (!this.spans.over && this.spans.first !== null) this.draw();
  }

  event(event) {
    if (this.spans.last === null || Date.parse(event.time) > Date.now() + this.behind) {
      this.behind = Math.max(Date.parse(event.time) - Date.now(), 0);
    }
    this.spans.take(event);
    this.log.add(event);
    if (CLOSES.has(event.type)) this.output.over(event.data.request_id);
    this.drawing ??= requestAnimationFrame(() => { this.drawing = null; this.draw(); });
  }

  draw() {
    this.bars.show(this.spans, this.run.nodes, Date.now() + this.behind);
  }

  over() {
    connection("ended");
  }

  beginAgain(text) {
    this.spans = new Spans();
    this.version = 0;
    this.log.tell(text);
  }
}

function section(title, name, ...children) {
  const id = freshId(name);
  const body = el("div", {}, children);
  const node = el("section", { "aria-labelledby": id, class: `part ${name}`, hidden: !children.length }, el("h2", { id }, title), body);
  const fill = (...filled) => {
    body.replaceChildren(...filled.filter(Boolean));
    node.hidden = !body.childElementCount;
  };
  return { node, body, fill };
}

function reasons(recovery) {
  if (!recovery.why && !ENDED.has(recovery.status) && recovery.status !== "paused") return [];
  const told = recovery.why ? [el("p", {}, el("strong", {}, "Why: "), recovery.why)] : [];
  const advice = recovery.advice.length
    ? [el("ul", { "aria-label": "What can be done" }, recovery.advice.map((text) => el("li", {}, code(text))))] : [];
  return told.length || advice.length ? [el("div", { class: `why ${recovery.status}` }, told, advice)] : [];
}

/** A text whose `commands` are set as such. */
function code(text) {
  const parts = text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));
  return el("span", {}, parts);
}

function outputOf(run) {
  if (run.status !== "completed") return [];
  return [el("pre", { class: "draft", tabindex: "0", "aria-label": "Output" }, pretty(run.output))];
}
