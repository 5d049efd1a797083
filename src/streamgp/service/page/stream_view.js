// The page of one stream, or of one key of a fleet.

import { ageOf, pathOf, post } from "./api.js";
import { challengersPanel } from "./challengers.js";
import { LabelChart } from "./chart_labels.js";
import { PredictionChart } from "./chart_predictions.js";
import { CoverageChart, ErrorRateChart, LogScoreChart } from "./chart_rolling.js";
import { fill, h, panel, setText, show } from "./dom.js";
import { rowsExample } from "./examples.js";
import { count, duration, NOTHING, percent, plural } from "./format.js";
import { KEPT } from "./feed.js";
import { KeysPanel } from "./keys_panel.js";
import { alarmsPanel, durabilityPanel, expertsPanel, pendingPanel, scoresPanel } from "./panels.js";
import { streamAddress } from "./picker.js";
import * as verdict from "./verdict.js";

const MARKS = { good: ["✓", "Good"], warn: ["!", "Warning"], bad: ["✕", "Bad"], wait: ["…", "Note"] };
const SHOWN = [100, 250, KEPT];
const PHONE = 600; // pixels

/** One judgement with its mark, whose texts are set later. */
class Judgement {
  constructor(title) {
    this.mark = h("span", { class: "verdict-mark", "aria-hidden": "true" });
    this.word = h("span", { class: "hidden-text" });
    this.text = h("span", { class: "verdict-text" });
    this.aside = h("span", { class: "verdict-aside" });
    this.element = h("li", {}, this.mark, h("div", {}, h("span", { class: "verdict-title" }, title), this.word, this.text, this.aside));
  }

  set({ tone, text, aside }) {
    this.element.className = tone;
    setText(this.mark, MARKS[tone][0]);
    setText(this.word, ` (${MARKS[tone][1]}) `);
    setText(this.text, text);
    setText(this.aside, aside ?? "");
  }
}

export class StreamView {
  constructor(feed, main) {
    Object.assign(this, { feed, main, keyed: null, changeable: [] });
    const { name, key } = feed;
    this.title = h("h1", {}, key ?? name);
    this.about = h("p", { class: "about" });
    const up = key === null ? h("a", { class: "up only-narrow", href: "#/" }, "All streams") : h("a", { class: "up", href: streamAddress(name) }, `Stream ${name}`);
    this.notices = h("div", { class: "notices", role: "status" });
    this.wait = h("p", { class: "empty" }, "Reading the stream …");
    this.body = h("div");
    fill(main, up, this.title, this.about, this.notices, this.wait, this.body);
  }

  /** Bring everything in line with what the feed has. */
  update(staleLimit) {
    const { feed } = this;
    const { detail } = feed;
    if (!detail) return;
    show(this.wait, false);
    setText(this.about, aboutOf(detail, feed));
    this.#notices(detail);
    const labels = verdict.hasLabels(detail, feed.scores);
    if (detail.rows === 0 && !feed.rows.waiting.length && detail.state === "ready") this.#empty(detail);
    else {
      this.#build(labels);
      this.#judge(detail, labels, staleLimit);
      this.#charts(detail, labels);
      this.alarms?.update(feed.alarms);
      this.experts?.update(feed.experts);
      this.scores?.update(feed.scores);
      this.challengers?.update(feed.challengers, detail.model);
      this.pending?.update(feed.pending);
      this.durability?.update(detail.durability);
    }
  }

  /** Fetch what the page needs beside the feed. */
  async refresh(signal) {
    await this.keys?.update(signal);
  }

  destroy() {
    for (const part of this.changeable) part.destroy();
    this.changeable = [];
    this.keys?.destroy();
  }

  #notices(detail) {
    const lines = [];
    const { durability } = detail;
    if (detail.state === "failed" || durability?.failure) lines.push(["bad", `${detail.state === "failed" ? "The stream has failed. " : ""}${verdict.sentence(durability?.failure ?? "")}`]);
    if (detail.state === "replaying") {
      const done = durability?.replayed;
      lines.push(["wait", `Replaying the log after a restart${typeof done === "number" ? `: ${percent(done, 0)} done` : ""}. Rows are taken again when it is done.`, done]);
    }
    const warm = !detail.warmed_up && detail.rows > 0 && this.feed.key === null;
    if (warm) lines.push(["wait", `Warm-up: ${count(detail.rows)} of ${count(detail.warmup)} rows; a simple default model predicts until then.`, Math.min(1, detail.rows / detail.warmup)]);
    const signature = JSON.stringify(lines);
    if (signature === this.noticed) return;
    this.noticed = signature;
    fill(this.notices, lines.map(([tone, text, done]) => h("div", { class: `notice ${tone}` }, text, typeof done === "number" ? bar(done, text) : null)));
  }

  #empty(detail) {
    if (this.built === "empty") return;
    this.built = "empty";
    fill(this.body, h("section", { class: "panel" }, h("h2", {}, "No rows yet"), h("p", {}, "The stream is ready. Send it rows, for example:"), code(rowsExample(detail))));
  }

  #build(labels) {
    const kind = `${labels}`;
    if (this.built === kind) return;
    this.destroy();
    this.built = kind;
    const { feed } = this;
    const keyed = feed.detail.kind === "keyed" && feed.key === null;
    this.judgements = Object.fromEntries(
      (feed.key === null ? [["bands", labels ? "Probabilities" : "Error bars"], ["skill", "Baseline"], ["alive", "Rows"], ["alarms", "Alarms"], ["pending", "Labels"], ["durable", "Durability"]] : [["bands", "Error bars"], ["skill", "Baseline"], ["alive", "Rows"]]).map(([id, title]) => [id, new Judgement(title)]),
    );
    const verdicts = h("ul", { class: `verdicts${feed.key === null ? "" : " of-key"}`, "aria-label": "Verdict" }, Object.values(this.judgements).map((j) => j.element));
    const first = keyed ? this.#keysFirst() : [this.#rowsPanel(labels)];
    const rolling = keyed ? [] : labels ? this.#rolling([["Rolling error rate", "errors", "error", new ErrorRateChart()]]) : this.#rolling([["Rolling coverage", "coverage", "coverage", new CoverageChart()], ["Log score against the baseline", "score", "score", new LogScoreChart()]]);
    const [beside, below] = feed.key === null ? this.#panels() : [[], []];
    fill(this.body, verdicts, ...first, h("div", { class: "pair" }, columnsOf([...rolling, ...beside])), ...below);
  }

  #keysFirst() {
    this.keys = new KeysPanel(this.feed.name);
    return this.keys.sections;
  }

  #rowsPanel(labels) {
    this.rowsChart = labels ? new LabelChart() : new PredictionChart();
    this.changeable.push(this.rowsChart);
    this.rowsChart.shown = this.main.clientWidth < PHONE ? SHOWN[0] : SHOWN[1];
    const select = h("select", { id: "rows-shown", onchange: () => { this.rowsChart.shown = Number(select.value); this.#charts(this.feed.detail, labels); } },
      SHOWN.map((n) => h("option", { value: n, selected: n === this.rowsChart.shown }, String(n))));
    const { section, heading } = panel("The last rows", "rows", this.rowsChart.box);
    section.prepend(h("div", { class: "panel-head" }, heading, h("span", { class: "controls" }, h("label", { for: "rows-shown" }, "Rows shown"), select)));
    return section;
  }

  #rolling(charts) {
    return charts.map(([title, id, field, chart]) => {
      this[field] = chart;
      this.changeable.push(chart);
      return panel(title, id, chart.box).section;
    });
  }

  #panels() {
    const { feed } = this;
    this.alarms = alarmsPanel(async (alarm) => {
      await post(`${pathOf(feed.name, "alarms", alarm)}/acknowledge`);
      const known = feed.alarms?.find((entry) => entry.number === alarm);
      if (known) known.acknowledged = true;
      feed.detail.open_alarms = Math.max(0, (feed.detail.open_alarms ?? 0) - 1);
      this.judgements.alarms.set(verdict.judgeAlarms(feed.detail, feed.alarms));
    });
    this.experts = expertsPanel();
    this.scores = scoresPanel();
    this.challengers = challengersPanel(async (challenger) => {
      feed.challengers.promotion = await post(`${pathOf(feed.name, "challengers", encodeURIComponent(challenger))}/promote`, {});
      feed.challengers.challengers = feed.challengers.challengers.filter((entry) => entry.name !== challenger);
      this.challengers.update(feed.challengers, feed.detail.model);
    });
    this.pending = pendingPanel();
    this.durability = durabilityPanel();
    return [[this.alarms, this.experts, this.challengers, this.scores, this.pending].map((part) => part.section), [this.durability.section]];
  }

  #judge(detail, labels, staleLimit) {
    const { feed, judgements } = this;
    const scores = feed.key === null ? feed.scores : scoresOfKey(feed.about);
    judgements.bands.set(labels ? verdict.judgeProbabilities(scores) : verdict.judgeBands(scores));
    judgements.skill.set(verdict.judgeSkill(scores));
    const newest = feed.rows.rows.map((row) => row.at).filter(Boolean).sort().pop();
    const state = feed.key === null ? detail : { ...detail, last_at: newest ?? null, rows: feed.about?.rows ?? feed.rows.rows.length };
    judgements.alive.set(verdict.judgeAlive(state, staleLimit, feed.perSecond));
    judgements.alarms?.set(verdict.judgeAlarms(detail, feed.alarms));
    judgements.pending?.set(verdict.judgePending(detail, feed.pending));
    judgements.durable?.set(verdict.judgeDurable(detail));
  }

  #charts(detail, labels) {
    const { feed } = this;
    this.rowsChart?.update(feed.rows, feed.key === null ? feed.alarms : [], detail.timed);
    this.coverage?.update(feed.rows, detail.timed);
    this.score?.update(feed.rows, detail.timed);
    if (labels) this.error?.update(feed.rows, detail.timed, feed.scores);
  }
}

function scoresOfKey(about) {
  if (!about) return null;
  return { rows: about.rows, scored_rows: about.scored_rows, nmse: about.nmse, coverage: { 90: about.coverage }, baselines: { persistence: { nmse: about.nmse_persistence } }, judgement: judgementOfKey(about) };
}

function judgementOfKey(about) {
  const text = verdict.skillOfKey(about);
  return text === null ? null : { verdict: verdict.verdictOfKey(about), text };
}

function aboutOf(detail, feed) {
  const parts = [];
  if (feed.key !== null) {
    const { about } = feed;
    if (about) parts.push(plural(about.rows, "row"), plural(about.scored_rows, "scored row"));
    if (typeof about?.last_seen === "string" && ageOf(about.last_seen) !== null) parts.push(`last seen ${duration(ageOf(about.last_seen))} ago`);
    return parts.join(" · ") || "This key is not known.";
  }
  parts.push(`predicts ${detail.target ?? NOTHING}`);
  if (detail.features?.length) parts.push(`from ${detail.features.length > 4 ? plural(detail.features.length, "feature") : detail.features.join(", ")}`);
  const facts = [parts.join(" "), `${detail.task}, model ${detail.model}`, plural(detail.rows, "row")];
  if (detail.kind === "keyed") facts.push(plural(detail.keys, "key"));
  return facts.join(" · ");
}

/** Two columns of panels, filled by turns; on a narrow screen they follow each other. */
function columnsOf(sections) {
  return [0, 1].map((side) => h("div", {}, sections.filter((_, i) => i % 2 === side)));
}

/** A bar of what is done. */
function bar(done, label) {
  return h("progress", { max: "1", value: String(done), "aria-label": label });
}

/** A command to copy. */
export function code(text) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Command" }, h("pre", {}, h("code", {}, text)));
}
