// What a person can do to a run: each decision, with what comes of it.

import { post, runPath } from "./api.js";
import { Unusable, ask } from "./ask.js";
import { el, freshId, labelled } from "./dom.js";
import { parsed } from "./new_run.js";
import { exactly, plain, pretty, score } from "./words.js";

const FRESH = new Set(["exhausted", "operator", "context_exceeded"]);

/** What waits for a person, by its id: what makes its card. `done` is called once it was decided. */
export function waiting(run, done) {
  return new Map([
    ...run.waits_for.map((one) => [one.id, () => ASKED[one.kind](run, one, done)]),
    ...run.unsettled.map((one) => [`effect of ${one.call}`, () => effect(run, one, done)]),
    ...run.decisions.map((one) => [one.id, () => draft(run, one, done)]),
  ]);
}

/** The buttons of what can be done to the run as a whole. */
export function actions(run, done) {
  const reasons = new Set([run.reason, ...Object.values(run.nodes).map((node) => node.status === "paused" && node.reason)]);
  const buttons = [];
  if (run.status !== "cancelling" && [...reasons].some((reason) => FRESH.has(reason))) {
    buttons.push(opener("Resume …", () => resume(run, done), "primary"));
  }
  if (reasons.has("parked")) buttons.push(opener("Redrive …", () => redrive(run, done), "primary"));
  if (["queued", "running", "paused"].includes(run.status)) buttons.push(opener("Cancel run …", () => cancel(run, done)));
  return buttons;
}

function opener(text, open, kind = "") {
  return el("button", { type: "button", class: kind, onclick: open }, text);
}

function card(title, ...children) {
  const id = freshId("card");
  return el("article", { class: "card", "aria-labelledby": id }, el("h3", { id }, title), children);
}

function who(one) {
  return one.agent ? `${one.agent}, called at ${one.node},` : one.node;
}

// --- What agents ask -----------------------------------------------------------------------------

function question(run, one, done) {
  const fields = one.questions?.length ? one.questions.map(choices) : [freely(one)];
  const answer = () => (one.questions?.length
    ? Object.fromEntries(fields.map((field) => [field.id, field.value()]))
    : fields[0].value());
  const open = (event) => {
    event.preventDefault();
    const given = answer();
    const said = typeof given === "string" ? given : Object.entries(given).map(([id, value]) => `${id}: ${value.option ?? value}`).join("\n");
    ask({
      title: `Answer ${one.node}?`,
      tells: [
        "The agent reads this as your answer, and goes on. The first answer counts: it can't be changed afterwards.",
        el("pre", {}, said),
      ],
      act: "Answer",
      send: async (by) => {
        const told = await post(runPath(run.run, "answer"), { answer: given, request: one.id, by });
        return told.changed ? "Answered" : "It was answered so before";
      },
      done,
    });
  };
  return card(`${who(one)} asks`,
    one.message ? el("p", { class: "said" }, one.message) : null,
    el("form", { onsubmit: open }, fields.map((field) => field.node), el("button", { class: "primary" }, "Answer …")));
}

function freely(one) {
  const area = el("textarea", { rows: 3, required: true, maxlength: 100_000 });
  return { id: one.id, node: labelled("Your answer", area), value: () => area.value };
}

function choices(one) {
  const name = freshId("choice");
  const other = el("input", { class: "other", "aria-label": `Another answer to: ${one.question}` });
  const own = el("input", { type: "radio", name, value: "", required: true });
  other.addEventListener("input", () => (own.checked = true));
  const options = one.options.map((option) => {
    const radio = el("input", { type: "radio", name, required: true });
    radio.option = option.label;
    return el("label", { class: "choice" }, radio,
      el("span", {}, option.label, option.description ? el("span", { class: "hint" }, ` ${option.description}`) : null));
  });
  const node = el("fieldset", {}, el("legend", {}, one.question), options,
    el("label", { class: "choice" }, own, el("span", {}, "Something else:")), other);
  const value = () => {
    const chosen = node.querySelector("input[type=radio]:checked");
    return chosen === own || chosen === null ? other.value : { option: chosen.option };
  };
  return { id: one.id, node, value };
}

function approval(run, one, done) {
  const decided = (path, body) => async (by) => {
    const told = await post(runPath(run.run, path), { call: one.id, by, ...body() });
    return told.changed ? `${one.tool}: ${told.decision}` : `It was ${told.decision} before`;
  };
  const reason = el("textarea", { rows: 2, maxlength: 2_000 });
  const effect = one.effect === "write" ? "What it does can't be taken back by mulligan." : `Its effect is ${one.effect}.`;
  return card(`${who(one)} wants to call ${one.tool}`,
    el("p", { class: "hint" }, `Call ${one.id}, effect ${one.effect}, with:`),
    el("pre", {}, pretty(one.arguments?.value ?? null)),
    el("div", { class: "buttons" },
      opener("Approve …", () => ask({
        title: `Approve ${one.tool}?`,
        tells: [`The call ${one.id} is run once, with the arguments below, and the agent goes on with its result. ${effect}`,
          el("pre", {}, pretty(one.arguments?.value ?? null))],
        act: "Approve", send: decided("approve", () => ({})), done,
      }), "primary"),
      opener("Deny …", () => ask({
        title: `Deny ${one.tool}?`,
        tells: [`The call ${one.id} is not run. The agent is told so, with the reason that you give, and goes on without it.`],
        fields: [labelled("Reason", reason, "The model reads it.")],
        act: "Deny", send: decided("deny", () => ({ reason: reason.value })), done,
      }))));
}

// --- What is waited for from outside ---------------------------------------------------------------

function signal(run, one, done) {
  const data = el("textarea", { rows: 3, class: "code", spellcheck: "false", oninput: () => data.setCustomValidity("") });
  const open = (event) => {
    event.preventDefault();
    const { value, problem } = parsed(data.value);
    data.setCustomValidity(problem ?? "");
    if (!data.reportValidity()) return;
    const key = crypto.randomUUID();
    ask({
      title: `Send ${one.signal}?`,
      tells: ["It stands in the log like any other signal of that name. The node that waits longest for it ends with these data.",
        el("pre", {}, pretty(value))],
      act: "Send",
      send: async (by) => {
        await post(runPath(run.run, "signals"), { name: one.signal, data: value, key, by });
        return `Signal ${one.signal} sent`;
      },
      done,
    });
  };
  return card(`${one.node} waits for the signal ${one.signal}`,
    one.until_ms ? el("p", {}, `Until ${exactly(one.until_ms)}.`) : null,
    one.data_schema ? el("details", {}, el("summary", {}, "What its data have to be"), el("pre", {}, pretty(one.data_schema))) : null,
    el("form", { onsubmit: open }, labelled("Data (JSON)", data, "Empty is null."), el("button", {}, "Send it …")));
}

const ASKED = { input: question, approval, signal };

// --- What only a person can know -------------------------------------------------------------------

function effect(run, one, done) {
  const isNode = one.call === one.node;
  const open = (title, outcome, tells, act, field = null) => () => ask({
    title, tells, act, danger: outcome === "retry", fields: field ? [field.node] : [],
    send: async (by) => {
      const result = field ? field.value() : null;
      await post(runPath(run.run, "reconcile"), { call: one.call, outcome, by, result });
      return `${one.call}: reconciled as ${outcome}`;
    },
    done,
  });
  const goesOn = isNode ? "the node ends with" : "the agent is told, and goes on with";
  return card(`Did ${one.tool} take effect?`,
    el("p", {}, `${one.call} was started, and its worker was lost before it could say what came of it. Look there first: mulligan does not repeat it on its own.`),
    one.arguments ? el("pre", {}, pretty(one.arguments.value ?? null)) : null,
    el("div", { class: "buttons" },
      opener("It succeeded …", open("It took effect?", "succeeded",
        [`${one.call} counts as done and is never run again; ${goesOn} the result that you give.`],
        "It succeeded", resultField(isNode))),
      opener("It failed …", open("It did not take effect?", "failed",
        [isNode ? `The node ${one.call} fails, and with it the run.` : `${one.call} counts as failed and is not run again; the agent is told so, and may call it anew.`],
        "It failed")),
      opener("Try it again …", open("Run it again?", "retry",
        [`${one.call} is run once more. If it had taken effect after all, it takes effect twice.`],
        "Run it again"))));
}

function resultField(isNode) {
  const area = el("textarea", { rows: 3, class: "code", spellcheck: "false" });
  const node = labelled("Result", area, `JSON, as ${isNode ? "the function" : "the tool"} would have returned it; empty is null.`);
  return { node, value: () => json(area.value) };
}

function json(text) {
  const { value, problem } = parsed(text);
  if (problem) throw new Unusable(problem);
  return value;
}

function draft(run, one, done) {
  const best = one.draft.value;
  const isText = typeof best === "string";
  const area = el("textarea", { rows: 14, class: isText ? "" : "code" });
  const decided = (decision, body = () => ({})) => async (by) => {
    await post(runPath(run.run, "decide"), { decision, node: one.node, by, ...body() });
    return `Decided: ${plain(decision)}`;
  };
  return card(`${one.node}: the draft did not pass`,
    el("p", {}, `Its best draft reached ${score(one.score)} of 100 in ${one.rounds} round${one.rounds === 1 ? "" : "s"}. What becomes of it?`),
    el("details", {}, el("summary", {}, "The draft"), el("pre", { class: "draft" }, pretty(best))),
    el("div", { class: "buttons" },
      opener("Accept …", () => ask({
        title: `Accept the draft of ${one.node}?`,
        tells: [`The draft of score ${score(one.score)} is handed on as it is, though its gates did not pass it, and the run goes on.`],
        act: "Accept", send: decided("accept"), done,
      }), "primary"),
      opener("Take over …", () => {
        area.value = pretty(best);
        ask({
          title: `Take over ${one.node}?`,
          tells: ["The draft below is put in the place of the loop's own. Its gates judge it like any other. It is not repaired: if it does not pass, you are asked again."],
          fields: [labelled("Your draft", area, isText ? "" : "JSON.")],
          act: "Hand it in", send: decided("take_over", () => ({ draft: isText ? area.value : json(area.value) })), done,
        });
      }),
      opener("Abort …", () => ask({
        title: `Abort ${one.node}?`,
        tells: ["The node fails, and with it the run: no draft is handed on, and nothing new is started. The drafts stay in the log. It can't be taken back."],
        act: "Abort", danger: true, send: decided("abort"), done,
      }))));
}

// --- The run as a whole ----------------------------------------------------------------------------

function resume(run, done) {
  const paused = Object.entries(run.nodes).filter(([, node]) => node.status === "paused" && FRESH.has(node.reason));
  const node = el("select", {}, el("option", { value: "" }, "all that is paused"),
    paused.map(([name]) => el("option", {}, name)));
  ask({
    title: `Resume ${run.run}?`,
    tells: ["Paused agents go on with a fresh allowance, where they stopped. What has a result is not done again; new requests to models cost what they cost."],
    fields: paused.length > 1 ? [labelled("What goes on", node)] : [],
    act: "Resume", named: false,
    send: async () => {
      await post(runPath(run.run, "resume"), { node: node.value || null });
      return "Resumed";
    },
    done,
  });
}

function redrive(run, done) {
  ask({
    title: `Redrive ${run.run}?`,
    tells: ["It is parked, because it kept ending its workers or none of them had its code. A redrive wakes it; if the reason was not seen to, it will be parked again."],
    act: "Redrive", named: false,
    send: async () => {
      await post(runPath(run.run, "redrive"));
      return "Woken";
    },
    done,
  });
}

function cancel(run, done) {
  const reason = el("textarea", { rows: 2, maxlength: 2_000 });
  ask({
    title: `Cancel ${run.run}?`,
    tells: ["Nothing new is started, requests to models are broken off, and tools that run are awaited. Then the run has ended for good: it can't be resumed."],
    fields: [labelled("Reason", reason, "Stands in the log.")],
    act: "Cancel the run", danger: true, named: false,
    send: async () => {
      const told = await post(runPath(run.run, "cancel"), { reason: reason.value });
      return told.changed ? "Cancellation asked for" : "It had ended, or was asked to before";
    },
    done,
  });
}
