// The page: where it is, what it polls, and what it says when it cannot.

import { Problem, Unreachable, get, token } from "./api.js";
import { fill, h, setText, show } from "./dom.js";
import { createExample } from "./examples.js";
import { Feed } from "./feed.js";
import { duration } from "./format.js";
import { Picker, streamAddress } from "./picker.js";
import { StreamView, code } from "./stream_view.js";

const EVERY = 2_000; // milliseconds
const SLOWEST = 15_000; // while the service does not answer
const WIDE = matchMedia("(min-width: 1000px)");

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const connection = document.getElementById("connection");
const picker = new Picker(document.getElementById("picker"));

let view = null; // the StreamView on the page
let notice = ""; // what stands in its place
let timer = 0;
let abort = new AbortController();
let answeredAt = null; // performance.now() of the last good answer
let failures = 0;

/** The stream and the key in the address. */
function route() {
  const [where, name, what, key] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  if (where !== "streams" || !name) return { name: null, key: null };
  return { name, key: what === "keys" && key ? key : null };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Put a page without a stream in the place of one; `id` says which, so that it is built once. */
function replaceView(id, build) {
  if (notice === id) return;
  view?.destroy();
  view = null;
  notice = id;
  fill(main, build());
}

function noStreams() {
  return h("section", { class: "panel" }, h("h1", {}, "No streams yet"), h("p", {}, "A stream has a target and features; the service makes a model for it, predicts every row that comes and learns from its label. Create one, for example:"), code(createExample()), h("p", { class: "small" }, "It then appears here."));
}

function choose() {
  return h("h1", {}, "Choose a stream");
}

function unknown(name) {
  return h("section", { class: "panel" }, h("h1", {}, "Not found"), h("p", {}, `There is no stream named ${name}. `, h("a", { href: "#/" }, "All streams")));
}

/** A stream that the service could not open, and why. */
function broken({ name, failure }) {
  return h("section", { class: "panel" }, h("h1", {}, name), h("p", { class: "trouble", role: "alert" }, "This stream could not be opened. The others are at work."), h("p", {}, failure), h("p", {}, h("a", { href: "#/" }, "All streams")));
}

/** The question for the token. */
function askToken(refused) {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h("form", { class: "panel token" }, h("h1", {}, "Token needed"),
    h("p", {}, "This service answers only with its token. It is kept in this browser tab and forgotten when the tab is closed."),
    refused ? h("p", { class: "trouble", role: "alert" }, "The service refused this token.") : null,
    h("label", { for: "token" }, "Token"), h("div", { class: "controls" }, field, h("button", { type: "submit" }, "Open")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    notice = "";
    restart();
  });
  requestAnimationFrame(() => field.focus());
  return form;
}

/** Show the stream of the address, with the last numbers or none. */
async function showStream({ name, key }, signal) {
  if (!view || view.feed.name !== name || view.feed.key !== key) {
    view?.destroy();
    notice = "";
    view = new StreamView(new Feed(name, key), main);
    document.title = `${key ?? name} – streamgp`;
  }
  const shown = view;
  try {
    await shown.feed.refresh(signal);
  } finally {
    if (shown === view && !signal.aborted) { // what came is shown, also where something else failed
      const limit = shown.feed.staleLimit;
      shown.update(limit);
    }
  }
  if (shown !== view) return;
  await shown.refresh(signal);
  const open = shown.feed.detail.open_alarms ?? 0;
  document.title = `${open ? `(${open}) ` : ""}${key ?? name} – streamgp`;
}

/** One round of requests. */
async function poll(signal) {
  const { streams } = await get("/v1/streams", {}, signal);
  answered();
  const where = route();
  picker.update(streams, where.name);
  document.body.classList.toggle("at-list", where.name === null);
  if (!streams.length) {
    document.body.classList.remove("at-list");
    replaceView("none", noStreams);
  } else if (where.name !== null && !streams.some((stream) => stream.name === where.name)) replaceView(`unknown ${where.name}`, () => unknown(where.name));
  else if (where.name !== null && streams.some((stream) => stream.name === where.name && stream.kind === null)) replaceView(`broken ${where.name}`, () => broken(streams.find((stream) => stream.name === where.name)));
  else if (where.name !== null) await showStream(where, signal);
  else if (WIDE.matches || streams.length === 1) location.replace(streamAddress(mostUrgent(streams).name));
  else replaceView("choose", choose);
}

/** The stream to open first: one that failed, else one with open alarms, else the first. */
function mostUrgent(streams) {
  return streams.find((s) => s.state === "failed") ?? streams.find((s) => s.open_alarms) ?? streams[0];
}

function answered() {
  answeredAt = performance.now();
  failures = 0;
  setText(connection, "live");
  connection.className = "connection good";
  say("");
}

/** The line above everything; empty hides it. */
function say(text) {
  show(banner, Boolean(text));
  if (banner.firstChild?.textContent !== text) fill(banner, text ? h("p", { class: "notice bad" }, text) : null);
}

function trouble(error) {
  if (error instanceof Problem && error.status === 401) {
    const refused = Boolean(token.get());
    token.forget();
    picker.update([], null);
    setText(connection, "token needed");
    connection.className = "connection wait";
    say("");
    document.body.classList.remove("at-list");
    replaceView(refused ? "refused" : "token", () => askToken(refused));
    return;
  }
  const { name } = route();
  if (error instanceof Problem && error.status === 404 && name !== null) {
    replaceView(`unknown ${name}`, () => unknown(name));
    return;
  }
  failures += 1;
  connection.className = "connection bad";
  if (error instanceof Unreachable) {
    const since = answeredAt === null ? "" : ` for ${duration(Math.round((performance.now() - answeredAt) / 1000))}`;
    setText(connection, "no answer");
    say(`The service does not answer${since}.${view?.feed.detail ? " The numbers below are the last that it gave." : ""}`);
  } else if (error instanceof Problem) {
    setText(connection, "error");
    say(`${error.title ? `${error.title}: ` : ""}${error.message}`);
  } else {
    setText(connection, "error");
    say(`The page failed: ${error.message}. Reload it.`);
    console.error(error);
  }
}

async function tick() {
  clearTimeout(timer);
  if (document.hidden) return;
  const { signal } = abort;
  try {
    await poll(signal);
  } catch (error) {
    if (signal.aborted) return;
    trouble(error);
  }
  if (signal.aborted || document.hidden) return;
  const asking = notice === "token" || notice === "refused";
  if (!asking) timer = setTimeout(tick, Math.min(SLOWEST, EVERY * 2 ** Math.min(4, failures)));
}

/** Drop what is under way and poll now. */
function restart() {
  clearTimeout(timer);
  abort.abort();
  abort = new AbortController();
  tick();
}

window.addEventListener("hashchange", () => {
  restart();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : restart()));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the stream
  main.focus();
});
restart();
