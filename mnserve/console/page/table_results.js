// Answers to rows and to tensors, as tables.

import { sentence } from "./api.js";
import { element, isolated } from "./dom.js";
import { percent } from "./numbers.js";

/** Makes the table of the answers to rows. */
export function rowResults(results) {
  const columns = [...new Set(results.flatMap((result) => Object.keys(result.cells)))];
  const answered = results.find((result) => !result.error);
  const answers = answered ? answerColumns(answered) : [];
  const explained = Boolean(answered?.explanation);
  const heads = ["Row", ...answers.map((column) => column.head), ...(explained ? ["Neighbors"] : []), ...columns];
  return element(
    "article",
    { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Answers to the rows" },
    element(
      "table",
      { class: "rows" },
      element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, isolated(head))))),
      element("tbody", {}, results.map((result) => rowLine(result, answers, explained, columns))),
    ),
  );
}

function answerColumns(result) {
  if (!result.values) {
    return [
      { head: "Class", write: (row) => [row.label, row.probability] },
      ...(result.explanation ? [{ head: "Without adaptation", write: (row) => [row.explanation.unadapted.label, row.explanation.unadapted.probability] }] : []),
    ];
  }
  const targets = Object.keys(result.values);
  return [
    ...targets.map((target) => ({ head: target, write: (row) => [row.values[target]] })),
    ...(result.explanation ? targets.map((target) => ({ head: `${target} without adaptation`, write: (row) => [row.explanation.unadapted[target]] })) : []),
  ];
}

function rowLine(result, answers, explained, columns) {
  const cells = columns.map((column) => element("td", {}, isolated(result.cells[column] ?? "")));
  const head = element("th", { scope: "row" }, result.row);
  if (result.error) {
    return element("tr", {}, head, element("td", { class: "fault", colspan: answers.length + (explained ? 1 : 0) || 1 }, sentence(result.error)), cells);
  }
  return element(
    "tr",
    {},
    head,
    answers.map((column, index) => element("td", { class: index ? "" : "best" }, written(column.write(result)))),
    explained ? element("td", {}, rowNeighbors(result.explanation.neighbors)) : null,
    cells,
  );
}

function written([value, probability]) {
  return [isolated(value), probability === undefined ? null : element("span", { class: "soft" }, ` ${percent(probability)}`)];
}

function rowNeighbors(neighbors) {
  return element(
    "ol",
    { class: "brief" },
    neighbors.map((neighbor) =>
      element(
        "li",
        {},
        `${percent(neighbor.weight)} `,
        isolated(neighbor.label ?? Object.values(neighbor.values).join(", ")),
        element("span", { class: "soft" }, ` entry ${neighbor.entry}`),
      ),
    ),
  );
}

/** Makes the cards of output tensors. */
export function tensorResults(outputs) {
  return outputs.map((output) =>
    element(
      "article",
      { class: "card" },
      element("h3", {}, isolated(output.name), element("span", { class: "soft" }, `${output.datatype} [${output.shape.join(", ")}]`)),
      element("pre", { tabindex: "0", "aria-label": `Values of ${output.name}` }, values(output)),
    ),
  );
}

function values(output) {
  // Numbers that JSON or JavaScript would change are texts: only those of a model of texts have quotes.
  const write = output.datatype === "BYTES" ? (value) => JSON.stringify(value) : String;
  const width = output.shape.at(-1) || 1;
  const lines = [];
  for (let start = 0; start < output.values.length; start += width) {
    lines.push(output.values.slice(start, start + width).map((value) => write(value)).join("  "));
  }
  if (output.values.length < output.count) lines.push(`… ${output.count - output.values.length} more`);
  return lines.join("\n");
}
