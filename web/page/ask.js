// The one way in which the page does something to a run: it says what will come of it, and asks.

import { ApiError } from "./api.js";
import { announce, el, freshId, labelled } from "./dom.js";

const BY = "mulligan.by";

/**
 * A dialog. `tells` are paragraphs that say what will happen, `fields` what is to be filled in, `act`
 * the button; `send(by)` does it, and returns what is said once it is done.
 */
export function ask({ title, tells, fields = [], act, danger = false, named = true, send, done }) {
  const heading = freshId("ask");
  const alert = el("p", { role: "alert", class: "problem" });
  const by = el("input", { value: localStorage.getItem(BY) ?? "operator", maxlength: 200, required: true });
  const button = el("button", { class: danger ? "danger" : "primary" }, act);
  const told = el("div", { id: `${heading}-told` }, tells.map((text) => (typeof text === "string" ? el("p", {}, text) : text)));

  async function submit(event) {
    event.preventDefault();
    alert.textContent = "";
    button.disabled = true;
    try {
      const said = await send(by.value.trim() || "operator");
      if (named) localStorage.setItem(BY, by.value.trim());
      dialog.close();
      announce(said);
      done();
    } catch (error) {
      if (!(error instanceof ApiError || error instanceof Unusable)) throw error;
      alert.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }

  const dialog = el("dialog", { "aria-labelledby": heading, "aria-describedby": told.id, onclose: () => dialog.remove() },
    el("form", { onsubmit: submit },
      el("h2", { id: heading }, title), told, fields,
      named ? labelled("Your name", by, "Stands in the log beside the decision.") : null,
      alert,
      el("div", { class: "buttons" }, button,
        el("button", { type: "button", onclick: () => dialog.close() }, "Don't"))));
  document.body.append(dialog);
  dialog.showModal();
}

/** What was filled in can't be used; the message says why. */
export class Unusable extends Error {}
