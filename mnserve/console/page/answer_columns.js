// Answers of one or two models to one input, each in a column of its own: an answer, or the reason why there is none.

import { sentence } from "./api.js";
import { element, isolated } from "./dom.js";
import { imageResult } from "./image_results.js";
import { milliseconds } from "./numbers.js";
import { rowResults, tensorResults } from "./table_results.js";

/**
 * Makes the columns.
 *
 * @param {Object[]} outcomes For each model its entry, and an answer or an error.
 * @param {string} kind What was sent: images, rows or tensors.
 * @param {Object[]} charts Charts of the columns are added here, so that they can be dropped.
 * @returns {Node[]} A sentence on both, where there is one, and the columns.
 */
export function answerColumns(outcomes, kind, charts) {
  const agreement = kind === "images" && outcomes.length === 2 && outcomes.every(({ answer }) => answer) ? agreed(outcomes) : null;
  return [...(agreement ? [agreement] : []), ...outcomes.map((outcome) => column(outcome, kind, charts))];
}

/** Tells an outcome in a few words. */
export function spoken({ entry, answer, error }) {
  if (error) return `${entry.name}: ${error.message}`;
  const [first] = answer.results;
  if (!first || first.error) return `${answer.model}: ${first?.error ?? "no answer"}.`;
  const what = first.classes?.[0].label ?? first.label ?? (first.values && !first.datatype ? Object.entries(first.values).map(([name, value]) => `${name} ${value}`).join(", ") : "answered");
  return `${answer.model}: ${what}${answer.results.length > 1 ? `, and ${answer.results.length - 1} more` : ""}.`;
}

/** Tells for how many images two models give the same class. */
function agreed(outcomes) {
  const [first, second] = outcomes.map(({ answer }) => answer.results.map((result) => result.classes?.[0].label));
  const answered = first.filter((label, index) => label !== undefined && second[index] !== undefined).length;
  const same = first.filter((label, index) => label !== undefined && label === second[index]).length;
  if (answered === 0) return null;
  const text = answered === 1 ? (same ? "Both give the same class." : "They give different classes.") : `Both give the same class for ${same} of ${answered} images.`;
  return element("p", { class: "note wide" }, text);
}

function column({ entry, answer, error }, kind, charts) {
  const head = (time) =>
    element(
      "header",
      { class: "answerer" },
      element("h2", {}, isolated(entry.name), element("span", { class: "soft" }, `version ${entry.version}`)),
      time ? element("p", { class: "soft" }, time) : null,
    );
  const label = { class: "column", "aria-label": `Answers of ${entry.name}` };
  if (error) return element("section", label, head(""), element("p", { class: "card fault" }, error.message));
  const finding = kind !== "tensors" && entry.finding && !answer.notes.includes(entry.finding) ? [entry.finding] : [];
  return element(
    "section",
    label,
    head(`${milliseconds(answer.milliseconds)} of inference`),
    [...answer.notes, ...finding].map((note) => element("p", { class: "note" }, sentence(note))),
    resultNodes(answer, kind, charts),
  );
}

function resultNodes(answer, kind, charts) {
  if (kind === "images") return answer.results.map((result) => imageResult(result, charts));
  return kind === "rows" ? rowResults(answer.results) : tensorResults(answer.results);
}
