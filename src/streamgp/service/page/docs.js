// The page of requests: every route of /openapi.json, whom it lets in, what it takes and what it answers.

import { get, Problem, token } from "./api.js";
import { fill, h, table, tableRow } from "./dom.js";

const GROUPS = {
  service: "The service",
  streams: "Streams",
  stream: "A stream",
  challengers: "Its challengers",
  standby: "A standby",
};
const main = document.getElementById("main");
const routes = document.getElementById("routes");

/** A name for a route in the address of this page. */
const anchor = (method, path) => `${method}${path}`.replace(/[^a-z]+/g, "-").replace(/-$/, "");

/** What values a schema allows, in a few words. */
function kindOf(schema) {
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(", ");
  const types = [schema.type ?? "any"].flat();
  const words = types.map((type) => {
    if (type === "array") return schema.items ? `list of ${kindOf(schema.items)}` : "list";
    return { string: "text", integer: "whole number", boolean: "true or false" }[type] ?? type;
  });
  return [...new Set(words)].join(", ");
}

/** The fields of an object, each list of objects followed by what these have: [name, schema, whether it must be given]. */
function fieldsOf(schema, before = "") {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const own = [`${before}${name}`, field, (schema.required ?? []).includes(name)];
    return [own, ...(field.items?.properties ? fieldsOf(field.items, `${before}· `) : [])];
  });
}

/** Text with what stands between backticks as code. */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** A table of fields. */
function fieldTable(label, fields) {
  const { box, body } = table(label, [["name"], ["value"], ["what it is"]]);
  fill(body, fields.map(([name, schema, isRequired]) => {
    const more = schema.default === undefined || schema.default === "" ? "" : ` Default: ${JSON.stringify(schema.default)}.`;
    return tableRow([h("code", {}, name), kindOf(schema) + (isRequired ? "; needed" : ""), h("span", {}, prose(`${schema.description ?? ""}${more}`.trim()))]);
  }));
  return box;
}

/** Text of a program in a box that scrolls. */
function shown(label, text) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, h("pre", {}, h("code", {}, text)));
}

/** The request as a command. */
function command(method, path, operation, example) {
  const address = path.replace("{name}", "power").replace("{number}", "0").replace("{challenger}", "lagged");
  const lines = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${address}`];
  if (operation.security?.length && token.get()) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  if (example !== undefined) {
    lines.push(`-H "Content-Type: application/json"`);
    lines.push(`-d '${JSON.stringify(example).replaceAll("'", "'\\''")}'`);
  }
  return lines.join(" \\\n  ");
}

/** A form that asks, for what changes nothing. */
function asking(path, operation) {
  const fields = (operation.parameters ?? []).map((each) => [each, h("input", { name: each.name, autocomplete: "off", spellcheck: "false", required: each.required })]);
  const answer = h("div", { role: "status" });
  const form = h("form", { class: "controls" }, fields.map(([each, input]) => h("label", {}, each.name, input)), h("button", { type: "submit" }, "Ask"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = (where) => Object.fromEntries(fields.filter(([each]) => each.in === where).map(([each, input]) => [each.name, input.value.trim()]));
    const filled = Object.entries(value("path")).reduce((text, [name, given]) => text.replace(`{${name}}`, encodeURIComponent(given)), path);
    try {
      fill(answer, shown("The answer", JSON.stringify(await get(filled, value("query")), null, 1)));
    } catch (error) {
      fill(answer, h("p", { class: "trouble" }, error.message));
    }
  });
  return h("details", {}, h("summary", {}, "Ask this service"), form, answer);
}

/** All about one route. */
function routeOf(method, path, operation) {
  const id = anchor(method, path);
  const body = operation.requestBody?.content ?? {};
  const json = body["application/json"];
  const [status, done] = Object.entries(operation.responses).find(([each]) => each.startsWith("2"));
  const [kind, answer] = Object.entries(done.content)[0];
  const isJson = kind === "application/json";
  const refusals = Object.keys(operation.responses).filter((each) => !each.startsWith("2")).sort();
  const parameters = (operation.parameters ?? []).map((each) => [each.name, { ...each.schema, description: each.description }, each.required]);
  const inAnswer = fieldsOf(answer.schema ?? {});
  return h("section", { class: "panel route", "aria-labelledby": id },
    h("h2", { id, tabindex: "-1" }, operation.summary),
    h("p", { class: "address" }, h("span", { class: `method ${method}` }, method.toUpperCase()), h("code", {}, path)),
    h("p", { class: "small" }, `Needs ${operation["x-needs"]}${operation.security?.length ? ", where the service has tokens" : ""}.`),
    parameters.length ? [h("h3", {}, "In the address"), fieldTable(`Parameters of ${operation.summary}`, parameters)] : null,
    json ? [h("h3", {}, `Body: ${Object.keys(body).join(", ")}`), fieldTable(`Body of ${operation.summary}`, fieldsOf(json.schema))] : null,
    h("h3", {}, "Example"), shown(`Example of ${operation.summary}`, command(method, path, operation, json?.example)),
    h("h3", {}, `Answer: ${status}, ${kind}`), shown(`Answer to ${operation.summary}`, isJson ? JSON.stringify(answer.example, null, 1) : answer.example),
    inAnswer.length ? h("details", {}, h("summary", {}, "What is in the answer"), fieldTable(`Answer of ${operation.summary}`, inAnswer)) : null,
    refusals.length ? h("p", { class: "small" }, `Refused with ${refusals.join(", ")}: application/problem+json, whose detail says what was expected and what to do.`) : null,
    method === "get" && isJson ? asking(path, operation) : null);
}

function show({ paths }) {
  const all = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ method, path, operation })));
  const groups = Object.entries(GROUPS).map(([tag, title]) => [title, all.filter(({ operation }) => operation.tags?.includes(tag))]);
  fill(routes, h("div", { class: "lists" }, groups.map(([title, members]) => h("div", {}, h("h2", {}, title), h("ul", {},
    members.map(({ method, path, operation }) => h("li", {}, h("a", { href: `#${anchor(method, path)}` }, operation.summary))))))));
  fill(main, h("h1", {}, "Requests"),
    h("p", { class: "about" }, "All that this service answers, JSON in and out. Examples are of a stream named power, with long lists cut short. ",
      token.get() ? "The same for programs is at /openapi.json." : ["The same for programs: ", h("a", { href: "/openapi.json" }, "openapi.json"), "."]),
    groups.flatMap(([, members]) => members.map(({ method, path, operation }) => routeOf(method, path, operation))));
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

/** The question for the token, where there is none that holds. */
function askToken(isRefused) {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h("form", { class: "panel token" }, h("h1", {}, "Token needed"),
    isRefused ? h("p", { class: "trouble", role: "alert" }, "The service refused this token.") : null,
    h("label", { for: "token" }, "Token"), h("div", { class: "controls" }, field, h("button", { type: "submit" }, "Open")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    open();
  });
  fill(main, form);
}

async function open() {
  try {
    show(await get("/openapi.json"));
  } catch (error) {
    if (error instanceof Problem && error.status === 401) {
      const isRefused = Boolean(token.get());
      token.forget();
      askToken(isRefused);
    } else fill(main, h("p", { class: "trouble", role: "alert" }, error.message));
  }
}

open();
