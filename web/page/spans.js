// A run's events as stretches of time at each node. It draws nothing and asks nobody.

// What begins a stretch and what ends it: the kind, the name of the fact's field that pairs the two,
// and how it came out.
const BEGINS = {
  ModelRequested: ["model", "request_id"],
  ToolStarted: ["tool", "call_id"],
  ToolApprovalRequested: ["person", "call_id"],
  InputRequested: ["person", "request_id"],
  DecisionRequested: ["person", "request_id"],
  SignalAwaited: ["signal", null],
  OutputRepairRequested: ["overseer", "invocation"],
  RepairRoundStarted: ["round", null],
  TimerSet: ["wait", null],
  NodePaused: ["pause", null],
};
const ENDS = {
  ModelAnswered: ["model", "request_id", "ok"],
  ModelFailed: ["model", "request_id", "bad"],
  ModelInterrupted: ["model", "request_id", "lost"],
  ToolSucceeded: ["tool", "call_id", "ok"],
  ToolFailed: ["tool", "call_id", "bad"],
  ToolOutcomeUnknown: ["tool", "call_id", "lost"],
  ToolApproved: ["person", "call_id", "ok"],
  ToolDenied: ["person", "call_id", "ok"],
  InputProvided: ["person", "request_id", "ok"],
  DecisionMade: ["person", "request_id", "ok"],
  OutputRepairSucceeded: ["overseer", "invocation", "ok"],
  OutputRepairFailed: ["overseer", "invocation", "bad"],
  RepairRoundCompleted: ["round", null, "ok"],
  TimerFired: ["wait", null, "ok"],
  SignalTimedOut: ["signal", null, "lost"],
  NodeCompleted: ["signal", null, "ok"],
};
const NODE_ENDS = { NodeCompleted: "ok", NodeFailed: "bad", NodeCancelled: "lost", NodeSkipped: "ok" };
const RUN_ENDS = new Set(["RunCompleted", "RunFailed", "RunCancelled"]);
const STAYS_PAUSED = new Set(["NodePaused", "ToolReceiptArrived"]);
const SAID = {
  model: (data) => `model ${data.model}, turn ${data.turn}`,
  tool: (data) => `tool ${data.call_id}`,
  person: () => "waits for a person",
  signal: (data) => `waits for the signal ${data.name}`,
  overseer: () => "the overseer repairs an output",
  round: (data) => `round ${data.iteration} at level ${data.level}`,
  wait: (data) => `waits before ${data.purpose}`,
  pause: (data) => `paused: ${data.reason}`,
};

/** Stretches by node, from events given one after the other in their order. */
export class Spans {
  constructor() {
    /** by node: its stretches, `{kind, said, from, to, how}`; `to` is null while it lasts */
    this.nodes = new Map();
    this.first = this.last = null;
    this.over = false;
    this.open = new Map();
  }

  /** Take one event, as `mulligan tail` prints it. */
  take(event) {
    const at = Date.parse(event.time);
    this.first ??= at;
    this.last = Math.max(this.last ?? at, at);
    if (RUN_ENDS.has(event.type)) this.end(at);
    const { node, type, data } = event;
    if (!node) return;
    if (!STAYS_PAUSED.has(type)) this.close(node, "pause", null, at, "ok");
    if (type === "NodeStarted") this.begin(node, "node", null, at, "works");
    if (type in ENDS) {
      const [kind, field, how] = ENDS[type];
      this.close(node, kind, field && data[field], at, how);
    }
    if (type in BEGINS) {
      const [kind, field] = BEGINS[type];
      this.begin(node, kind, field && data[field], at, SAID[kind](data));
    }
    if (type in NODE_ENDS) this.endNode(node, at, NODE_ENDS[type]);
  }

  begin(node, kind, name, at, said) {
    this.close(node, kind, name, at, "lost");
    const span = { kind, said, from: at, to: null, how: "open" };
    if (!this.nodes.has(node)) this.nodes.set(node, []);
    this.nodes.get(node).push(span);
    this.open.set(JSON.stringify([node, kind, name]), span);
  }

  close(node, kind, name, at, how) {
    const key = JSON.stringify([node, kind, name]);
    const span = this.open.get(key);
    if (!span) return;
    this.open.delete(key);
    Object.assign(span, { to: at, how });
  }

  endNode(node, at, how) {
    for (const key of [...this.open.keys()]) {
      const [of, kind, name] = JSON.parse(key);
      if (of === node) this.close(of, kind, name, at, kind === "node" ? how : "lost");
    }
  }

  end(at) {
    this.over = true;
    for (const key of [...this.open.keys()]) this.close(...JSON.parse(key), at, "lost");
  }
}

const QUIET = new Set(["pause", "person", "signal", "wait", "node"]);
const GAP_SHARE = 0.06;

/**
 * A scale from moments to percent on which long stretches without work are narrow: `at(ms)`, and the
 * `gaps` that were made so, `{from, to}`.
 */
export function scaleOf(spans, now) {
  const begin = spans.first ?? now;
  const end = Math.max(spans.over ? spans.last : now, begin + 1);
  const gaps = gapsOf(busyIn(spans, end), begin, end);
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const busy = Math.max(end - begin - idle, 1);
  const perGap = gaps.length ? Math.min(GAP_SHARE, 0.5 / gaps.length) : 0;
  const perMs = (1 - perGap * gaps.length) / busy;
  return { gaps, at: (ms) => 100 * positionOf(ms, begin, gaps, perMs, perGap) };
}

function busyIn(spans, end) {
  return [...spans.nodes.values()].flat()
    .filter((span) => !QUIET.has(span.kind))
    .map((span) => [span.from, span.to ?? end])
    .concat([...spans.nodes.values()].flat().flatMap(edges))
    .sort((one, other) => one[0] - other[0]);
}

/** Of what is quiet only its two ends count as work. */
function edges(span) {
  return [[span.from, span.from], ...(span.to === null ? [] : [[span.to, span.to]])];
}

function gapsOf(busy, begin, end) {
  const work = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  const long = Math.max(2_000, work / 4);
  const gaps = [];
  let reached = begin;
  for (const [from, to] of [...busy, [end, end]]) {
    if (from - reached > long) gaps.push({ from: reached, to: from });
    reached = Math.max(reached, to);
  }
  return gaps;
}

function positionOf(ms, begin, gaps, perMs, perGap) {
  let position = 0;
  let reached = begin;
  for (const gap of gaps) {
    if (ms <= gap.from) break;
    position += (gap.from - reached) * perMs;
    position += perGap * Math.min((ms - gap.from) / (gap.to - gap.from), 1);
    reached = Math.min(gap.to, ms);
  }
  return position + Math.max(Math.min(ms, Infinity) - reached, 0) * perMs;
}
