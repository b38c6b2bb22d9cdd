// A run's timeline: a bar for each node, and below what happened there, step by step.

import { el, place, setText } from "./dom.js";
import { scaleOf } from "./spans.js";
import { badge, duration } from "./words.js";

const MOST_BARS = 200;
const OPENED = 8;
const MOST_STEPS = 2_000;
const KINDS = [
  [/^(RunPaused|NodePaused|Input|ToolApproval|ToolApproved|ToolDenied|Decision|EffectReconciled|RunResumed)/, "person"],
  [/^Model|^HistoryCompacted/, "model"],
  [/^OutputRepair/, "overseer"],
  [/^Output/, "output"],
  [/^Tool/, "tool"],
  [/^Allowance/, "retry"],
  [/^(Repair|Quality|Review|HandedOver)/, "repair"],
  [/^(Subagent|Decomposition|Join)/, "agent"],
  [/^(Timer|Slot|Signal)/, "wait"],
  [/^Node/, "node"],
];
const LEGEND = [["model", "model"], ["tool", "tool"], ["overseer", "overseer"], ["round", "repair round"],
  ["person", "waits for a person"], ["wait", "waits"], ["pause", "paused"]];

/** The bars. */
export class Bars {
  constructor() {
    this.rows = el("div", { class: "bars" });
    this.scale = el("div", { class: "scale" });
    this.note = el("p", { class: "hint" });
    this.node = el("div", { "aria-hidden": "true" }, this.rows, this.scale, legend(), this.note);
  }

  /** Draws the stretches as of now (server milliseconds, as far as they are known). */
  show(spans, nodes, now) {
    const scale = scaleOf(spans, now);
    const names = [...spans.nodes.keys()].filter((name) => name in nodes);
    const shown = names.slice(0, MOST_BARS);
    this.rows.replaceChildren(...shown.map((name) => row(name, nodes[name], spans.nodes.get(name), scale, now)));
    this.scale.replaceChildren(...scale.gaps.map((gap) => gapMark(gap, scale)));
    setText(this.note, names.length > MOST_BARS ? `${names.length - MOST_BARS} more nodes are not drawn.` : "");
    this.node.hidden = !shown.length;
  }
}

function row(name, node, spans, scale, now) {
  const track = el("div", { class: "track" }, scale.gaps.map((gap) => gapBand(gap, scale)),
    spans.map((span) => bar(span, scale, now)));
  return el("div", { class: "bar-row" },
    el("span", { class: `bar-name ${node.status}`, title: name }, name), track);
}

function bar(span, scale, now) {
  const to = span.to ?? now;
  const left = scale.at(span.from);
  const made = el("div", {
    class: `bar ${span.kind} ${span.how}`,
    title: `${span.said}, ${duration(to - span.from)}${span.how === "bad" ? ", failed" : ""}`,
  });
  return place(place(made, "left", left), "width", Math.max(scale.at(to) - left, 0.25));
}

function gapBand(gap, scale) {
  const left = scale.at(gap.from);
  const made = el("div", { class: "gap", title: `${duration(gap.to - gap.from)} without work` });
  return place(place(made, "left", left), "width", scale.at(gap.to) - left);
}

function gapMark(gap, scale) {
  const made = el("span", {}, duration(gap.to - gap.from));
  return place(made, "left", (scale.at(gap.from) + scale.at(gap.to)) / 2);
}

function legend() {
  return el("p", { class: "legend" },
    LEGEND.map(([kind, said]) => el("span", {}, el("i", { class: `bar ${kind}` }), said)));
}

/** The steps, by node; what was shown stays, and new steps come after it. */
export class Steps {
  constructor() {
    this.groups = new Map();
    this.node = el("div", { class: "steps" });
  }

  show(trace, nodes) {
    for (const step of trace.steps) this.group(step.node ?? "").add(step);
    for (const [name, group] of this.groups) group.tell(nodes[name]);
  }

  group(name) {
    if (!this.groups.has(name)) {
      const group = new Group(name, this.groups.size < OPENED);
      this.groups.set(name, group);
      this.node.append(group.node);
    }
    return this.groups.get(name);
  }
}

class Group {
  constructor(name, opened) {
    this.name = name;
    this.seen = 0;
    this.steps = [];
    this.shown = 0;
    this.attempts = new Map();
    this.state = el("span");
    this.count = el("span", { class: "hint" });
    this.list = el("ol", { "aria-label": name ? `Steps of ${name}` : "Steps of the run" });
    this.node = el("details", { class: "group", open: opened, ontoggle: () => this.render() },
      el("summary", {}, el("strong", {}, name || "the run"), this.state, this.count), this.list);
  }

  add(step) {
    if (step.version <= this.seen) return;
    this.seen = step.version;
    this.steps.push(step);
  }

  tell(node) {
    const attempt = node?.attempt > 1 ? `attempt ${node.attempt}, ` : "";
    const lane = node?.lane ? `, waits for a slot of ${node.lane}` : "";
    setText(this.count, `${attempt}${this.steps.length} step${this.steps.length === 1 ? "" : "s"}${lane}`);
    const known = node ? `${node.status} ${node.reason}` : "";
    if (this.known === undefined && /^(paused|failed|running|retrying)/.test(known)) this.node.open = true;
    if (this.known !== known) this.state.replaceChildren(...(node ? [badge(node.status, node.reason)] : []));
    this.known = known;
    this.render();
  }

  render() {
    if (!this.node.open) return;
    for (const step of this.steps.slice(this.shown, MOST_STEPS)) this.line(step);
    if (this.steps.length > MOST_STEPS && this.shown < MOST_STEPS) {
      this.list.append(el("li", { class: "hint" }, "More steps than are shown here: mulligan trace has them all."));
    }
    this.shown = Math.min(this.steps.length, MOST_STEPS);
  }

  /** Says where an attempt begins that is not the first: of the node's own agent, or of one that it called. */
  head(step) {
    const who = step.invocation ?? this.name;
    if (step.attempt <= (this.attempts.get(who) ?? 1)) return;
    this.attempts.set(who, step.attempt);
    const of = who === this.name ? "" : ` of ${who}`;
    this.list.append(el("li", { class: "attempt" }, `Attempt ${step.attempt}${of}`));
  }

  line(step) {
    if (step.attempt && (step.invocation || step.type.startsWith("Node"))) this.head(step);
    this.list.append(el("li", { class: tone(step.type) },
      el("span", { class: "at" }, `+${duration(step.at_ms)}`),
      el("span", { class: `kind ${kindOf(step.type)}` }, kindOf(step.type)),
      el("span", { class: "text" }, step.text)));
  }
}

function kindOf(type) {
  return KINDS.find(([pattern]) => pattern.test(type))?.[1] ?? "run";
}

function tone(type) {
  return /Failed|Rejected|Unknown|Interrupted|Exhausted/.test(type) ? "bad" : /Completed|Accepted$/.test(type) ? "good" : "";
}
