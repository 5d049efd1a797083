// Numbers, times and sizes as text.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export const NOTHING = "–";

const known = (value) => value !== null && value !== undefined && value !== "" && Number.isFinite(Number(value));

/** A whole number with thousands separators. */
export function count(value) {
  return known(value) ? WHOLE.format(value) : NOTHING;
}

/** "1 row", "2,345 rows". */
export function plural(value, noun, nouns = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : nouns}`;
}

/** A number with so many significant digits. */
export function number(value, digits = 3) {
  if (!known(value)) return NOTHING;
  const x = Number(value);
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return x.toExponential(digits - 1).replace("e+", "e").replace("-", "−").replace("e-", "e−");
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = x.toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: decimals });
  return text.replace("-", "−");
}

/** A number as precise as a step: 20,014.5 with a step of 0.1. */
export function numberTo(value, step) {
  if (!known(value) || !(step > 0)) return number(value);
  const size = Math.abs(Number(value));
  if (size >= 1e9 || step < 1e-5) return number(value, Math.min(12, 1 + Math.max(2, Math.floor(Math.log10(size / step)))));
  let decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const rest = step * 10 ** decimals;
  if (rest < 10 && Math.abs(rest - Math.round(rest)) > 1e-6) decimals += 1; // steps of 2.5
  return Number(value).toLocaleString("en-US", { maximumFractionDigits: decimals, minimumFractionDigits: decimals }).replace("-", "−");
}

/** A number with its sign: "+0.31". */
export function signed(value, digits = 2) {
  return known(value) && value > 0 ? `+${number(value, digits)}` : number(value, digits);
}

/** A share of 1 as percent. */
export function percent(value, decimals = 1) {
  return known(value) ? `${(100 * value).toFixed(decimals)}%` : NOTHING;
}

/** A percentage that needs no decimals where it is whole or many rows are not there to justify them. */
export function share(value, n) {
  return percent(value, n !== undefined && n < 200 ? 0 : 1);
}

/** Seconds as "3 s", "4 min", "2 h 10 min", "3 days". */
export function duration(seconds) {
  if (!known(seconds)) return NOTHING;
  const s = Math.max(0, seconds);
  if (s < 0.95) return s < 0.05 ? "under 0.1 s" : `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 && hours < 10 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.round(hours / 24)} days`;
}

/** Two ends in seconds as "3 s to 38 s", or as one where they are close. */
export function between(low, high) {
  return known(low) && known(high) && high > 1.5 * low ? `${duration(low)} to ${duration(high)}` : duration(high);
}

/** Bytes as "1.2 MB". */
export function bytes(value) {
  if (!known(value)) return NOTHING;
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let size = Number(value);
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

const two = (n) => String(n).padStart(2, "0");
const day = (d) => d.toLocaleDateString("en-GB", { day: "numeric", month: "short" });

/** A moment on this machine's clock: the time of day, with the date unless it is today. */
export function clock(moment) {
  const d = moment instanceof Date ? moment : new Date(moment);
  if (Number.isNaN(d.getTime())) return NOTHING;
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const now = new Date();
  if (d.toDateString() === now.toDateString()) return time;
  return `${day(d)}${d.getFullYear() === now.getFullYear() ? "" : ` ${d.getFullYear()}`}, ${time}`;
}

/** Seconds since 1970 of a row's time: of an ISO string or of a number that can only be a date; null otherwise. */
export function epoch(time) {
  if (typeof time === "string" && time.trim() !== "" && !known(time)) {
    const ms = Date.parse(time);
    return Number.isNaN(ms) ? null : ms / 1000;
  }
  const x = Number(time);
  if (!known(time)) return null;
  if (x >= 4e8 && x < 1e10) return x;
  return x >= 4e11 && x < 1e13 ? x / 1000 : null;
}

/** A row's time as text. */
export function rowTime(time) {
  if (time === null || time === undefined) return NOTHING;
  const seconds = epoch(time);
  if (seconds !== null) return clock(new Date(seconds * 1000));
  return known(time) ? Number(time).toLocaleString("en-US", { maximumSignificantDigits: 10 }) : String(time);
}

/** Steps between ticks of an axis of time, in seconds. */
export const TIME_STEPS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 7, 14, 30, 60, 90, 180, 365, 730, 1825, 3650].map((days) => days * 86400)];

/** Places of ticks, at round times of this machine's clock. */
export function timePlaces(low, high, step) {
  const shift = -60 * new Date(low * 1000).getTimezoneOffset();
  const places = [];
  for (let t = Math.ceil((low + shift) / step) * step - shift; t <= high; t += step) places.push(Number(t.toFixed(3)));
  return places;
}

/** Ticks of an axis of time: hours, with the date below where it changes; days, with the year. */
export function timeTicks(values, step) {
  let last = null;
  return values.map((seconds) => {
    const d = new Date(Math.round(seconds * 1000));
    const [upper, lower] = step >= 86400 ? [day(d), String(d.getFullYear())] : [timeOfDay(d, step), day(d)];
    const text = lower === last ? upper : `${upper}\n${lower}`;
    last = lower;
    return text;
  });
}

function timeOfDay(d, step) {
  const minutes = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (step >= 60) return minutes;
  const fraction = step < 1 ? `.${String(d.getMilliseconds()).padStart(3, "0")}` : "";
  return `${minutes}:${two(d.getSeconds())}${fraction}`;
}
