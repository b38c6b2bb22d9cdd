// What keeps a view fresh: events tell that something changed, the API tells what.

import { ApiError } from "./api.js";
import { setText } from "./dom.js";

const SHARE = 19;
// What is looked at again costs at most a twentieth of the time: a server that takes long is asked less often.
const SOONEST_MS = 200;
const LATEST_MS = 10_000;
const AGAIN_MS = 2_000;

/** Loads a view again when it is wanted, never twice at once, and not too often. */
export class Refresher {
  constructor(load, failed) {
    this.load = load;
    this.failed = failed;
    this.wanted = this.loading = this.stopped = false;
    this.timer = null;
    this.notBefore = 0;
    this.seen = () => this.wanted && this.plan();
    document.addEventListener("visibilitychange", this.seen);
  }

  /** Something changed. */
  want() {
    this.wanted = true;
    this.plan();
  }

  /** Load now, and resolve once it is there; what goes wrong is thrown. */
  async now() {
    const began = performance.now();
    this.wanted = false;
    await this.load();
    const took = performance.now() - began;
    this.notBefore = performance.now() + Math.min(Math.max(took * SHARE, SOONEST_MS), LATEST_MS);
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }

  plan() {
    if (this.stopped || this.loading || this.timer !== null || document.hidden) return;
    const wait = Math.max(this.notBefore - performance.now(), 0);
    this.timer = setTimeout(() => this.again(), wait);
  }

  async again() {
    this.timer = null;
    this.loading = true;
    try {
      await this.now();
      if (!this.stopped) this.failed(null);
    } catch (error) {
      if (this.stopped) return;
      this.failed(error);
      if (error instanceof ApiError && !error.passes) return;
      this.wanted = true;
      this.notBefore = performance.now() + AGAIN_MS;
    } finally {
      this.loading = false;
    }
    if (this.wanted) this.plan();
  }
}

/** Follows a stream of records: `takes` maps their names to what takes their data. Returns what ends it. */
export function follow(path, takes, ended = () => {}) {
  const source = new EventSource(path);
  source.onopen = () => connection("live");
  source.onerror = () => {
    const over = source.readyState === EventSource.CLOSED;
    connection(over ? "not live" : "reconnecting …");
    if (over) ended();
  };
  for (const [name, take] of Object.entries(takes)) {
    source.addEventListener(name, (record) => take(JSON.parse(record.data), source));
  }
  return () => {
    source.close();
    connection("");
  };
}

/** Tells whether the view is live. */
export function connection(text) {
  const shown = document.getElementById("connection");
  shown.classList.toggle("on", text === "live");
  setText(shown, text);
}
