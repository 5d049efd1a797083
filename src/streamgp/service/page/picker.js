// The list of streams, each with its state, rows, open alarms and the age of its last row.

import { ageOf } from "./api.js";
import { fill, h, reconcile, setText, show } from "./dom.js";
import { count, duration, plural } from "./format.js";

const SEARCH_FROM = 12; // streams

/** The address of a stream's page. */
export function streamAddress(name) {
  return `#/streams/${encodeURIComponent(name)}`;
}

/** A stream's state in a word, and its tone. */
export function stateOf(stream) {
  if (stream.state === "failed") return { word: "failed", tone: "bad" };
  if (stream.state === "replaying") return { word: "replaying", tone: "wait" };
  if (!stream.rows) return { word: "no rows yet", tone: "wait" };
  const limit = stream.stale_after ?? null; // seconds; null where it is not known
  if (limit !== null && ageOf(stream.last_at) > limit) return { word: "stale", tone: "bad" };
  if (!stream.warmed_up) return { word: "warm-up", tone: "wait" };
  return { word: "at work", tone: "good" };
}

export class Picker {
  constructor(nav) {
    this.list = h("ul", { class: "streams" });
    this.counted = h("span", { class: "small" });
    this.search = h("input", { type: "search", id: "stream-search", "aria-label": "Search streams", placeholder: "Search streams", autocomplete: "off", spellcheck: "false", oninput: () => this.draw() });
    fill(nav, h("h2", {}, "Streams ", this.counted), this.search, this.list);
    this.streams = [];
    this.current = null;
  }

  update(streams, current) {
    this.streams = streams;
    this.current = current;
    this.draw();
  }

  draw() {
    const text = this.search.value.trim().toLowerCase();
    show(this.search, this.streams.length > SEARCH_FROM);
    setText(this.counted, this.streams.length ? count(this.streams.length) : "");
    const found = this.streams.filter((stream) => !text || stream.name.toLowerCase().includes(text));
    const entries = found.map((stream) => {
      const { word, tone } = stateOf(stream);
      const age = ageOf(stream.last_at);
      const what = stream.kind === null ? "could not be opened" : stream.kind === "keyed" ? `${stream.keys === null || stream.keys === undefined ? "" : `${plural(stream.keys, "key")}, `}${stream.task}` : `single, ${stream.task}`;
      return { name: stream.name, word, tone, what, current: stream.name === this.current, alarms: stream.open_alarms ?? 0, facts: `${plural(stream.rows, "row")}${age === null ? "" : ` · ${duration(age)} ago`}` };
    });
    this.#reconcile(entries);
  }

  /** Links stay in place while their texts change, so that focus stays too. */
  #reconcile(entries) {
    reconcile(this.list, entries.map(({ name }) => ({ name })), (entry) => entry.name, ({ name }) => {
      const parts = Object.fromEntries(["word", "what", "facts", "alarms"].map((part) => [part, h("span", { class: part })]));
      const link = h("a", { href: streamAddress(name) }, h("span", { class: "name" }, name), parts.word, parts.what, parts.facts, parts.alarms);
      return Object.assign(h("li", {}, link), { parts, link });
    });
    entries.forEach((entry, i) => {
      const { parts, link } = this.list.children[i];
      setText(parts.word, entry.word);
      parts.word.className = `word ${entry.tone}`;
      setText(parts.what, entry.what);
      setText(parts.facts, entry.facts);
      setText(parts.alarms, entry.alarms ? plural(entry.alarms, "open alarm") : "");
      if (entry.current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
  }
}
