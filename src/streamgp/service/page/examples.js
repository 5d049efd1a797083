// The commands that the page shows where there is nothing to see yet.

import { token } from "./api.js";

const HEADER = () => (token.get() ? ' \\\n  -H "Authorization: Bearer $TOKEN"' : "");

/** How to create a stream. */
export function createExample() {
  return `curl -X PUT ${location.origin}/v1/streams/power \\
  -H "Content-Type: application/json"${HEADER()} \\
  -d '{"target": "load", "features": ["temperature", "hour"]}'`;
}

/** How to send rows to a stream. */
export function rowsExample(detail) {
  const row = Object.fromEntries([...(detail.features ?? []), detail.target].filter(Boolean).map((name, i) => [name, i + 0.5]));
  return `curl -X POST ${location.origin}/v1/streams/${encodeURIComponent(detail.name)}/rows \\
  -H "Content-Type: application/json"${HEADER()} \\
  -d '${JSON.stringify({ rows: [row] }).replaceAll("'", "'\\''")}'`;
}
