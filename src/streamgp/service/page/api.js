// Requests to the service. The token is kept for this tab only.

const TOKEN = "streamgp-token";

/** An answer that is an error: its status, and what the service says. */
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title || `The service answered with status ${status}.`);
    this.status = status;
    this.title = title;
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

let ahead = 0; // milliseconds that the server's clock is ahead of this one

/** Milliseconds since 1970 on the server's clock. */
export function serverNow() {
  return Date.now() + ahead;
}

/** Seconds since a moment of the server; null of none. */
export function ageOf(moment) {
  const ms = moment ? Date.parse(moment) : NaN;
  return Number.isNaN(ms) ? null : Math.max(0, (serverNow() - ms) / 1000);
}

function readClock(response) {
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isNaN(date)) return;
  const difference = date + 500 - Date.now(); // the header has whole seconds
  if (Math.abs(difference) < 2000) ahead = 0;
  else ahead = difference;
}

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // not JSON: the status alone
  }
  return new Problem(response.status, body.title, body.detail);
}

async function request(path, options) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The service does not answer.");
  }
  readClock(response);
  if (!response.ok) throw await problemOf(response);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The service's answer broke off.");
  }
}

/** The path of a stream's resource. */
export function pathOf(name, ...rest) {
  return ["/v1/streams", encodeURIComponent(name), ...rest.map(String)].join("/");
}

/** GET as JSON. Parameters that are null are left out. */
export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return request(query ? `${path}?${query}` : path, { signal });
}

/** GET of what a stream may not have: null where it has none (404). */
export async function getOptional(path, parameters, signal) {
  try {
    return await get(path, parameters, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Whether an error says that this is not to be had for the moment: while the log is replayed, say. */
export function isPassing(error) {
  return error instanceof Problem && (error.status === 409 || error.status === 503);
}

/** POST of a document, or without a body. */
export function post(path, document = undefined) {
  const body = document && { body: JSON.stringify(document), headers: { "Content-Type": "application/json" } };
  return request(path, { method: "POST", ...body });
}
