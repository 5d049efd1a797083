// Charts of averages over the last rows: coverage, log score against the baseline, error rate.

import { Chart, legend, places, xAxis, yAxis } from "./chart.js";
import { h } from "./dom.js";
import { count, number, numberTo, percent, plural, signed } from "./format.js";
import { correct, inHalf, within } from "./rows.js";
import { binomialRange, meanWithError, rollingMeans } from "./stats.js";

const WINDOW = 100;
const LEAST = 30;

const line = (stroke, width, dash) => ({ stroke, width, dash, points: { show: false } });
const edge = { stroke: "transparent", width: 0, points: { show: false } };

/** A panel's content: a chart, or a sentence in its place while there is nothing to draw. */
class Rolling {
  constructor(label, empty, build, describe, ...above) {
    this.chart = new Chart(label, 190, build, describe);
    this.empty = h("p", { class: "empty" }, empty);
    this.key = h("div", {}, ...above);
    this.box = h("div", {}, this.empty, this.key, this.chart.box);
    this.#show(false);
  }

  #show(some) {
    this.empty.hidden = some;
    this.key.hidden = !some;
    this.chart.box.hidden = !some;
  }

  draw(rows, timed, series, summary) {
    const some = rows.length >= LEAST;
    this.#show(some);
    if (!some) return;
    const { x, isTime } = places(rows, timed);
    this.rows = rows;
    this.isTime = isTime;
    const order = x.map((_, i) => i).sort((a, b) => x[a] - x[b]);
    const from = LEAST - 1; // nothing to draw before
    const sorted = [x, ...series].map((values) => order.map((i) => values[i]).slice(from));
    this.order = order.slice(from);
    this.chart.set(sorted, summary, `${isTime}`);
  }

  at(place) {
    return this.order[place];
  }

  destroy() {
    this.chart.destroy();
  }
}

const windowed = (n) => `of the last ${plural(n, "label")}`;

/** Rolling coverage of the 90% and the 50% band, with the range in which that of a right band lies. */
export class CoverageChart extends Rolling {
  constructor() {
    super("Rolling coverage of the 90% and 50% bands", `Drawn from ${LEAST} labels on.`, (c) => this.options(c), (i) => this.words(i),
      legend([["m-model", "90% band"], ["m-last", "50% band"], ["m-range", "where a right band stays 95% of the time"]]));
  }

  update(rows, timed) {
    const scored = rows.scored.filter((row) => within(row, "q05", "q95") !== null);
    const nineties = rollingMeans(scored.map((row) => Number(within(row, "q05", "q95"))), WINDOW, LEAST);
    const halves = rollingMeans(scored.map((row) => Number(inHalf(row) ?? NaN)), WINDOW, LEAST);
    this.nineties = nineties;
    this.halves = halves;
    const range = (p, end) => nineties.map(({ n }) => (n >= LEAST ? 100 * binomialRange(n, p)[end] : null));
    const shares = (means) => means.map(({ mean }) => (mean === null || Number.isNaN(mean) ? null : 100 * mean));
    const now = nineties[nineties.length - 1];
    const half = halves[halves.length - 1];
    const last = (m) => (m && m.mean !== null ? percent(m.mean, 0) : "–");
    const summary = `${windowed(now?.n ?? 0).replace("of", "Of")}, the 90% band held ${last(now)}, the 50% band ${last(half)}.`;
    this.draw(scored, timed, [range(0.9, 0), range(0.9, 1), range(0.5, 0), range(0.5, 1), shares(nineties), shares(halves)], summary);
  }

  words(place) {
    const i = this.at(place);
    const { mean, n } = this.nineties[i];
    const [low, high] = binomialRange(n, 0.9);
    return `At row ${count(this.rows[i].row)}, ${windowed(n)}: 90% band ${percent(mean, 0)} (a right one ${percent(low, 0)} to ${percent(high, 0)}), 50% band ${percent(this.halves[i].mean, 0)}.`;
  }

  options(c) {
    return {
      scales: { x: { time: false }, y: { range: (u, low, high) => [Math.max(0, Math.min(30, (low ?? 30) - 3)), 102] } },
      axes: [xAxis(c, this.isTime), { ...yAxis(c, (v) => `${v}%`), splits: (u, i, low, high) => [0, 25, 50, 75, 90, 100].filter((v) => v >= low && v <= high) }],
      series: [{}, edge, edge, edge, edge, line(c.model, 2), line(c.right, 2, [6, 3])],
      bands: [{ series: [2, 1], fill: c.range }, { series: [4, 3], fill: c.range }],
    };
  }
}

/** The model's log score minus the baseline's. */
export class LogScoreChart extends Rolling {
  constructor() {
    super("Log score of the model minus that of the baseline", `Drawn from ${LEAST} labels on, where rows have a log score of the baseline.`, (c) => this.options(c), (i) => this.words(i),
      legend([["m-model", `mean of the last ${WINDOW} rows`], ["m-ahead", "model ahead"], ["m-behind", "baseline ahead"]]));
  }

  update(rows, timed) {
    const known = (v) => typeof v === "number" && Number.isFinite(v);
    const scored = rows.scored.filter((row) => known(row.log_density) && known(row.log_density_baseline));
    const gains = scored.map((row) => row.log_density - row.log_density_baseline);
    this.means = rollingMeans(gains, WINDOW, LEAST);
    this.draw(scored, timed, [this.means.map(({ mean }) => mean), gains.map(() => 0)], aheadInWords(gains));
  }

  words(place) {
    const i = this.at(place);
    const { mean, n } = this.means[i];
    return `At row ${count(this.rows[i].row)}, mean of ${plural(n, "row")}: ${signed(mean)} nats a row, ${mean >= 0 ? "model" : "baseline"} ahead.`;
  }

  options(c) {
    const range = (u, low, high) => {
      const [a, b] = [Math.min(0, low ?? 0), Math.max(0, high ?? 0)];
      const margin = 0.1 * (b - a) || 0.1;
      return [a - margin, b + margin];
    };
    return {
      scales: { x: { time: false }, y: { range } },
      axes: [xAxis(c, this.isTime), yAxis(c, (v, step) => (v > 0 ? "+" : "") + numberTo(v, step))],
      series: [{}, line(c.model, 2), line(c.muted, 1)],
      hooks: { drawAxes: [(u) => ground(u, c)] },
    };
  }
}

/** Colour the ground above and below zero. */
function ground(u, c) {
  const { left, top, width, height } = u.bbox;
  const zero = Math.min(top + height, Math.max(top, u.valToPos(0, "y", true)));
  u.ctx.save();
  u.ctx.fillStyle = c.ahead;
  u.ctx.fillRect(left, top, width, zero - top);
  u.ctx.fillStyle = c.behind;
  u.ctx.fillRect(left, zero, width, top + height - zero);
  u.ctx.restore();
}

/** Who is ahead, and whether that is sure. */
export function aheadInWords(gains) {
  const { mean, error, n } = meanWithError(gains);
  if (mean === null) return "";
  const over = `over the last ${plural(n, "row")}`;
  const size = `${number(Math.abs(mean), 2)} nats a row`;
  if (error === null) return `By log score the ${mean >= 0 ? "model" : "baseline"} is ahead by ${size} ${over}.`;
  const give = `± ${number(1.96 * error, 2)}`;
  if (Math.abs(mean) < 1.96 * error) return `By log score neither is clearly ahead: ${signed(mean)} nats a row ${over} (${give}).`;
  return `By log score the ${mean > 0 ? "model" : "baseline"} is ahead by ${size} ${over} (${give}).`;
}

/** Rolling error rate of a classifier beside what its baselines come to. */
export class ErrorRateChart extends Rolling {
  constructor() {
    super("Rolling error rate", `Drawn from ${LEAST} labels on.`, (c) => this.options(c), (i) => this.words(i),
      legend([["m-model", `error rate, last ${WINDOW} labels`], ["m-dashed", "the better baseline, all labels"]]));
  }

  update(rows, timed, scores) {
    const scored = rows.scored.filter((row) => correct(row) !== null);
    this.means = rollingMeans(scored.map((row) => Number(!correct(row))), WINDOW, LEAST);
    const theirs = Object.values(scores?.baselines ?? {}).map((b) => b?.error_rate).filter((v) => Number.isFinite(v ?? NaN));
    const best = theirs.length ? 100 * Math.min(...theirs) : null;
    const now = this.means[this.means.length - 1];
    const summary = now && now.mean !== null ? `${percent(now.mean, 0)} ${windowed(now.n)} wrong${best === null ? "" : `; the better baseline ${percent(best / 100, 0)}`}.` : "";
    this.draw(scored, timed, [this.means.map(({ mean }) => (mean === null ? null : 100 * mean)), scored.map(() => best)], summary);
  }

  words(place) {
    const i = this.at(place);
    return `At row ${count(this.rows[i].row)}: ${percent(this.means[i].mean, 0)} ${windowed(this.means[i].n)} wrong.`;
  }

  options(c) {
    return {
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(10, 1.15 * (high ?? 10))] } },
      axes: [xAxis(c, this.isTime), yAxis(c, (v, step) => `${numberTo(v, step)}%`)],
      series: [{}, line(c.model, 2), line(c.muted, 1.5, [6, 4])],
    };
  }
}
