// Small helpers to build elements. Text always goes in as text: names, keys and ids come from users.

/** Make an element: h("p", { class: "note", onclick: f }, "text", child, null). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Set an element's text, only where it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide. */
export function show(element, visible) {
  element.hidden = !visible;
}

/**
 * Bring the children of `parent` in line with `items`: an item whose signature has not changed keeps its element, and
 * with it the focus and the selection.
 */
export function reconcile(parent, items, keyOf, make) {
  const old = parent.reconciled ?? new Map();
  const kept = new Map();
  const elements = items.map((item) => {
    const key = String(keyOf(item));
    const signature = JSON.stringify(item);
    const before = old.get(key);
    const entry = before?.signature === signature ? before : { signature, element: make(item) };
    kept.set(key, entry);
    return entry.element;
  });
  parent.reconciled = kept;
  const same = elements.length === parent.children.length && elements.every((e, i) => e === parent.children[i]);
  if (!same) parent.replaceChildren(...elements);
}

/** A panel with a heading: { section, body, note }. */
export function panel(title, id, ...body) {
  const heading = h("h2", { id: `${id}-title`, tabindex: "-1" }, title);
  const section = h("section", { class: "panel", id, "aria-labelledby": `${id}-title` }, heading, ...body);
  return { section, heading };
}

/** A table in a box that scrolls sideways where it must: { box, body }. Columns: [title, "n" for numbers]. */
export function table(label, columns) {
  const body = h("tbody");
  const head = h("tr", {}, columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)));
  const box = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    h("table", {}, h("thead", {}, head), body));
  return { box, body };
}

/** A table row of cells: strings, or [content, class]. The first is its heading. */
export function tableRow(cells) {
  return h("tr", {}, cells.map((cell, i) => {
    const [content, kind] = Array.isArray(cell) ? cell : [cell, null];
    return h(i ? "td" : "th", { class: kind, scope: i ? null : "row" }, content);
  }));
}
