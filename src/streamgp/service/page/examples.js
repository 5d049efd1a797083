// The commands that the page shows where there is nothing to see yet.

import { token } from "./api.js";

const HEADER = () => (token.get() ? ' \\\n  -H "Authorization: Bearer $TOKEN"' : "");

/** How to create a stream. */
export function createExample() {
  return `curl ${location.origin}/v1/streams \\
  -H "Content-Type: application/json"${HEADER()} \\
  -d '{"name": "power", "target": "load", "features": ["temperature", "hour"]}'`;
}

/** How to send rows to a stream. */
export function rowsExample(detail) {
  const x = Object.fromEntries((detail.features ?? []).map((name, i) => [name, detail.categories?.[name]?.[0] ?? i + 0.5]));
  const row = { ...(detail.kind === "keyed" ? { key: "first" } : {}), ...(detail.timed ? { time: 0 } : {}), x, y: 1.5 };
  return `curl ${location.origin}/v1/streams/${encodeURIComponent(detail.name)}/step \\
  -H "Content-Type: application/json"${HEADER()} \\
  -d '${JSON.stringify({ rows: [row] }).replaceAll("'", "'\\''")}'`;
}
