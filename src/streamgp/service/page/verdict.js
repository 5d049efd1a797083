// What the numbers say, in words. Each judgement is { tone, text, aside }: tone is "good", "warn", "bad" or "wait".

import { ageOf } from "./api.js";
import { between, bytes, count, duration, number, percent, plural, share } from "./format.js";
import { binomialRange } from "./stats.js";

export const LEAST = 100; // scored rows before anything is judged
const PRACTICAL = 0.03; // a band that is off by less is nearly right

const BASELINES = {
  persistence: "repeating the last value",
  running_mean: "predicting the running mean",
  last_label: "repeating the last label",
  last_grade: "repeating the last grade",
  frequencies: "predicting the frequencies so far",
};

/** The name of a baseline in words. */
export function baselineName(key) {
  return BASELINES[key] ?? key.replaceAll("_", " ");
}

/** Whether a stream's rows are labels with probabilities rather than numbers with bands. */
export function hasLabels(detail, scores) {
  return detail.task === "classification" || (detail.task === "ordinal" && Boolean(scores) && !scores.coverage && "error_rate" in scores);
}

/** The judgement before there is enough to judge; null where there is. */
function tooEarly(scores) {
  if (!scores) return { tone: "wait", text: "The scores are not known yet." };
  const scored = scores.scored_rows ?? 0;
  return scored < LEAST ? { tone: "wait", text: `Too early to judge: ${count(scored)} labels of ${LEAST}.` } : null;
}

/** The scores of the recent rows where there are enough, else of all. */
function latest(scores) {
  const recent = scores.recent;
  return recent && recent.rows >= LEAST ? { ...recent, n: recent.rows } : { ...scores, n: scores.scored_rows };
}

function ofLabels(n, scores) {
  return n >= scores.scored_rows ? `all ${count(n)} labels` : `the last ${count(n)} labels`;
}

/** Whether the 90% band holds what it promises. */
export function judgeBands(scores) {
  const early = tooEarly(scores);
  if (early) return early;
  const part = latest(scores);
  const held = part.coverage?.["90"];
  if (held === null || held === undefined) return { tone: "wait", text: "The coverage of the error bars is not known." };
  const [low, high] = binomialRange(part.n, 0.9);
  const fact = `the 90% band held ${share(held, part.n)} of ${ofLabels(part.n, scores)}`;
  const aside = `A right band would hold ${share(low, part.n)} to ${share(high, part.n)}.`;
  if (held >= low && held <= high) return { tone: "good", text: `The error bars hold what they promise: ${fact}.`, aside };
  const little = Math.abs(held - 0.9) <= PRACTICAL ? "slightly " : "";
  if (held < low) return { tone: little ? "warn" : "bad", text: `The error bars are ${little}too narrow: ${fact}.`, aside };
  return { tone: "warn", text: `The error bars are ${little}too wide: ${fact}.`, aside };
}

const TONES = { better: "good", worse: "bad", undecided: "warn" };

/** Whether the model is better than the best of its naive baselines, in the service's own words. */
export function judgeSkill(scores) {
  const early = tooEarly(scores);
  if (early) return early;
  const part = latest(scores).judgement ? latest(scores) : { ...scores, n: scores.scored_rows };
  if (!part.judgement) return { tone: "wait", text: "No baseline to compare with yet." };
  return { tone: TONES[part.judgement.verdict], text: part.judgement.text, aside: `Over ${ofLabels(part.n, scores)}.` };
}

/** Whether a key is better than the better one of its naive baselines: "better", "worse", "undecided", or null. */
export function verdictOfKey(key) {
  if (!Number.isFinite(key.skill_low ?? NaN) || !Number.isFinite(key.skill_high ?? NaN)) return null;
  return key.skill_low > 0 ? "better" : key.skill_high < 0 ? "worse" : "undecided";
}

/** The same in words. */
export function skillOfKey(key) {
  const verdict = verdictOfKey(key);
  if (verdict === null) return null;
  const than = { better: "Better than", worse: "Worse than", undecided: "Cannot be told apart from" }[verdict];
  const saved = (value) => percent(value, value && Math.abs(value) < 0.0005 ? 4 : 1);
  return `${than} the better of the last target and the mean so far: ${saved(Math.abs(key.skill))} ${key.skill >= 0 ? "less" : "more"} squared error (95% interval of what is saved: ${saved(key.skill_low)} to ${saved(key.skill_high)}).`;
}

/** Whether predicted probabilities come true. */
export function judgeProbabilities(scores) {
  const early = tooEarly(scores);
  if (early) return early;
  if (!Number.isFinite(scores.ece ?? NaN)) return { tone: "wait", text: "The calibration of the probabilities is not known." };
  // 15 bins of right probabilities differ from their shares by about this much, by chance alone
  const chance = 0.8 * Math.sqrt((15 * scores.error_rate * (1 - scores.error_rate)) / scores.scored_rows);
  const fact = `they are off by ${(100 * scores.ece).toFixed(1)} percentage points on average`;
  const aside = `Expected calibration error over all ${count(scores.scored_rows)} labels.`;
  if (scores.ece <= PRACTICAL + chance) return { tone: "good", text: `The probabilities hold what they promise: ${fact}.`, aside };
  return { tone: scores.ece > 0.1 + chance ? "bad" : "warn", text: `The probabilities are not calibrated: ${fact}.`, aside };
}

/** Whether rows still come. `limit`: seconds after which the stream is stale; null where that is not known. */
export function judgeAlive(detail, limit, perSecond) {
  const age = ageOf(detail.last_at);
  if (detail.state === "failed") return { tone: "bad", text: "Failed: it takes no rows." };
  if (detail.state === "replaying") return { tone: "wait", text: "Replaying the log after a restart." };
  if (!detail.rows || age === null) return { tone: "wait", text: "No row yet." };
  const last = `the last row came ${duration(age)} ago`;
  if (limit === null || limit === undefined) return { tone: age > 3600 ? "wait" : "good", text: `${last[0].toUpperCase()}${last.slice(1)}.` };
  if (age > limit) return { tone: "bad", text: `Stale: ${last}.`, aside: `It is called stale after ${duration(limit)}, judged by how far apart its rows usually are.` };
  const rate = perSecond === null ? null : perSecond >= 1 ? `About ${number(perSecond, 2)} rows a second.` : `About one row every ${duration(1 / perSecond)}.`;
  return { tone: "good", text: `Alive: ${last}.`, aside: rate };
}

/** What changed: alarms that nobody has acknowledged. */
export function judgeAlarms(detail, alarms) {
  const open = detail.open_alarms ?? 0;
  if (!alarms && !open) return { tone: "wait", text: detail.state === "replaying" ? "Not known until the log is replayed." : "This kind of stream has no alarms." };
  const newest = (alarms ?? []).filter((alarm) => !alarm.acknowledged).sort((a, b) => b.number - a.number)[0] ?? null;
  if (open) return { tone: "warn", text: `${plural(open, "unacknowledged alarm")}.`, aside: newest ? sentence(newest.sentence) : null };
  const total = alarms?.length ?? 0;
  return { tone: "good", text: total ? `All ${plural(total, "alarm")} acknowledged.` : "No alarms.", aside: null };
}

/** Which labels are waited for. */
export function judgePending(detail, pending) {
  const waiting = pending?.count ?? detail.pending ?? 0;
  if (!waiting) return { tone: "good", text: "No label is waiting.", aside: null };
  const age = ageOf(pending?.oldest_at);
  return { tone: "wait", text: `${plural(waiting, "label")} waiting.`, aside: age === null ? null : `The oldest prediction was made ${duration(age)} ago.` };
}

/** Whether everything that was taken in would survive a crash. */
export function judgeDurable(detail) {
  const d = detail.durability;
  if (!d) return { tone: "wait", text: "Durability is not known." };
  if (d.failure) return { tone: "bad", text: "Not durable.", aside: sentence(d.failure) };
  const behind = Math.max(0, (d.position ?? 0) - (d.applied ?? 0));
  const known = Number.isFinite(d.recovery_seconds ?? NaN);
  const aside = known ? `A restart would take about ${between(d.recovery_seconds_at_best, d.recovery_seconds)}. Log: ${bytes(d.log_bytes)}.` : null;
  if (behind && detail.state === "ready") return { tone: "good", text: `Everything is in the log; ${plural(behind, "entry", "entries")} still to be applied.`, aside };
  return { tone: "good", text: "Everything is in the log.", aside };
}

/** A sentence of the service with a capital and a full stop. */
export function sentence(text) {
  const trimmed = String(text ?? "").trim();
  if (!trimmed) return "";
  const ended = /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return ended[0].toUpperCase() + ended.slice(1);
}
