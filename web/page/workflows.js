// The workflows that may be asked for.

import { get } from "./api.js";
import { el } from "./dom.js";
import { settingsPanel } from "./settings.js";
import { pretty } from "./words.js";

/** All of them, or the one that is named, with its settings. */
export async function workflowsView(name) {
  const { workflows } = await get("/workflows");
  const shown = name === undefined ? workflows : workflows.filter((one) => one.name === name);
  const node = el("section", { class: "narrow" },
    el("h1", {}, name === undefined ? "Workflows" : name),
    name === undefined ? null : el("p", { class: "crumbs" }, el("a", { href: "#/workflows" }, "All workflows")),
    shown.length ? shown.map((one) => workflow(one, name !== undefined)) : el("p", {}, "It may not be asked for at this server."));
  if (name !== undefined && shown.length) await addSettings(node, name);
  return { node };
}

async function addSettings(node, name) {
  const panel = await settingsPanel(name, async () => {
    node.lastChild.remove();
    await addSettings(node, name);
    node.lastChild.querySelector("input").focus();
  });
  node.append(panel);
}

function workflow(one, alone) {
  const path = encodeURIComponent(one.name);
  return el("article", { class: "card" },
    alone ? null : el("h2", {}, el("a", { href: `#/workflows/${path}` }, one.name)),
    el("p", { class: "quiet" }, `version ${one.version}, nodes: ${one.nodes.join(", ")}`),
    alone && one.input_schema ? el("details", {}, el("summary", {}, "What its input has to be"), el("pre", {}, pretty(one.input_schema))) : null,
    el("div", { class: "buttons" },
      el("a", { class: "button", href: `#/new?workflow=${path}` }, "New run"),
      el("a", { class: "button plain", href: `#/?workflow=${path}` }, "Its runs")));
}
