// The view of the traffic: figures of now, and charts of the last five minutes.

import { Chart, base, legend, valueAxis } from "./chart.js";
import { byId, element } from "./dom.js";
import { milliseconds, number } from "./numbers.js";

const SPAN = 300_000;
const SHORTEST_SPAN = 60_000;
const SHOWN_ROWS = 10;
const chosen = byId("traffic-model");

const TILES = [
  ["requests", "Requests", "a second", number],
  ["p50", "Median latency", "p50", milliseconds],
  ["p99", "Slowest in a hundred", "p99", milliseconds],
  ["batch", "Rows a batch", "mean", number],
  ["waiting", "Waiting", "requests", number],
  ["failures", "Failures", "a second", number],
];
const LINES = [
  { title: "Throughput", note: "requests a second", series: [["requests", "answered", "first"], ["failures", "failed", "bad"]], write: number },
  { title: "Latency", note: "milliseconds, of five seconds each", series: [["p50", "p50", "first"], ["p99", "p99", "second"]], write: milliseconds },
  { title: "Queue", note: "requests that wait", series: [["waiting", "waiting", "first"]], write: number },
];

/** Sets the view up; returns a function that shows a history of counters. */
export function setUpTraffic(history) {
  const tiles = new Map();
  for (const [name, label, unit] of TILES) {
    const value = element("dd", {}, "–");
    tiles.set(name, value);
    byId("tiles").append(element("div", { class: "card tile" }, element("dt", {}, label), value, element("dd", { class: "soft" }, unit)));
  }
  const lines = LINES.map((line) => ({
    ...line,
    chart: new Chart(line.title, { note: line.note, columns: ["Time", ...line.series.map(([, label]) => label)] }),
  }));
  const batches = new Chart("Batch sizes", { note: "batches by rows, last minute", columns: ["Rows", "Batches"] });
  byId("traffic-charts").append(lines[0].chart.card, lines[1].chart.card, batches.card, lines[2].chart.card);

  function show() {
    if (byId("view-traffic").hidden) return;
    const points = history.points(chosen.value);
    const latest = points.at(-1);
    for (const [name, , , write] of TILES) tiles.get(name).textContent = latest ? write(latest[name]) : "–";
    lines.forEach((line) => showLine(line, points));
    showBatches(batches, history.batchSizes(chosen.value));
  }

  chosen.addEventListener("change", show);
  return show;
}

/** Offers the served versions in the choice above the charts. */
export function offerModels(counters) {
  const wanted = counters.map((entry) => `${entry.name}\n${entry.version}`);
  if (JSON.stringify(wanted) === JSON.stringify([...chosen.options].slice(1).map((option) => option.value))) return;
  const before = chosen.value;
  while (chosen.options.length > 1) chosen.remove(1);
  for (const key of wanted) {
    const [name, version] = key.split("\n");
    chosen.append(element("option", { value: key }, `${name}, version ${version}`));
  }
  chosen.value = wanted.includes(before) ? before : "";
}

function showLine({ chart, series, write }, points) {
  const now = points.at(-1)?.at ?? Date.now();
  const names = series.map(([, label]) => label);
  const span = Math.min(SPAN, Math.max(SHORTEST_SPAN, now - (points[0]?.at ?? now)));
  const option = (color) => ({
    ...base(color),
    tooltip: { ...base(color).tooltip, valueFormatter: (value) => (value === null ? "–" : write(value)) },
    legend: names.length > 1 ? legend(color, names) : undefined,
    xAxis: {
      type: "time",
      min: now - span,
      max: now,
      splitNumber: 4,
      axisLabel: { color: color.soft, hideOverlap: true, formatter: (value) => time(value).slice(0, span > 120_000 ? 5 : 8) },
      axisLine: { lineStyle: { color: color.line } },
    },
    yAxis: valueAxis(color, (value) => write(value), { min: 0, minInterval: write === number ? 1 : undefined }),
    series: series.map(([name, label, shade]) => ({
      name: label,
      type: "line",
      showSymbol: points.length < 3,
      symbolSize: 4,
      connectNulls: false,
      lineStyle: { width: 2, color: color[shade] },
      itemStyle: { color: color[shade] },
      areaStyle: series[0][1] === label ? { color: color[shade], opacity: 0.12 } : undefined,
      data: points.map((point) => [point.at, Number.isFinite(point[name]) ? point[name] : null]),
    })),
  });
  chart.show(
    option,
    series.map(([name, label]) => spoken(label, points.map((point) => point[name]), write)).join(" "),
    points.slice(-SHOWN_ROWS).reverse().map((point) => [time(point.at), ...series.map(([name]) => write(point[name]))]),
  );
}

function spoken(label, values, write) {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return `No ${label} yet.`;
  return `Now ${write(values.at(-1))} ${label}, at most ${write(Math.max(...known))}.`;
}

function showBatches(chart, sizes) {
  const option = (color) => ({
    ...base(color),
    grid: { ...base(color).grid, top: 12 },
    xAxis: { type: "category", data: sizes.map(([rows]) => String(rows)), axisLabel: { color: color.soft }, axisLine: { lineStyle: { color: color.line } } },
    yAxis: valueAxis(color, (value) => number(value), { minInterval: 1 }),
    series: [{ name: "batches", type: "bar", barMaxWidth: 36, itemStyle: { color: color.first, borderRadius: [3, 3, 0, 0] }, data: sizes.map(([, count]) => count) }],
  });
  const most = sizes.reduce((best, pair) => (best && best[1] >= pair[1] ? best : pair), null);
  const summary = most ? `Most batches had ${most[0]} rows: ${number(most[1])} of them.` : "No batches in the last minute.";
  chart.show(option, summary, sizes.map(([rows, count]) => [String(rows), number(count)]));
}

function time(at) {
  return new Date(at).toLocaleTimeString("en-GB");
}
