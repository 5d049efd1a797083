// The statistics that the page computes itself, from the rows it has.

/** The quantile of sorted values, by linear interpolation. */
export function quantile(sorted, p) {
  if (!sorted.length) return null;
  const place = p * (sorted.length - 1);
  const low = Math.floor(place);
  const high = Math.ceil(place);
  return sorted[low] + (place - low) * (sorted[high] - sorted[low]);
}

const ranges = new Map();

/** The shares between which 95% of binomial shares lie: n draws with chance p, exact unless there are very many. */
export function binomialRange(n, p) {
  const name = `${n} ${p}`;
  if (!ranges.has(name)) ranges.set(name, rangeOf(n, p));
  return ranges.get(name);
}

function rangeOf(n, p) {
  const tail = 0.025;
  if (n > 20_000) return [p - 1.96 * Math.sqrt((p * (1 - p)) / n), p + 1.96 * Math.sqrt((p * (1 - p)) / n)];
  let logTerm = n * Math.log(1 - p); // of k = 0
  let below = 0;
  let low = null;
  for (let k = 0; k <= n; k += 1) {
    below += Math.exp(logTerm);
    if (low === null && below > tail) low = k;
    if (below >= 1 - tail) return [low / n, k / n];
    logTerm += Math.log((n - k) / (k + 1)) + Math.log(p / (1 - p));
  }
  return [(low ?? 0) / n, 1];
}

/** Means of the last `window` values at each place, of fewer at first but of `least`; before that null. */
export function rollingMeans(values, window, least) {
  const means = [];
  let sum = 0;
  values.forEach((value, i) => {
    sum += value;
    if (i >= window) sum -= values[i - window];
    const n = Math.min(i + 1, window);
    means.push(n >= least ? { mean: sum / n, n } : { mean: null, n });
  });
  return means;
}

/** The mean and its standard error by means of batches, which allows for dependence between neighbours. */
export function meanWithError(values) {
  const n = values.length;
  if (n < 40) return { mean: n ? values.reduce((a, b) => a + b, 0) / n : null, error: null, n };
  const size = Math.floor(Math.sqrt(n));
  const batches = Math.floor(n / size);
  const means = [];
  for (let b = 0; b < batches; b += 1) {
    const start = n - (batches - b) * size;
    means.push(values.slice(start, start + size).reduce((a, c) => a + c, 0) / size);
  }
  const middle = means.reduce((a, b) => a + b, 0) / batches;
  const variance = means.reduce((a, b) => a + (b - middle) ** 2, 0) / (batches - 1);
  return { mean: values.reduce((a, b) => a + b, 0) / n, error: Math.sqrt(variance / batches), n };
}

/** Rows a second over the rows' own moments; null where they all came at once. */
export function rowsPerSecond(moments) {
  const times = moments.map((m) => Date.parse(m) / 1000).filter(Number.isFinite);
  if (times.length < 5) return null;
  const span = Math.max(...times) - Math.min(...times);
  return span > 0 ? (times.length - 1) / span : null;
}
