// All keys of a fleet on one canvas: a small square each, coloured by a score.

import { h, setText } from "./dom.js";
import { count, number, percent, plural } from "./format.js";
import { skillOfKey, verdictOfKey } from "./verdict.js";

const MOST_HEIGHT = 240;
const LARGEST = 16;
const FEW = 30; // scored rows below which a key is not coloured

/** Log2 of how many times smaller the errors are than the better baseline's, from -1 to 1; 0 where they cannot be told apart. */
function skill(key) {
  const verdict = verdictOfKey(key);
  if (verdict === null) return null;
  return verdict === "undecided" ? 0 : Math.max(-1, Math.min(1, -0.5 * Math.log2(Math.max(1 - key.skill, 1e-9))));
}

/** How many standard errors the coverage is above 90%, over 4, from -1 to 1. */
function honesty(key) {
  if (typeof key.coverage !== "number") return null;
  return Math.max(-1, Math.min(1, (key.coverage - 0.9) / Math.sqrt(0.09 / key.scored_rows) / 4));
}

export const COLOURINGS = {
  skill: { title: "errors against the better naive baseline", of: skill, low: "baseline better", high: "model better" },
  honesty: { title: "coverage of the 90% band", of: honesty, low: "too narrow", high: "too wide" },
};

/** What a key's scores say, in words. */
export function keyWords(key) {
  if (!key.scored_rows) return `${key.key}: ${plural(key.rows, "row")}, none scored yet.`;
  const skillText = skillOfKey(key);
  return `${key.key}: NMSE ${number(key.nmse)}; 90% band held ${percent(key.coverage)} of ${plural(key.scored_rows, "label")}.${skillText === null ? "" : ` ${skillText}`}`;
}

/** A colour of the page, by name. */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** The colour of a value from -1 to 1 between three colours. */
function mixer(low, middle, high) {
  const [a, b, c] = [low, middle, high].map(parse);
  const steps = Array.from({ length: 41 }, (_, i) => {
    const value = i / 20 - 1;
    const [end, share] = value < 0 ? [a, -value] : [c, value];
    return `rgb(${b.map((v, k) => Math.round(v + share * (end[k] - v))).join(",")})`;
  });
  return (value) => steps[Math.round(20 * (value + 1))];
}

export class KeyStrip {
  /** `open(key)` is called when a key is chosen. */
  constructor(open) {
    Object.assign(this, { open, keys: [], colouring: "skill", chosen: -1 });
    this.canvas = h("canvas", { class: "strip", tabindex: "0", role: "application", "aria-roledescription": "map of keys" });
    this.readout = h("p", { class: "readout" });
    this.wrap = h("div", { class: "strip-wrap" }, this.canvas);
    const select = h("select", { id: "strip-colour", onchange: () => { this.colouring = select.value; this.draw(); } },
      Object.entries(COLOURINGS).map(([value, { title }]) => h("option", { value }, title)));
    this.low = h("span");
    this.high = h("span");
    const key = h("div", { class: "strip-key" }, h("span", { class: "strip-ends" }, this.low, h("span", { class: "ramp", "aria-hidden": "true" }), this.high), h("span", { class: "strip-ends" }, h("span", { class: "mark m-unknown", "aria-hidden": "true" }), "too few rows"));
    this.box = h("div", {}, h("div", { class: "controls" }, h("label", { for: "strip-colour" }, "Colour"), select, key), this.wrap, this.readout);
    this.canvas.addEventListener("pointermove", (event) => this.#choose(this.#under(event)));
    this.canvas.addEventListener("pointerleave", () => document.activeElement !== this.canvas && this.#choose(-1));
    this.canvas.addEventListener("click", (event) => this.#open(this.#under(event)));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    this.canvas.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.canvas.addEventListener("blur", () => { this.readout.removeAttribute("aria-live"); this.#choose(-1); });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.wrap);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.dark.addEventListener("change", this.redraw);
  }

  update(keys) {
    const chosen = this.keys[this.chosen]?.key;
    this.keys = keys;
    this.chosen = chosen === undefined ? -1 : keys.findIndex((key) => key.key === chosen);
    this.draw();
  }

  draw() {
    const width = this.wrap.clientWidth;
    const n = this.keys.length;
    if (!n || width < 40) return;
    let side = LARGEST;
    while (side > 2 && Math.ceil(n / Math.floor(width / side)) * side > MOST_HEIGHT) side -= 1;
    this.columns = Math.floor(width / side);
    this.side = side;
    const rows = Math.ceil(n / this.columns);
    const scale = devicePixelRatio;
    this.canvas.width = this.columns * side * scale;
    this.canvas.height = rows * side * scale;
    this.canvas.style.width = `${this.columns * side}px`;
    this.canvas.style.height = `${rows * side}px`;
    this.base = document.createElement("canvas"); // the squares without the frame of the chosen one
    this.base.width = this.canvas.width;
    this.base.height = this.canvas.height;
    const context = this.base.getContext("2d");
    context.scale(scale, scale);
    const mix = mixer(colour("strip-low"), colour("strip-middle"), colour("strip-high"));
    const unknown = colour("strip-unknown");
    const { of, low, high, title } = COLOURINGS[this.colouring];
    const gap = side >= 5 ? 1 : 0;
    let [bad, good] = [0, 0];
    this.keys.forEach((key, i) => {
      const value = key.scored_rows >= FEW ? of(key) : null;
      if (value !== null && value < 0) bad += 1;
      if (value !== null && value >= 0) good += 1;
      context.fillStyle = value === null ? unknown : mix(value);
      context.fillRect((i % this.columns) * side, Math.floor(i / this.columns) * side, side - gap, side - gap);
    });
    setText(this.low, low);
    setText(this.high, high);
    const count90 = this.colouring === "skill" ? `The model is better than repeating the last value on ${count(good)} of ${plural(good + bad, "scored key")}.` : `The 90% band held less than 90% on ${count(bad)} of ${plural(good + bad, "scored key")}.`;
    this.idle = count90;
    this.canvas.setAttribute("aria-label", `${plural(n, "key")} by ${title}. ${count90} Arrow keys read single keys, Enter opens one.`);
    this.#mark();
  }

  /** The squares, the frame of the chosen one, and its words. */
  #mark() {
    const key = this.keys[this.chosen];
    setText(this.readout, key ? keyWords(key) : this.idle ?? "");
    if (!this.base) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.base, 0, 0);
    context.scale(devicePixelRatio, devicePixelRatio);
    if (key) this.#frame(context, colour("ink"), colour("page"));
  }

  #frame(context, ink, page) {
    const outer = Math.max(this.side + 3, 13); // seen also around the smallest squares
    const [x, y] = [this.chosen % this.columns, Math.floor(this.chosen / this.columns)].map((i) => (i + 0.5) * this.side - outer / 2);
    for (const [width, stroke] of [[5, page], [2.5, ink]]) {
      context.lineWidth = width;
      context.strokeStyle = stroke;
      context.strokeRect(x, y, outer, outer);
    }
  }

  #choose(place) {
    if (place === this.chosen) return;
    this.chosen = place;
    this.#mark();
  }

  #under(event) {
    if (!this.side) return -1;
    const column = Math.floor(event.offsetX / this.side);
    const place = Math.floor(event.offsetY / this.side) * this.columns + column;
    return column < this.columns && place >= 0 && place < this.keys.length ? place : -1;
  }

  #open(place) {
    if (this.keys[place]) this.open(this.keys[place].key);
  }

  #key(event) {
    const last = this.keys.length - 1;
    const now = this.chosen;
    const steps = { ArrowLeft: now - 1, ArrowRight: now + 1, ArrowUp: now - this.columns, ArrowDown: now < 0 ? 0 : now + this.columns, Home: 0, End: last };
    if (event.key === "Enter" && now >= 0) {
      event.preventDefault();
      this.#open(now);
    } else if (event.key in steps) {
      event.preventDefault();
      this.#choose(Math.max(0, Math.min(last, steps[event.key])));
    }
  }

  destroy() {
    this.watch.disconnect();
    this.dark.removeEventListener("change", this.redraw);
  }
}
