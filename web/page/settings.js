// The settings panel of a workflow: what runs begin with that are asked for from now on.

import { get, put } from "./api.js";
import { Unusable, ask } from "./ask.js";
import { el, freshId, labelled } from "./dom.js";
import { spelled } from "./words.js";

// How a field is called, where its value lies in the settings, and what it means.
const FIELDS = [
  ["Overseer's model", ["outputRepairModel"], "text",
    "outputRepairModel: repairs malformed outputs. Blank: the model that made them."],
  ["Recovery limit", ["recovery_limit"], "number",
    "Extra attempts of an agent, whatever went wrong; 0 switches automatic recovery off. Agents that name their own keep it."],
  ["Wait before a retry", ["retry", "backoff"], "text",
    "Doubles from one retry to the next: 500ms, 30s, 10m, 2h."],
  ["Longest wait before a retry", ["retry", "backoff_max"], "text", ""],
  ["Model", ["model"], "text", "Agents that name their own keep it."],
];

/** The panel; `saved` is called once something was changed. */
export async function settingsPanel(workflow, saved) {
  const path = `/workflows/${encodeURIComponent(workflow)}/settings`;
  const known = await get(path);
  const fields = FIELDS.map((field) => control(field, known));
  const changed = Object.keys(known.changed);

  const save = (event) => {
    event.preventDefault();
    const edits = fields.filter((field) => field.value() !== field.before);
    ask({
      title: edits.length ? `Change the settings of ${workflow}?` : "Nothing is changed",
      tells: edits.length
        ? [el("ul", {}, edits.map((field) => el("li", {}, `${field.name}: ${said(field.before)} → ${said(field.value())}`))),
          "Runs that are asked for from now on begin with this, whoever asks for them. Runs under way keep what they began with."]
        : ["Every setting is as it was."],
      act: "Save", named: false,
      send: async () => {
        await put(path, bodyOf(known, edits));
        return "Settings are saved";
      },
      done: saved,
    });
  };
  const reset = () => ask({
    title: `Take back all changes of ${workflow}?`,
    tells: [`Runs that are asked for from now on begin with what the workflow itself says. Changed were: ${changed.join(", ")}.`],
    act: "Take them back", named: false,
    send: async () => {
      await put(path, {});
      return "Settings are those of the workflow";
    },
    done: saved,
  });

  const heading = freshId("settings");
  return el("form", { onsubmit: save, class: "part", "aria-labelledby": heading },
    el("h2", { id: heading }, "Workflow settings"),
    el("p", { class: "quiet" }, changed.length ? `Changed here: ${changed.join(", ")}.` : "As the workflow itself has them."),
    fields.map((field) => field.node),
    el("div", { class: "buttons" }, el("button", { class: "primary" }, "Save …"),
      changed.length ? el("button", { type: "button", onclick: reset }, "Take back all changes …") : null));
}

function control([name, path, type, hint], known) {
  const before = spelled(String(at(known.settings, path) ?? ""));
  const input = el("input", { type, value: before, ...(type === "number" ? { min: 0, max: 1000, required: true } : { maxlength: 200 }) });
  return { name, path, type, before, node: labelled(name, input, hint), value: () => input.value.trim() };
}

function at(settings, path) {
  return path.reduce((inside, part) => inside?.[part], settings);
}

function said(value) {
  return value === "" ? "(blank)" : value;
}

/** What to put: the changes of before with the edits. A policy is put whole; a blank model is the workflow's own. */
function bodyOf(known, edits) {
  if (!edits.length) throw new Unusable("Change a setting first.");
  const body = structuredClone(known.changed);
  for (const { path: [name, inside], type, value } of edits) {
    if (inside) body[name] = { ...(body[name] ?? known.settings[name]), [inside]: value() };
    else if (name === "model" && value() === "") delete body[name];
    else body[name] = type === "number" ? Number(value()) : value();
  }
  return body;
}
