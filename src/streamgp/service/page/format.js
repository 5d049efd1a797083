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
  return known(time) ? number(time, 6) : String(time);
}

/** Ticks of an axis of time: hours, with the date below where it changes. */
export function timeTicks(values, increment) {
  let last = null;
  return values.map((seconds) => {
    const d = new Date(seconds * 1000);
    const date = day(d);
    if (increment >= 86400) return date;
    const time = `${two(d.getHours())}:${two(d.getMinutes())}${increment < 60 ? `:${two(d.getSeconds())}` : ""}`;
    const text = date === last ? time : `${time}\n${date}`;
    last = date;
    return text;
  });
}
