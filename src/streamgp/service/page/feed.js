// What is fetched of one stream, or of one key of it, and when.

import { get, getOptional, isPassing, pathOf } from "./api.js";
import { Rows } from "./rows.js";
import { rowsPerSecond } from "./stats.js";

export const KEPT = 500; // rows
const WHOLE_EVERY = 30_000; // milliseconds between requests for all rows: labels may come late, in any order
const EXPERTS_EVERY = 10_000;

export class Feed {
  constructor(name, key) {
    this.absent = new Set(); // resources that this stream does not have
    Object.assign(this, { name, key, detail: null, scores: null, experts: null, alarms: null, pending: null, challengers: null, about: null, ofKey: null });
    this.rows = new Rows(KEPT);
    this.wholeAt = -Infinity;
    this.expertsAt = -Infinity;
    this.position = null;
  }

  /** Seconds without a row after which the stream is stale; null where that is not known. */
  get staleLimit() {
    return (this.key === null ? this.detail?.stale_after : this.ofKey) ?? null;
  }

  get perSecond() {
    return rowsPerSecond(this.rows.rows.slice(-100).map((row) => row.at).filter(Boolean));
  }

  /** Fetch what has changed since the last time. */
  async refresh(signal) {
    const path = pathOf(this.name);
    const before = this.detail;
    this.detail = await get(path, {}, signal);
    const position = this.detail.position ?? null;
    const restarted = before !== null && (this.detail.rows < before.rows || this.detail.durability?.restored_at !== before.durability?.restored_at);
    const due = performance.now() - this.wholeAt >= WHOLE_EVERY || restarted;
    const changed = due || position === null || position !== this.position || this.detail.state !== before?.state || this.detail.open_alarms !== before?.open_alarms;
    if (!changed) return;
    await Promise.all([this.#rows(path, due, signal), this.#rest(path, due, signal)]);
    this.position = position;
  }

  async #rows(path, whole, signal) {
    if (this.detail.kind === "keyed" && this.key === null) {
      // rows of many keys make no curve; their moments say whether the stream is alive
      const some = await unlessPassing(getOptional(`${path}/recent`, { rows: 200 }, signal), null);
      if (some) this.rows.take(some, true);
      if (whole) this.wholeAt = performance.now();
      return;
    }
    const after = whole ? null : this.rows.last;
    const answer = await unlessPassing(getOptional(`${path}/recent`, { rows: KEPT, after, key: this.key }, signal), undefined);
    if (answer === undefined) return;
    this.ofKey = answer?.stale_after;
    this.rows.take(answer ?? {}, after === null);
    if (whole) this.wholeAt = performance.now();
  }

  async #rest(path, whole, signal) {
    if (this.key !== null) {
      const found = await unlessPassing(getOptional(`${path}/keys`, { search: this.key, sort: "name", limit: 100 }, signal), null);
      this.about = found?.keys.find((entry) => entry.key === this.key) ?? this.about;
      return;
    }
    const experts = whole || performance.now() - this.expertsAt >= EXPERTS_EVERY;
    const [scores, alarms, pending, challengers, weights] = await Promise.all([
      this.#part("scores", {}, signal),
      this.#part("alarms", {}, signal),
      this.#part("pending", { limit: 20 }, signal),
      this.#part("challengers", {}, signal),
      experts ? this.#part("experts", {}, signal) : null,
    ]);
    if (scores !== undefined) this.scores = scores;
    if (alarms !== undefined) this.alarms = alarms?.alarms ?? null;
    if (pending !== undefined) this.pending = pending;
    if (challengers !== undefined) this.challengers = challengers;
    if (experts && weights !== undefined) {
      this.experts = weights?.experts ?? null;
      this.expertsAt = performance.now();
    }
  }

  /** A resource of the stream; null and not asked for again where it has none; undefined where it is not to be had now. */
  async #part(resource, parameters, signal) {
    if (this.absent.has(resource)) return null;
    const answer = await unlessPassing(getOptional(`${pathOf(this.name)}/${resource}`, parameters, signal), undefined);
    if (answer === null) this.absent.add(resource);
    return answer;
  }
}

/** An answer, or `otherwise` where it is not to be had for the moment. */
async function unlessPassing(answer, otherwise) {
  try {
    return await answer;
  } catch (error) {
    if (isPassing(error)) return otherwise;
    throw error;
  }
}
