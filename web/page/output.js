// What models say as they say it, and the events as they come.

import { el, setText } from "./dom.js";

const MOST_BLOCKS = 6;
const MOST_CHARACTERS = 20_000;
const MOST_EVENTS = 300;

/** Live output: a block for each response. It may be wrong, and it may count for nothing. */
export class LiveOutput {
  constructor() {
    this.blocks = new Map();
    this.empty = el("p", { class: "quiet" }, "Nothing is being said.");
    this.node = el("div", { class: "live" }, this.empty);
  }

  delta(said) {
    const block = this.block(said);
    if (said.offset > block.seen) block.text += " … ";
    block.text = (block.text + said.text).slice(-MOST_CHARACTERS);
    block.seen = said.offset + said.text.length;
    setText(block.shown, block.text);
  }

  void(said) {
    for (const block of this.blocks.values()) {
      if (block.request !== said.request_id) continue;
      block.node.classList.add("void");
      const next = said.next_attempt ? `; attempt ${said.next_attempt} takes its place` : "";
      setText(block.state, `counts for nothing: ${said.reason}${next}`);
    }
  }

  /** A response is over. */
  over(request) {
    for (const block of this.blocks.values()) {
      if (block.request === request && !block.node.classList.contains("void")) setText(block.state, "said");
    }
  }

  block(said) {
    const name = `${said.request_id} ${said.kind}`;
    if (!this.blocks.has(name)) {
      const made = { request: said.request_id, seen: 0, text: "", shown: el("pre"), state: el("span", { class: "hint" }, "is saying") };
      made.node = el("section", { "aria-label": `Live output of ${said.invocation}` },
        el("p", {}, el("strong", {}, said.invocation), ` attempt ${said.attempt} `, made.state), made.shown);
      this.blocks.set(name, made);
      this.empty.remove();
      this.node.prepend(made.node);
      const oldest = this.blocks.keys().next().value;
      if (this.blocks.size > MOST_BLOCKS) {
        this.blocks.get(oldest).node.remove();
        this.blocks.delete(oldest);
      }
    }
    return this.blocks.get(name);
  }
}

/** The newest events, newest first; each shows its data once it is opened. */
export class EventLog {
  constructor() {
    this.waiting = [];
    this.count = 0;
    this.list = el("ol", { class: "events", reversed: true });
    this.note = el("p", { class: "hint" });
    this.node = el("div", {}, this.note, this.list);
  }

  add(event) {
    this.count += 1;
    this.waiting.push(event);
    this.later ??= requestAnimationFrame(() => this.render());
  }

  /** Something that is no event, in words. */
  tell(text) {
    this.list.prepend(el("li", { class: "told" }, text));
  }

  render() {
    this.later = null;
    const lines = this.waiting.slice(-MOST_EVENTS).reverse().map(line);
    this.waiting = [];
    this.list.prepend(...lines);
    while (this.list.children.length > MOST_EVENTS) this.list.lastChild.remove();
    setText(this.note, this.count > MOST_EVENTS ? `The newest ${MOST_EVENTS} of ${this.count} events.` : "");
  }
}

function line(event) {
  const shown = el("pre");
  const opened = (toggled) => {
    if (toggled.target.open) shown.textContent = JSON.stringify(event.data, null, 2);
  };
  return el("li", { value: event.version }, el("details", { ontoggle: opened },
    el("summary", {}, el("span", { class: "at" }, event.time.slice(11, 23)), el("strong", {}, event.type),
      event.node ? el("span", { class: "hint" }, event.node) : null), shown));
}
