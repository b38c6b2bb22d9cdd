// The page's frame: which view is shown, and sign-in where a token is asked for.

import { ApiError, get, remove } from "./api.js";
import { announce, el } from "./dom.js";
import { connection } from "./live.js";
import { newRunView } from "./new_run.js";
import { listView } from "./run_list.js";
import { runView } from "./run.js";
import { schedulesView } from "./schedules.js";
import { signInView } from "./sign_in.js";
import { workflowsView } from "./workflows.js";

const content = document.getElementById("content");
const signOut = document.getElementById("sign-out");
let leave = () => {};
let shown = 0;

/** `#/runs/ID?a=b` as a name, parts and a query. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function viewOf({ parts, query }) {
  const [name, one] = parts;
  if (name === undefined) return ["list", "Runs", () => listView(query)];
  if (name === "new") return ["new", "New run", () => newRunView(query)];
  if (name === "workflows") return ["workflows", "Workflows", () => workflowsView(one)];
  if (name === "schedules") return ["schedules", one ?? "Schedules", () => schedulesView(one)];
  if (name === "runs" && one !== undefined) return ["run", `Run ${one}`, () => runView(one)];
  return ["", "Nothing here", async () => ({ node: problem("Nothing is shown at this address.") })];
}

/** Shows what the address names. A view is `{node, leave}`, loaded before it takes the other's place. */
async function show(first = false) {
  const [name, title, make] = viewOf(route());
  const number = (shown += 1);
  leave();
  leave = () => {};
  connection("");
  document.title = `${title} · mulligan`;
  for (const link of document.querySelectorAll("[data-route]")) {
    if (link.dataset.route === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  let view;
  try {
    view = await make();
  } catch (error) {
    view = await instead(error);
  }
  if (number !== shown) {
    view.leave?.();
    return;
  }
  leave = view.leave ?? leave;
  content.replaceChildren(view.node);
  if (!first) toHeading();
}

function toHeading() {
  const heading = content.querySelector("h1") ?? content;
  heading.tabIndex = -1;
  heading.focus();
  scrollTo(0, 0);
}

async function instead(error) {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) return signInView(() => show());
  return { node: problem(error.message, () => show()) };
}

function problem(text, again = null) {
  return el(
    "section", { class: "narrow" },
    el("h1", {}, "This can't be shown"),
    el("p", { role: "alert" }, text),
    again && el("button", { type: "button", onclick: again }, "Try again"),
    el("p", {}, el("a", { href: "#/" }, "All runs")),
  );
}

/** Who signed out elsewhere, or whose token was taken back, is asked for one again. */
window.addEventListener("signed-out", () => show());
window.addEventListener("hashchange", () => show());

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the view's
  content.focus();
});

signOut.addEventListener("click", async () => {
  await remove("/session");
  signOut.hidden = true;
  announce("Signed out");
  show();
});

window.addEventListener("signed-in", () => (signOut.hidden = false));
show(true);
const session = await get("/session").catch(() => null);
signOut.hidden = !(session?.needs_token && session.signed_in);
