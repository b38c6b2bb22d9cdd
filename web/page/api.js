// Requests to the API that serves this page.

/** The API said no, in its own words. */
export class ApiError extends Error {
  constructor(problem) {
    super(problem.detail);
    this.status = problem.status;
    this.code = problem.code;
  }

  /** Whether the same may be asked again as it is. */
  get passes() {
    return this.status === 0 || this.status >= 500;
  }
}

/** The JSON that a path answers with. Throws ApiError. */
export function get(path, query = null) {
  return ask("GET", query && String(query) ? `${path}?${query}` : path);
}

/** The JSON of an answer to a body. Throws ApiError. */
export function post(path, body = {}) {
  return ask("POST", path, body);
}

/** The same, to put something in the place of what is there. */
export function put(path, body) {
  return ask("PUT", path, body);
}

/** The same, to take something away. */
export function remove(path) {
  return ask("DELETE", path);
}

/** The path of a run, or of something of its. */
export function runPath(run, ...parts) {
  return ["/runs", encodeURIComponent(run), ...parts].join("/");
}

async function ask(method, path, body) {
  const sent = body === undefined ? {} : {
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, { method, ...sent });
  } catch {
    throw new ApiError({ status: 0, code: "unreachable", detail: "The server does not answer." });
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok) return told;
  throw new ApiError(told?.detail ? told : {
    status: answer.status, code: "unknown", detail: `The server answered ${answer.status}.`,
  });
}
