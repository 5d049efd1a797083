// The panel of a stream's challengers: each beside the model that answers, and a button to let one answer.

import { h, panel, reconcile, setText, show } from "./dom.js";
import { count, number, plural, signed } from "./format.js";
import { sentence } from "./verdict.js";

const TONES = { better: "good", worse: "bad", undecided: "wait" };
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, EDGE] = [240, 24, 6];

/** What is written of a challenger beside its name: the verdict, or why there is none yet. */
export function wordOf(challenger) {
  if (challenger.state === "failed") return { tone: "bad", word: "failed" };
  if (challenger.state !== "ready") return { tone: "wait", word: "warming up" };
  return { tone: TONES[challenger.verdict], word: challenger.verdict };
}

/** Where a challenger stands, in words, and what it is. */
export function linesOf(challenger) {
  if (challenger.state === "failed") return [sentence(challenger.failure ?? ""), optionsOf(challenger)];
  const facts = [optionsOf(challenger), `since position ${count(challenger.since)}`];
  if (challenger.behind > 0) facts.push(`${plural(challenger.behind, "row")} behind`);
  if (challenger.low === null || challenger.low === undefined) return ["No row has been predicted by both after their warm-ups.", facts.join(" · ")];
  const text = `${signed(challenger.difference)} nats a row beside the stream's own model (${signed(challenger.low)} to ${signed(challenger.high)}), over ${plural(challenger.scored_rows, "row")}.`;
  return [text, facts.join(" · ")];
}

function optionsOf({ options }) {
  const given = Object.entries(options ?? {}).filter(([, value]) => !Array.isArray(value) || value.length);
  const said = given.map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`);
  return said.length ? said.join("; ") : "default options";
}

/** The largest distance from zero that the intervals reach. */
export function reachOf(challengers) {
  return Math.max(0, ...challengers.flatMap(({ low, high }) => [low, high]).map((end) => Math.abs(Number(end ?? 0))));
}

/** The interval as a line beside zero, where the stream's own model is; null where there is none. */
function picture({ low, high, difference, verdict }, reach) {
  if (low === null || low === undefined || !(reach > 0)) return null;
  const at = (value) => (WIDTH / 2 + (value / reach) * (WIDTH / 2 - EDGE)).toFixed(1);
  const shape = (tag, attributes) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const middle = HEIGHT / 2;
  const drawn = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `interval ${TONES[verdict]}`, "aria-hidden": "true" });
  drawn.append(
    shape("line", { x1: WIDTH / 2, x2: WIDTH / 2, y1: 2, y2: HEIGHT - 2, class: "own" }),
    shape("line", { x1: at(low), x2: at(high), y1: middle, y2: middle }),
    shape("circle", { cx: at(difference), cy: middle, r: 3.5 }),
  );
  return drawn;
}

/** The stream's own model, with which the others are compared. */
function own(model) {
  return h("li", {}, h("div", {}, h("p", {}, h("b", {}, model), " ", h("span", { class: "word good" }, "answers")), h("p", { class: "small" }, "The stream's own model, with which the others are compared.")));
}

/** Challengers, each with a button to promote it once it may be. `promote(name)` sends that. */
export function challengersPanel(promote) {
  const list = h("ol", { class: "challengers" });
  const about = h("p", { class: "small" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const { section, heading } = panel("Challengers", "challengers", list, trouble, about);

  async function send(name, button) {
    if (!confirm(`Let ${name} answer from now on? The stream's own model ends.`)) return;
    button.disabled = true;
    setText(trouble, "");
    try {
      await promote(name);
      heading.focus();
    } catch (error) {
      button.disabled = false;
      setText(trouble, `Not promoted: ${error.message}`);
    }
  }

  function entry({ challenger, reach, model }) {
    if (!challenger) return own(model);
    const { name } = challenger;
    const { tone, word } = wordOf(challenger);
    const [text, facts] = linesOf(challenger);
    const may = challenger.state === "ready";
    return h("li", {},
      h("div", {},
        h("p", {}, h("b", {}, name), " ", h("span", { class: `word ${tone}` }, word)),
        h("p", {}, text), picture(challenger, reach), h("p", { class: "small" }, facts)),
      may ? h("button", { type: "button", "aria-label": `Promote ${name}`, onclick: (event) => send(name, event.currentTarget) }, "Promote") : null);
  }

  function update(found, model) {
    const all = found?.challengers ?? [];
    const promotion = found?.promotion;
    show(section, all.length > 0 || Boolean(promotion));
    const reach = reachOf(all);
    const others = all.map((challenger) => ({ challenger: { ...challenger, scores: null }, reach }));
    reconcile(list, all.length ? [{ model }, ...others] : [], ({ challenger }) => challenger?.name ?? "", entry);
    const drawn = reach > 0 ? `Differences of the log score, on rows that both predicted. The upright line is the stream's own model; a picture reaches ${number(reach, 2)} nats to either side. The 95% intervals hold whenever one looks.` : "";
    const last = promotion ? `${promotion.promoted} answers since position ${count(promotion.position)}.` : "";
    setText(about, [last, drawn].filter(Boolean).join(" "));
  }
  return { section, update };
}
