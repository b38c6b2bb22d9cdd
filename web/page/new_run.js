// Asking for a run.

import { ApiError, get, post } from "./api.js";
import { announce, el, freshId, labelled } from "./dom.js";
import { pretty } from "./words.js";

/** The view; `query` may name the workflow. */
export async function newRunView(query) {
  const { workflows } = await get("/workflows");
  const chosen = query.get("workflow");
  const workflow = el("select", { name: "workflow", required: true },
    workflows.map(({ name }) => el("option", { selected: name === chosen }, name)));
  const input = el("textarea", { name: "input", rows: 8, spellcheck: "false", class: "code" });
  const runId = el("input", { name: "run_id", autocomplete: "off" });
  const tags = el("input", { name: "tags", autocomplete: "off" });
  const model = el("input", { name: "model", autocomplete: "off" });
  const alert = el("p", { role: "alert", class: "problem" });
  const schema = el("pre");
  const wants = el("details", {}, el("summary", {}, "What its input has to be"), schema);
  const settings = el("a", {}, "Settings of this workflow");
  const send = el("button", { class: "primary" }, "Ask for the run");

  function choose() {
    const found = workflows.find(({ name }) => name === workflow.value);
    settings.href = `#/workflows/${encodeURIComponent(workflow.value)}`;
    wants.hidden = !found?.input_schema;
    if (found?.input_schema) schema.textContent = pretty(found.input_schema);
    if (found && !input.dataset.touched) input.value = skeleton(found.input_schema);
  }
  input.addEventListener("input", () => (input.dataset.touched = "yes"));
  workflow.addEventListener("change", choose);
  choose();

  async function submit(event) {
    event.preventDefault();
    alert.textContent = "";
    const given = parsed(input.value);
    if (given.problem) {
      alert.textContent = given.problem;
      input.focus();
      return;
    }
    send.disabled = true;
    try {
      const { run } = await post("/runs", body(workflow, given.value, runId, tags, model));
      announce(`Asked for ${run}`);
      location.hash = `#/runs/${encodeURIComponent(run)}`;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      alert.textContent = error.message;
    } finally {
      send.disabled = false;
    }
  }

  const heading = freshId("new-run");
  const node = el(
    "form", { class: "narrow", onsubmit: submit, "aria-labelledby": heading },
    el("h1", { id: heading }, "New run"),
    labelled("Workflow", workflow, "Those that ship, and those that the server was started with."),
    labelled("Input", input, "JSON; empty for none."),
    wants,
    el("details", {}, el("summary", {}, "Run id, tags, model"),
      labelled("Run id", runId, "Asking again with the same id and input is the same run."),
      labelled("Tags", tags, "Between commas."),
      labelled("Model", model, "In the place of the workflow's.")),
    alert,
    el("p", { class: "hint" }, "Nothing is started here: the run waits in the log for a worker. ", settings, "."),
    send,
  );
  return { node };
}

function body(workflow, input, runId, tags, model) {
  const given = { workflow: workflow.value, input };
  if (runId.value.trim()) given.run_id = runId.value.trim();
  if (model.value.trim()) given.model = model.value.trim();
  given.tags = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
  return given;
}

/** The value of a JSON text, or what is wrong with it; nothing is null. */
export function parsed(text) {
  if (!text.trim()) return { value: null };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: `This is no JSON: ${error.message}` };
  }
}

/** An input to fill in: the properties that a schema requires, each of its kind. */
function skeleton(schema) {
  if (schema?.type !== "object" || !schema.properties) return "";
  const names = schema.required ?? Object.keys(schema.properties);
  const empty = { string: "", number: 0, integer: 0, boolean: false, array: [], object: {} };
  const made = names.map((name) => {
    const one = schema.properties[name] ?? {};
    return [name, one.default ?? one.enum?.[0] ?? empty[one.type] ?? null];
  });
  return JSON.stringify(Object.fromEntries(made), null, 2);
}
