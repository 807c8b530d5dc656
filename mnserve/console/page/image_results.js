// Answers to images: classes with and without adaptation, and the neighbors that shaped them.

import { sentence } from "./api.js";
import { Chart, base, legend, valueAxis } from "./chart.js";
import { element, isolated } from "./dom.js";
import { percent } from "./numbers.js";

/** Makes the card of one image. Its charts are added to a list, so that they can be dropped. */
export function imageResult(result, charts) {
  if (result.error) return element("article", { class: "card" }, element("p", { class: "fault" }, sentence(result.error, result.name)));
  const [best] = result.classes;
  const chart = classChart(result);
  charts.push(chart);
  return element(
    "article",
    { class: "card answer" },
    element(
      "div",
      { class: "query" },
      element("img", { src: result.picture, alt: `The image as the model saw it: ${result.name}`, class: "pixels" }),
      element(
        "div",
        {},
        element("h3", {}, isolated(best.label), element("span", { class: "soft" }, percent(best.probability))),
        element("p", { class: "soft" }, isolated(result.name)),
        verdict(best, result.explanation),
      ),
    ),
    chart.card,
    result.explanation ? neighbors(result.explanation.neighbors) : null,
  );
}

function verdict(best, explanation) {
  if (explanation === null) return null;
  const changed = explanation.label !== best.label;
  return element(
    "p",
    { class: changed ? "changed" : "soft" },
    changed ? "Adaptation changed the class. Without it: " : "Without adaptation: ",
    isolated(explanation.label),
    `, ${percent(explanation.probability)}`,
  );
}

function classChart(result) {
  const explained = result.explanation !== null;
  const { classes } = result;
  const names = explained ? ["with adaptation", "without"] : ["probability"];
  const chart = new Chart("Classes", { note: "probability", columns: ["Class", ...names], size: "plot small" });
  const option = (color) => ({
    ...base(color),
    tooltip: { ...base(color).tooltip, axisPointer: { type: "shadow" }, valueFormatter: percent },
    legend: explained ? legend(color, names) : undefined,
    grid: { ...base(color).grid, top: explained ? 26 : 4, right: 18 },
    xAxis: valueAxis(color, (value) => `${Math.round(100 * value)} %`, { min: 0, max: 1, splitNumber: 2 }),
    yAxis: {
      type: "category",
      inverse: true,
      data: classes.map((item) => item.label),
      axisLabel: { color: color.ink, width: 110, overflow: "truncate" },
      axisLine: { show: false },
      axisTick: { show: false },
    },
    series: [
      bar(names[0], classes.map((item) => item.probability), color.first),
      ...(explained ? [bar(names[1], classes.map((item) => item.unadapted), color.second)] : []),
    ],
  });
  const rows = result.classes.map((item) => [item.label, percent(item.probability), ...(explained ? [percent(item.unadapted)] : [])]);
  chart.show(option, rows.map((cells) => cells.join(", ")).join("; "), rows);
  return chart;
}

function bar(name, data, shade) {
  return { name, type: "bar", data, barMaxWidth: 12, itemStyle: { color: shade, borderRadius: [0, 3, 3, 0] } };
}

function neighbors(list) {
  const most = Math.max(...list.map((neighbor) => neighbor.weight), 1e-9);
  return element(
    "section",
    { class: "neighbors" },
    element("h4", {}, "Neighbors that shaped it ", element("span", { class: "soft" }, "share of the attention")),
    element("ol", {}, list.map((neighbor) => neighborItem(neighbor, most))),
  );
}

function neighborItem(neighbor, most) {
  const share = element("span", { class: "share", "aria-hidden": "true" });
  share.style.width = `${(100 * neighbor.weight) / most}%`;
  return element(
    "li",
    {},
    element("p", {}, element("b", {}, isolated(neighbor.label)), ` ${percent(neighbor.weight)} `, element("span", { class: "soft" }, `entry ${neighbor.entry}`)),
    element("span", { class: "whole" }, share),
    neighbor.images.length ? element("div", { class: "pictures" }, neighbor.images.map(trainingImage)) : null,
  );
}

function trainingImage(image) {
  return element(
    "figure",
    {},
    element("img", { src: image.picture, alt: `Training image ${image.position}, ${image.label}`, class: "pixels" }),
    element("figcaption", {}, isolated(image.label), ` #${image.position}`),
  );
}
