// The main chart: the last rows with their bands, the truth in or out of them, what is waiting, and alarms.

import { Chart, hatch, legend, places, point, wideGaps, xAxis, yAxis } from "./chart.js";
import { h, show } from "./dom.js";
import { count, numberTo, plural, rowTime } from "./format.js";
import { within } from "./rows.js";
import { quantile } from "./stats.js";

const MOST_WAITING = 0.25; // of the rows shown

/** A limit that a few wild values do not stretch: the middle 98% and once their span on either side. */
function robustRange(values) {
  const sorted = values.filter((v) => Number.isFinite(v ?? NaN)).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  const [a, b] = [quantile(sorted, 0.01), quantile(sorted, 0.99)];
  const low = Math.max(sorted[0], a - (b - a));
  const high = Math.min(sorted[sorted.length - 1], b + (b - a));
  const margin = 0.06 * (high - low) || 0.05 * Math.abs(high) || 1;
  return [low - margin, high + margin];
}

export class PredictionChart {
  constructor() {
    this.items = [];
    this.alarms = [];
    this.shown = 250;
    this.chart = new Chart("The last rows with their 90% band", 320, (c, width) => this.#options(c, width), (i) => this.#words(i));
    const key = legend([["m-band", "90% band"], ["m-inner", "50% band"], ["m-median", "median"], ["m-in", "truth in the band"], ["m-out", "truth out of it"], ["m-waiting", "label waiting"], ["m-alarm", "alarm"], ["m-warmup", "warm-up"], ["m-flagged", "flagged as outlier"]]);
    this.optional = { inner: key.children[1], waiting: key.children[5], alarm: key.children[6], warmup: key.children[7], flagged: key.children[8] };
    this.empty = h("p", { class: "empty" }, "No rows to draw yet.");
    this.key = key;
    this.box = h("div", {}, this.empty, key, this.chart.box);
  }

  /** Show the rows of a feed, with the alarms of a stream. */
  update(rows, alarms, timed) {
    const learnt = rows.rows.slice(-this.shown);
    const after = this.#waiting(learnt, rows.waiting);
    const all = [...learnt, ...after.map((row) => ({ ...row, waiting: true }))];
    for (const part of [this.key, this.chart.box]) show(part, all.length > 0);
    show(this.empty, all.length === 0);
    const { x, isTime } = places(all, timed);
    const order = all.map((_, i) => i).sort((a, b) => x[a] - x[b]);
    this.items = order.map((i) => all[i]);
    this.x = order.map((i) => x[i]);
    this.isTime = isTime;
    this.alarms = alarms ?? [];
    const seen = (name) => this.items.map((row) => (row.waiting ? null : row[name] ?? null));
    const late = (name) => this.items.map((row) => (row.waiting ? row[name] ?? null : null));
    const truth = this.items.map((row) => (typeof row.y === "number" ? row.y : null));
    const data = [this.x, seen("q05"), seen("q95"), seen("q25"), seen("q75"), seen("q50"), truth, late("q05"), late("q95")];
    this.limits = robustRange(data.slice(1).flat());
    for (const [name, some] of Object.entries({ inner: learnt.some((r) => typeof r.q25 === "number"), waiting: after.length, warmup: learnt.some((r) => r.warmup), flagged: learnt.some((r) => r.flagged), alarm: this.#marked().length })) show(this.optional[name], Boolean(some));
    this.chart.set(data, this.#summary(learnt, after.length, rows.waiting.length), `${isTime}`);
  }

  /** Waiting rows among those shown, and the first of those after them. */
  #waiting(learnt, waiting) {
    const first = learnt[0]?.row ?? -Infinity;
    const last = learnt[learnt.length - 1]?.row ?? -1;
    const numbered = waiting.map((row, i) => ({ ...row, row: row.row ?? last + 1 + i })).filter((row) => row.row >= first);
    const among = numbered.filter((row) => row.row < last);
    const after = numbered.filter((row) => row.row >= last);
    return [...among, ...after.slice(0, Math.max(10, Math.round(MOST_WAITING * learnt.length)))];
  }

  #summary(learnt, drawn, waiting) {
    const judged = learnt.map((row) => within(row, "q05", "q95")).filter((v) => v !== null);
    const held = judged.filter(Boolean).length;
    const parts = !judged.length ? [] : [`Of the last ${plural(judged.length, "row")}, ${count(held)} within the 90% band, ${count(judged.length - held)} out of it.`];
    if (waiting) parts.push(`${plural(waiting, "label")} waiting${drawn < waiting ? `, ${count(drawn)} of them drawn` : ""}.`);
    return parts.join(" ");
  }

  #words(i) {
    const row = this.items[i];
    if (!row) return "";
    const time = row.time === null || row.time === undefined ? "" : `, ${rowTime(row.time)}`;
    const fine = (value) => numberTo(value, (row.q95 - row.q05) / 20);
    const band = `prediction ${fine(row.q50 ?? row.mean)}, 90% band ${fine(row.q05)} to ${fine(row.q95)}`;
    if (row.waiting) return `Row ${count(row.row)}${time}: ${band}; its label is waiting.`;
    const inside = within(row, "q05", "q95");
    const truth = row.y === null || row.y === undefined ? "no label" : `truth ${fine(row.y)}${inside === null ? "" : inside ? ", in the band" : ", out of the band"}`;
    return `Row ${count(row.row)}${time}: ${truth}; ${band}${row.warmup ? "; warm-up" : ""}${row.flagged ? "; flagged as an outlier" : ""}.`;
  }

  #options(c) {
    const line = (stroke, width) => ({ stroke, width, gaps: (u) => wideGaps(u, this.isTime), points: { show: false } });
    const none = { paths: () => null, points: { show: false } };
    const edge = line("transparent", 0);
    return {
      scales: { x: { time: false, range: (u, low, high) => this.#span(low, high) }, y: { range: () => this.limits } },
      axes: [xAxis(c, this.isTime), yAxis(c)],
      series: [{}, edge, edge, edge, edge, line(c.model, 1.5), none, none, none],
      bands: [{ series: [2, 1], fill: c.band }, { series: [4, 3], fill: c.inner }],
      hooks: { drawAxes: [(u) => this.#under(u, c)], draw: [(u) => this.#over(u, c)] },
    };
  }

  #span(low, high) {
    if (low === null || high === null) return [0, 1];
    const side = Math.max(0.01 * (high - low), low === high ? 1 : 0);
    return [low - side, high + side];
  }

  /** Half of the width of a row's slot in device pixels. */
  #half(u) {
    const gaps = this.x.slice(1).map((x, i) => x - this.x[i]).filter((g) => g > 0).sort((a, b) => a - b);
    const gap = quantile(gaps, 0.5) ?? 1;
    const pixels = Math.abs(u.valToPos(this.x[0] + gap, "x", true) - u.valToPos(this.x[0], "x", true));
    return Math.min(7 * devicePixelRatio, Math.max(1.5 * devicePixelRatio, pixels / 2));
  }

  /** Below the bands: the warm-up's ground and the hatched bands of what is waiting. */
  #under(u, c) {
    const context = u.ctx;
    const { left, top, width, height } = u.bbox;
    const half = this.#half(u);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.fillStyle = c.warmup;
    this.items.forEach((row, i) => {
      if (row.warmup && !row.waiting) context.fillRect(u.valToPos(this.x[i], "x", true) - half - 1, top, 2 * half + 2, height);
    });
    const pattern = hatch(context, c.waiting);
    this.items.forEach((row, i) => {
      if (!row.waiting || !Number.isFinite(row.q05 ?? NaN)) return;
      const x = u.valToPos(this.x[i], "x", true);
      const [low, high] = [u.valToPos(row.q05, "y", true), u.valToPos(row.q95, "y", true)];
      context.fillStyle = pattern;
      context.fillRect(x - half, high, 2 * half, low - high);
      context.fillStyle = c.waiting;
      for (const edge of [low, high]) context.fillRect(x - half, edge - 0.5 * devicePixelRatio, 2 * half, devicePixelRatio);
      context.fillStyle = c.model;
      context.fillRect(x - half, u.valToPos(row.q50 ?? row.mean, "y", true) - 0.75 * devicePixelRatio, 2 * half, 1.5 * devicePixelRatio);
    });
    context.restore();
  }

  /** Over the bands: the truth and the alarms. */
  #over(u, c) {
    const context = u.ctx;
    const { left, top, width, height } = u.bbox;
    const small = (this.items.length * 7 * devicePixelRatio > width ? 1.7 : 2.6) * devicePixelRatio;
    context.save();
    context.beginPath();
    context.rect(left - 4, top - 4, width + 8, height + 8);
    context.clip();
    this.items.forEach((row, i) => {
      if (row.waiting || typeof row.y !== "number") return;
      const inside = within(row, "q05", "q95");
      const x = u.valToPos(this.x[i], "x", true);
      const y = Math.min(top + height, Math.max(top, u.valToPos(row.y, "y", true))); // a wild one at the edge
      context.fillStyle = inside === false ? c.miss : c.ink;
      point(context, x, y, inside === false ? 2 * small + devicePixelRatio : small, inside !== false);
      context.fill();
      if (inside === false) {
        context.strokeStyle = c.page;
        context.lineWidth = devicePixelRatio;
        context.stroke();
      }
      if (row.flagged) {
        context.strokeStyle = c.muted;
        context.lineWidth = 1.5 * devicePixelRatio;
        point(context, x, y, 3 * small + 2 * devicePixelRatio, true);
        context.stroke();
      }
    });
    this.#drawAlarms(u, c);
    context.restore();
  }

  #drawAlarms(u, c) {
    const context = u.ctx;
    const { top, height } = u.bbox;
    const side = 6 * devicePixelRatio;
    context.strokeStyle = c.alarm;
    context.fillStyle = c.alarm;
    for (const { from, to } of this.#marked()) {
      const x = u.valToPos(to, "x", true);
      context.lineWidth = 1.5 * devicePixelRatio;
      context.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x, top + height - 1.6 * side);
      context.lineTo(x + side, top + height);
      context.lineTo(x - side, top + height);
      context.fill();
      context.fillRect(u.valToPos(from, "x", true), top + height - 3 * devicePixelRatio, Math.max(0, x - u.valToPos(from, "x", true)), 3 * devicePixelRatio);
    }
  }

  /** Alarms among the rows drawn, with the places of their row and of its probable beginning. */
  #marked() {
    if (!this.items.length) return [];
    const rows = this.items.map((row) => row.row);
    const first = Math.min(...rows);
    const last = Math.max(...rows);
    const placeOf = (row) => {
      const i = this.items.findIndex((item) => item.row >= row);
      return this.x[i < 0 ? this.x.length - 1 : i];
    };
    return this.alarms.filter((a) => a.row >= first && a.row <= last).map((a) => ({ to: placeOf(a.row), from: placeOf(Math.max(first, a.since ?? a.row)) }));
  }

  destroy() {
    this.chart.destroy();
  }
}
