// The panels of a stream that are lists and tables: alarms, experts, scores, pending labels, durability.

import { ageOf } from "./api.js";
import { fill, h, panel, reconcile, setText, show, table, tableRow } from "./dom.js";
import { between, bytes, clock, count, duration, NOTHING, number, percent, plural, rowTime } from "./format.js";
import { baselineName, sentence } from "./verdict.js";

const ALARMS_SHOWN = 10;
const EXPERTS_SHOWN = 10;

/** Alarms, newest first, each with a button to acknowledge it. `acknowledge(number)` sends that. */
export function alarmsPanel(acknowledge) {
  const list = h("ol", { class: "alarms" });
  const empty = h("p", { class: "empty" }, "No alarms.");
  const trouble = h("p", { class: "trouble", role: "alert" });
  const more = h("button", { type: "button", class: "plain", onclick: () => { all = true; draw(); } });
  const { section, heading } = panel("Alarms", "alarms", empty, trouble, list, more);
  let all = false;
  let alarms = [];

  async function send(alarm, button) {
    button.disabled = true;
    setText(trouble, "");
    try {
      await acknowledge(alarm.number);
      alarm.acknowledged = true;
      draw();
      (list.querySelector("button") ?? heading).focus();
    } catch (error) {
      button.disabled = false;
      setText(trouble, `Not acknowledged: ${error.message}`);
    }
  }

  function entry(alarm) {
    const where = [`row ${count(alarm.row)}`];
    if (alarm.time !== null && alarm.time !== undefined) where.push(rowTime(alarm.time));
    if (alarm.since !== null && alarm.since !== undefined) where.push(`since about row ${count(alarm.since)}`);
    where.push(`evidence ${number(alarm.evidence, 2)}`);
    if (alarm.at) where.push(`found ${clock(alarm.at)}`);
    const button = h("button", { type: "button", "aria-label": `Acknowledge alarm of row ${alarm.row}`, onclick: (event) => send(alarm, event.currentTarget) }, "Acknowledge");
    return h("li", { class: alarm.acknowledged ? "done" : "open" },
      h("div", {},
        h("p", {}, h("span", { class: "tag" }, alarm.kind), " ", alarm.target ? h("b", {}, `${alarm.target}: `) : null, sentence(alarm.sentence)),
        h("p", { class: "small" }, where.join(" · "))),
      alarm.acknowledged ? h("span", { class: "small" }, "acknowledged") : button);
  }

  function draw() {
    const shown = all ? alarms : alarms.slice(0, ALARMS_SHOWN);
    show(empty, alarms.length === 0);
    reconcile(list, shown, (alarm) => alarm.number, entry);
    show(more, shown.length < alarms.length);
    setText(more, `Show all ${count(alarms.length)}`);
  }

  function update(given) {
    show(section, given !== null);
    alarms = [...(given ?? [])].sort((a, b) => b.number - a.number);
    draw();
  }
  return { section, update };
}

/** The experts' weights as bars: the ten largest. */
export function expertsPanel() {
  const list = h("ol", { class: "bars" });
  const rest = h("p", { class: "small" });
  const { section } = panel("Experts' weights", "experts", list, rest);

  /** The weight at which a bar has its full length. */
  const fullOf = (largest) => [0.1, 0.25, 0.5].find((limit) => largest <= limit) ?? 1;

  function bar(expert) {
    const kind = [expert.basis, expert.dynamics].filter((part) => part && !String(expert.name).includes(part)).join(", ");
    const length = h("span", { class: "length" });
    length.style.width = `${Math.max(0.4, (100 * expert.weight) / expert.full)}%`;
    return h("li", {}, h("span", { class: "name" }, expert.name, kind ? h("small", {}, kind) : null), h("span", { class: "track", "aria-hidden": "true" }, length), h("span", { class: "n" }, percent(expert.weight)));
  }

  function update(experts) {
    show(section, Boolean(experts?.length));
    if (!experts?.length) return;
    const sorted = experts.map((expert, i) => ({ ...expert, i })).sort((a, b) => b.weight - a.weight);
    const full = fullOf(sorted[0].weight);
    const top = sorted.slice(0, EXPERTS_SHOWN).map((expert) => ({ ...expert, full, weight: Number(expert.weight.toFixed(4)) }));
    reconcile(list, top, (expert) => expert.i, bar);
    const others = sorted.slice(EXPERTS_SHOWN);
    const together = others.length ? ` ${plural(others.length, "other")} together: ${percent(others.reduce((sum, e) => sum + e.weight, 0))}.` : "";
    setText(rest, `A full bar is ${percent(full, 0)}.${together}`);
  }
  return { section, update };
}

const SCORES = {
  numbers: [["nmse", "NMSE"], ["rmse", "RMSE"], ["mae", "MAE"], ["pll", "log score"], ["crps", "CRPS"]],
  labels: [["error_rate", "error rate"], ["log_loss", "log loss"], ["brier", "Brier score"], ["ece", "calibration error"]],
};

/** All scores in a table, the model's beside the baselines'. */
export function scoresPanel() {
  const head = h("tr");
  const body = h("tbody");
  const note = h("p", { class: "small" });
  const box = h("div", { class: "scroll no-wrap", tabindex: "0", role: "group", "aria-label": "Scores" }, h("table", {}, h("thead", {}, head), body));
  const { section } = panel("Scores", "scores", box, note);
  let before = "";

  function update(scores) {
    show(section, Boolean(scores?.scored_rows));
    const signature = JSON.stringify(scores);
    if (!scores?.scored_rows || signature === before) return;
    before = signature;
    const theirs = Object.entries(scores.baselines ?? {}).filter(([, values]) => values);
    const recent = scores.recent?.rows && scores.recent.rows < scores.scored_rows ? scores.recent : null;
    const columns = ["", "model", ...theirs.map(([key]) => baselineName(key)), ...(recent ? [`model, last ${count(recent.rows)}`] : [])];
    fill(head, columns.map((title, i) => h(i ? "th" : "td", { scope: i ? "col" : null, class: i ? "n" : null }, title)));
    const cell = (key, value) => [key === "error_rate" || key === "ece" ? percent(value) : number(value), "n"];
    const lines = ("error_rate" in scores ? SCORES.labels : SCORES.numbers)
      .filter(([key]) => scores[key] !== null && scores[key] !== undefined)
      .map(([key, name]) => tableRow([name, cell(key, scores[key]), ...theirs.map(([, values]) => cell(key, values[key])), ...(recent ? [cell(key, recent[key])] : [])]));
    for (const level of ["50", "90", "95"]) {
      if (scores.coverage?.[level] === null || scores.coverage?.[level] === undefined) continue;
      lines.push(tableRow([`${level}% band held`, [percent(scores.coverage[level]), "n"], ...theirs.map(() => [NOTHING, "n"]), ...(recent ? [[percent(recent.coverage?.[level]), "n"]] : [])]));
    }
    fill(body, lines);
    setText(note, `${plural(scores.scored_rows, "scored row")} of ${count(scores.rows)}. Each was predicted before its label was known.`);
  }
  return { section, update };
}

/** Labels that are waited for: how many, since when, and the first. */
export function pendingPanel() {
  const line = h("p");
  const { box, body } = table("Rows that wait for their label", [["id"], ["row", "n"], ["key"], ["time"], ["predicted", "n"]]);
  const { section } = panel("Labels waiting", "pending", line, box);

  function update(pending) {
    show(section, pending !== null);
    if (!pending) return;
    show(box, pending.pending?.length > 0);
    const age = ageOf(pending.oldest_at);
    const first = pending.count > (pending.pending?.length ?? 0) ? ` The first ${count(pending.pending.length)}:` : "";
    setText(line, pending.count ? `${plural(pending.count, "row")} ${pending.count === 1 ? "waits" : "wait"} for ${pending.count === 1 ? "its label" : "their labels"}${age === null ? "" : `, the oldest for ${duration(age)}`}.${first}` : "No label is waiting.");
    const some = (name) => pending.pending.some((row) => row[name] !== null && row[name] !== undefined);
    box.classList.toggle("no-key", !some("key"));
    box.classList.toggle("no-time", !some("time"));
    const shown = pending.pending.map((row) => ({ ...row, ago: row.at ? `${duration(ageOf(row.at))} ago` : NOTHING }));
    reconcile(body, shown, (row) => row.row ?? row.id, (row) => tableRow([row.id ?? NOTHING, [count(row.row), "n"], [row.key ?? NOTHING, "key-column"], [rowTime(row.time), "time-column"], [row.ago, "n"]]));
  }
  box.querySelectorAll("th")[2].classList.add("key-column");
  box.querySelectorAll("th")[3].classList.add("time-column");
  return { section, update };
}

/** Where the log, the model and the checkpoint stand. */
export function durabilityPanel() {
  const failure = h("p", { class: "failure" });
  const list = h("dl", { class: "facts" });
  const { section } = panel("Durability", "durability", failure, list);

  function update(d) {
    show(section, Boolean(d));
    if (!d) return;
    show(failure, Boolean(d.failure));
    setText(failure, d.failure ? sentence(d.failure) : "");
    const age = ageOf(d.checkpoint_at);
    const checkpoint = d.checkpoint_position === null || d.checkpoint_position === undefined ? "none yet" : `${count(d.checkpoint_position)}${age === null ? "" : `, ${duration(age)} ago`}`;
    const facts = [["log position", count(d.position)], ["applied position", count(d.applied)], ["checkpoint position", checkpoint], ["recovery would take", between(d.recovery_seconds_at_best, d.recovery_seconds)], ["log size", bytes(d.log_bytes)]];
    if (d.restored_to !== null && d.restored_to !== undefined) facts.push(["set back to position", `${count(d.restored_to)}, ${duration(ageOf(d.restored_at))} ago`]);
    reconcile(list, facts, ([name]) => name, ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));
  }
  return { section, update };
}
