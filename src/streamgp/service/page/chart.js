// What all charts share: colours, sizes, axes, redrawing, and reading them with the mouse or the arrow keys.

import { h, setText } from "./dom.js";
import { TIME_STEPS, count, epoch, numberTo, timePlaces, timeTicks } from "./format.js";
import { quantile } from "./stats.js";

const NAMES = ["ink", "muted", "grid", "page", "warmup", "model", "band", "inner", "waiting", "miss", "alarm", "right", "range", "ahead", "behind"];
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

/** The page's colours now, by name. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const charts = new Set();
dark.addEventListener("change", () => charts.forEach((chart) => chart.rebuild()));

/** Axis options of uPlot that all charts have. */
export function axis(c, more = {}) {
  return { stroke: c.muted, font: FONT, labelFont: FONT, labelSize: 18, labelGap: 2, grid: { stroke: c.grid, width: 1 }, ticks: { stroke: c.grid, width: 1, size: 5 }, ...more };
}

const ROW_STEPS = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8].flatMap((m) => [m, 2 * m, 5 * m]);

/** The axis of rows or times. */
export function xAxis(c, isTime) {
  if (!isTime) return axis(c, { values: (u, ticks) => ticks.map(count), space: 70, size: 28, incrs: ROW_STEPS });
  return axis(c, {
    values: (u, ticks, i, space, step) => timeTicks(ticks, step),
    splits: (u, i, low, high, step) => timePlaces(low, high, step),
    incrs: TIME_STEPS, space: 80, size: 42,
  });
}

/** The axis of values, as wide as its longest number. */
export function yAxis(c, format = numberTo) {
  return axis(c, {
    values: (u, ticks, i, space, step) => ticks.map((tick) => format(tick, step)),
    size: (u, values) => 14 + 7 * Math.max(2, ...(values ?? []).map((v) => String(v).length)),
    space: 34,
  });
}

/** Where rows stand on the x axis: their times if all are dates, else their numbers. */
export function places(rows, timed) {
  const times = timed ? rows.map((row) => epoch(row.time)) : [];
  const isTime = timed && rows.length > 0 && times.every((t) => t !== null);
  return { isTime, x: isTime ? times : rows.map((row) => row.row) };
}

export class Chart {
  /**
   * @param label what the chart shows, for screen readers
   * @param height of the chart in pixels
   * @param build (colours, width) -> uPlot's options without width and height
   * @param describe (index) -> the words on one place
   */
  constructor(label, height, build, describe) {
    Object.assign(this, { label, height, build, describe, data: null, plot: null, place: null });
    this.drawn = h("div", { class: "drawn", tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": label });
    this.readout = h("p", { class: "readout" });
    this.box = h("div", { class: "chart" }, this.drawn, this.readout);
    this.idle = "";
    this.drawn.addEventListener("keydown", (event) => this.#key(event));
    this.drawn.addEventListener("pointermove", () => { this.place = null; });
    this.drawn.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.drawn.addEventListener("blur", () => {
      this.readout.removeAttribute("aria-live");
      this.place = null;
      this.plot?.setCursor({ left: -10, top: -10 });
    });
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(this.drawn);
    charts.add(this);
  }

  /** Draw data; `summary` says in words what they show. Options are rebuilt where `shape` differs from before. */
  set(data, summary, shape = "") {
    const read = this.place === null ? null : this.data?.[0][this.place];
    this.data = data;
    if (read !== null) this.place = Math.max(0, data[0].findIndex((x) => x >= read)); // the same row, further left
    this.idle = summary;
    const name = `${this.label}. ${summary} Arrow keys read single rows.`;
    if (this.drawn.getAttribute("aria-label") !== name) this.drawn.setAttribute("aria-label", name);
    if (this.plot && shape === this.shape) {
      this.plot.setData(data);
      if (this.place === null) this.#say(this.plot.cursor.idx);
      else this.#move();
    } else {
      this.shape = shape;
      this.rebuild();
    }
  }

  /** Draw anew, in the colours of now. */
  rebuild() {
    const width = Math.floor(this.drawn.clientWidth);
    if (!this.data || width < 50) return;
    this.plot?.destroy();
    const options = this.build(colours(), width);
    this.plot = new window.uPlot({
      width,
      height: this.height,
      legend: { show: false },
      padding: [10, 26, 0, 0],
      ...options,
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, ...options.cursor },
      hooks: { ...options.hooks, setCursor: [(u) => this.#say(this.place ?? u.cursor.idx)] },
    }, this.data, this.drawn);
    this.#say(null);
  }

  /** Take the chart off the page for good. */
  destroy() {
    this.watch.disconnect();
    charts.delete(this);
    this.plot?.destroy();
  }

  #resize() {
    const width = Math.floor(this.drawn.clientWidth);
    if (!this.plot) this.rebuild();
    else if (width >= 50 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  #say(place) {
    const some = place !== null && place !== undefined && place < this.data[0].length;
    setText(this.readout, some ? this.describe(place) : this.idle);
  }

  #key(event) {
    if (!this.plot || !this.data[0].length) return;
    const end = this.data[0].length - 1;
    const now = this.place ?? this.plot.cursor.idx ?? end + 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: end, PageUp: now - 20, PageDown: now + 20 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.place = Math.max(0, Math.min(end, to));
    this.#move();
  }

  /** Put the cursor on the row that is read by keyboard. */
  #move() {
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][this.place], "x"), top: 10 });
    this.#say(this.place);
  }
}

/** A legend: [[class of the mark, text], ...]. */
export function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([mark, text]) => h("li", {}, h("span", { class: `mark ${mark}`, "aria-hidden": "true" }), text)));
}

/** The gaps of times that are far apart, for a series of uPlot: no line is drawn over them. */
export function wideGaps(u, isTime) {
  if (!isTime) return [];
  const x = u.data[0];
  const steps = x.slice(1).map((value, i) => value - x[i]);
  const usual = quantile([...steps].sort((a, b) => a - b), 0.9) ?? 0;
  return steps.flatMap((step, i) => (step > 10 * usual && usual > 0 ? [[u.valToPos(x[i], "x", true), u.valToPos(x[i + 1], "x", true)]] : []));
}

/** A pattern of slanted lines, for what is not known yet. */
export function hatch(context, colour) {
  const side = Math.round(6 * devicePixelRatio);
  const tile = document.createElement("canvas");
  tile.width = side;
  tile.height = side;
  const t = tile.getContext("2d");
  t.strokeStyle = colour;
  t.lineWidth = Math.max(1, 1.3 * devicePixelRatio);
  for (const shift of [-side, 0, side]) {
    t.beginPath();
    t.moveTo(shift, side);
    t.lineTo(shift + side, 0);
    t.stroke();
  }
  return context.createPattern(tile, "repeat");
}

/** A dot (`round`) or a diamond in device pixels. */
export function point(context, x, y, radius, round) {
  context.beginPath();
  if (round) context.arc(x, y, radius, 0, 2 * Math.PI);
  else {
    context.moveTo(x, y - radius);
    context.lineTo(x + radius, y);
    context.lineTo(x, y + radius);
    context.lineTo(x - radius, y);
    context.closePath();
  }
}
