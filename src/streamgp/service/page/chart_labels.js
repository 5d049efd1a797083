// The last rows of a classifier: the probability it gave to what came true, right or wrong.

import { Chart, legend, places, point, xAxis, yAxis } from "./chart.js";
import { h, show } from "./dom.js";
import { count, number, percent, plural, rowTime } from "./format.js";
import { correct } from "./rows.js";

export class LabelChart {
  constructor() {
    this.rows = [];
    this.shown = 250;
    this.chart = new Chart("Predicted probability of the true label, row by row", 240, (c) => this.#options(c), (i) => this.#words(i));
    const key = legend([["m-right", "predicted label right"], ["m-out", "wrong"], ["m-warmup", "warm-up"]]);
    this.warmupKey = key.children[2];
    this.empty = h("p", { class: "empty" }, "No rows with a label to draw yet.");
    this.key = key;
    this.box = h("div", {}, this.empty, key, this.chart.box);
  }

  update(rows, alarms, timed) {
    const known = rows.rows.filter((row) => typeof row.probability === "number").slice(-this.shown);
    for (const part of [this.key, this.chart.box]) show(part, known.length > 0);
    show(this.empty, known.length === 0);
    const { x, isTime } = places(known, timed);
    const order = known.map((_, i) => i).sort((a, b) => x[a] - x[b]);
    this.rows = order.map((i) => known[i]);
    this.x = order.map((i) => x[i]);
    this.isTime = isTime;
    show(this.warmupKey, known.some((row) => row.warmup));
    const wrong = known.filter((row) => correct(row) === false).length;
    const mean = known.reduce((sum, row) => sum + row.probability, 0) / (known.length || 1);
    const waiting = rows.waiting.length ? ` ${plural(rows.waiting.length, "label")} waiting.` : "";
    const summary = known.length ? `Of the last ${plural(known.length, "row")}, ${count(wrong)} wrong; the true label had a probability of ${number(mean, 2)} on average.${waiting}` : `No row with a label yet.${waiting}`;
    this.chart.set([this.x, this.rows.map((row) => row.probability)], summary, `${isTime}`);
  }

  #words(i) {
    const row = this.rows[i];
    if (!row) return "";
    const time = row.time === null || row.time === undefined ? "" : `, ${rowTime(row.time)}`;
    const right = correct(row);
    const verdict = right === null ? "" : right ? ", right" : ", wrong";
    return `Row ${count(row.row)}${time}: predicted ${row.label ?? "–"}, true ${row.y ?? "–"}${verdict}; the true label had ${percent(row.probability, 0)}.`;
  }

  #options(c) {
    return {
      scales: { x: { time: false, range: (u, low, high) => (low === null ? [0, 1] : [low - Math.max(0.01 * (high - low), low === high ? 1 : 0), high + Math.max(0.01 * (high - low), low === high ? 1 : 0)]) }, y: { range: [-0.04, 1.04] } },
      axes: [xAxis(c, this.isTime), { ...yAxis(c, (v) => percent(v, 0)), splits: () => [0, 0.25, 0.5, 0.75, 1] }],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { drawAxes: [(u) => this.#warmup(u, c)], draw: [(u) => this.#points(u, c)] },
    };
  }

  #warmup(u, c) {
    const last = this.rows.findLastIndex((row) => row.warmup);
    if (last < 0) return;
    const { left, top, height } = u.bbox;
    u.ctx.fillStyle = c.warmup;
    u.ctx.fillRect(left, top, u.valToPos(this.x[last], "x", true) - left, height);
  }

  #points(u, c) {
    const radius = (this.rows.length * 7 * devicePixelRatio > u.bbox.width ? 2 : 2.8) * devicePixelRatio;
    for (const [i, row] of this.rows.entries()) {
      const right = correct(row) !== false;
      u.ctx.fillStyle = right ? c.model : c.miss;
      point(u.ctx, u.valToPos(this.x[i], "x", true), u.valToPos(row.probability, "y", true), right ? radius : 1.7 * radius, right);
      u.ctx.fill();
    }
  }

  destroy() {
    this.chart.destroy();
  }
}
