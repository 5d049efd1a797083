// The last rows of a stream or of one key, brought together from answers that overlap.

/** Whether a row's truth is within a band; null where either is unknown. */
export function within(row, low, high) {
  const [y, a, b] = [row.y, row[low], row[high]];
  if (![y, a, b].every((v) => typeof v === "number" && Number.isFinite(v))) return null;
  return y >= a && y <= b;
}

/** Whether a row's truth is within the central half of what was predicted, by the level at which it came. */
export function inHalf(row) {
  return typeof row.pit === "number" && Number.isFinite(row.pit) ? Math.abs(row.pit - 0.5) <= 0.25 : null;
}

/** Whether the label that was predicted is the true one; null where either is unknown. */
export function correct(row) {
  const known = row.label !== null && row.label !== undefined && row.y !== null && row.y !== undefined;
  return known ? String(row.label) === String(row.y) : null;
}

export class Rows {
  constructor(limit) {
    this.limit = limit;
    this.rows = [];
    this.waiting = [];
  }

  /** The number of the newest row; null before the first. */
  get last() {
    return this.rows.length ? this.rows[this.rows.length - 1].row : null;
  }

  /** Take an answer in. `whole`: it holds all that should be kept. */
  take(answer, whole) {
    const byNumber = new Map(whole ? [] : this.rows.map((row) => [row.row, row]));
    for (const row of answer.rows ?? []) byNumber.set(row.row, row);
    this.rows = [...byNumber.values()].sort((a, b) => a.row - b.row).slice(-this.limit);
    this.waiting = [...(answer.waiting ?? [])].sort((a, b) => (a.row ?? Infinity) - (b.row ?? Infinity));
  }

  /** Rows that are scored: after the warm-up, with a truth. */
  get scored() {
    return this.rows.filter((row) => !row.warmup && row.y !== null && row.y !== undefined);
  }
}
