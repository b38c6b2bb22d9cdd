// A token, given once for a cookie that no script can read.

import { post } from "./api.js";
import { announce, el, labelled } from "./dom.js";

/** Asks for a token; `entered` is called once it is known to be one. */
export function signInView(entered) {
  const token = el("input", {
    type: "password", name: "token", autocomplete: "current-password", required: true, maxlength: 512,
  });
  const alert = el("p", { role: "alert", class: "problem" });
  async function send(event) {
    event.preventDefault();
    alert.textContent = "";
    try {
      await post("/session", { token: token.value });
    } catch (error) {
      alert.textContent = error.message;
      token.focus();
      return;
    }
    announce("Signed in");
    window.dispatchEvent(new Event("signed-in"));
    entered();
  }
  const node = el(
    "form", { class: "narrow", onsubmit: send, "aria-labelledby": "sign-in" },
    el("h1", { id: "sign-in" }, "Sign in"),
    labelled("Token", token, "One of MULLIGAN_HTTP_TOKENS; whoever runs the server has it."),
    alert,
    el("button", { class: "primary" }, "Sign in"),
  );
  return { node };
}
