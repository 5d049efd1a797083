// The keys of a fleet: the strip of all, the worst twenty, and a search.

import { ageOf, get, pathOf } from "./api.js";
import { h, panel, reconcile, setText, show, table } from "./dom.js";
import { count, duration, NOTHING, number, percent, plural } from "./format.js";
import { KeyStrip } from "./key_strip.js";
import { verdictOfKey } from "./verdict.js";

const SHOWN = 20;
const STRIP_EVERY = 30_000; // milliseconds
const TABLE_EVERY = 5_000;
const MOST_KEYS = 10_000;
const ORDERS = { worst: "Worst first", name: "By name", last: "Last seen first" };

/** The address of a key's own page. */
export function keyAddress(name, key) {
  return `#/streams/${encodeURIComponent(name)}/keys/${encodeURIComponent(key)}`;
}

export class KeysPanel {
  constructor(name) {
    Object.assign(this, { name, stripAt: -Infinity, tableAt: -Infinity, limit: SHOWN, asked: 0 });
    this.strip = new KeyStrip((key) => { location.hash = keyAddress(name, key); });
    this.counted = h("p", { class: "small" });
    const search = h("input", { type: "search", id: "key-search", autocomplete: "off", spellcheck: "false", oninput: () => this.#later() });
    const order = h("select", { id: "key-order", onchange: () => this.#anew() }, Object.entries(ORDERS).map(([value, title]) => h("option", { value }, title)));
    Object.assign(this, { search, order });
    const { box, body } = table("Keys", [["key"], ["NMSE", "n"], ["last value's NMSE", "n"], ["90% band held", "n"], ["log score", "n"], ["scored rows", "n"], ["last seen", "n"]]);
    Object.assign(this, { body, tableBox: box });
    this.more = h("button", { type: "button", class: "plain", onclick: () => { this.limit += 50; this.#anew(false); } }, "Show more");
    this.trouble = h("p", { class: "trouble", role: "status" });
    const controls = h("div", { class: "controls" }, h("label", { for: "key-search" }, "Search keys"), search, h("label", { for: "key-order" }, "Order"), order);
    this.map = panel("All keys", "all-keys", this.strip.box);
    this.list = panel("Keys", "keys", controls, this.trouble, this.counted, box, this.more);
    show(this.more, false);
  }

  get sections() {
    return [this.map.section, this.list.section];
  }

  /** Fetch what is due. Called at every poll. */
  async update(signal) {
    const now = performance.now();
    if (now - this.tableAt >= TABLE_EVERY) {
      this.tableAt = now;
      await this.#table(signal);
    }
    if (now - this.stripAt >= STRIP_EVERY) {
      this.stripAt = now;
      const answer = await get(pathOf(this.name, "keys"), { limit: MOST_KEYS, sort: "name" }, signal);
      show(this.map.section, answer.keys.length > 0);
      this.strip.update(answer.keys);
    }
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#anew(), 250);
  }

  async #anew(fromStart = true) {
    if (fromStart) this.limit = SHOWN;
    this.tableAt = performance.now();
    try {
      setText(this.trouble, "");
      await this.#table();
    } catch (error) {
      setText(this.trouble, `The keys could not be read: ${error.message}`);
    }
  }

  async #table(signal) {
    const text = this.search.value.trim();
    this.asked += 1;
    const asked = this.asked;
    const answer = await get(pathOf(this.name, "keys"), { search: text, sort: this.order.value, limit: this.limit, offset: 0 }, signal);
    if (asked !== this.asked) return; // typed on since
    const shown = answer.keys.length;
    const found = text ? `${plural(answer.count, "key")} found with “${text}”` : plural(answer.count, "key");
    setText(this.counted, `${found}${shown < answer.count ? `; ${count(shown)} shown` : ""}.`);
    const rows = answer.keys.map((key) => ({ ...key, ago: key.last_seen ? agoOf(key.last_seen) : NOTHING }));
    reconcile(this.body, rows, (key) => key.key, (key) => this.#row(key));
    show(this.tableBox, shown > 0);
    show(this.more, shown < answer.count);
  }

  #row(key) {
    const worse = verdictOfKey(key) === "worse";
    return h("tr", {},
      h("th", { scope: "row" }, h("a", { href: keyAddress(this.name, key.key), title: key.key.length > 20 ? key.key : null }, key.key)),
      h("td", { class: "n" }, number(key.nmse), worse ? h("span", { class: "worse", title: "The baseline is better" }, " ▾", h("span", { class: "hidden-text" }, " baseline better")) : null),
      h("td", { class: "n" }, number(key.nmse_persistence)), h("td", { class: "n" }, percent(key.coverage)),
      h("td", { class: "n" }, number(key.pll)), h("td", { class: "n" }, count(key.scored_rows)), h("td", { class: "n" }, key.ago));
  }

  destroy() {
    clearTimeout(this.timer);
    this.strip.destroy();
  }
}

/** How long ago a key was seen; a row number or a time that is no date as it is. */
function agoOf(seen) {
  const age = typeof seen === "string" ? ageOf(seen) : null;
  if (age === null) return typeof seen === "number" ? `row ${count(seen)}` : String(seen);
  return `${duration(age < 60 ? Math.round(age / 10) * 10 : age)} ago`;
}
