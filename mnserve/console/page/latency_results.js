// Latency of one or two models on one input: calls that alternate, so that both meet the same load.

import { send, sentence } from "./api.js";
import { Chart, base, valueAxis } from "./chart.js";
import { element } from "./dom.js";
import { median, milliseconds, number } from "./numbers.js";

export const CALLS = 20;

/**
 * Calls models in turns.
 *
 * @param {Object[]} models The models; each is called once before, uncounted.
 * @param {function(Object): Object} body Makes the body of a call.
 * @param {function(number)} onProgress Called with the number of calls so far.
 * @param {AbortSignal} signal Ends it.
 * @returns {Promise<Object[]>} For each model its inference and its round trips, in milliseconds.
 * @throws {Error} An image or a row has no answer: what takes no time would count as quick.
 */
export async function measure(models, body, onProgress, signal) {
  const times = models.map((model) => ({ model, inference: [], roundTrip: [] }));
  for (let turn = 0; turn <= CALLS; turn += 1) {
    for (const entry of times) {
      const started = performance.now();
      const answer = await send("predict", body(entry.model), signal);
      const failed = answer.results.find((result) => result.error);
      if (failed) throw new Error(sentence(failed.error, failed.name));
      if (turn === 0) continue;
      entry.roundTrip.push(performance.now() - started);
      entry.inference.push(answer.milliseconds);
    }
    onProgress(turn);
  }
  return times;
}

/** Makes the card of measured latencies; its chart is added to a list. */
export function latencyResult(times, charts) {
  const several = new Set(times.map(({ model }) => model.name)).size < times.length;
  const names = times.map(({ model }) => (several ? `${model.name}, version ${model.version}` : model.name));
  const middles = times.map((entry) => median(entry.inference));
  const chart = new Chart("Latency", {
    note: `inference on the server, median of ${CALLS} calls`,
    columns: ["Model", "Median", "Fastest", "Slowest", "Round trip, median"],
    size: "plot tiny",
  });
  const option = (color) => ({
    ...base(color),
    tooltip: { ...base(color).tooltip, axisPointer: { type: "shadow" }, valueFormatter: milliseconds },
    grid: { ...base(color).grid, top: 4, right: 60 },
    xAxis: valueAxis(color, milliseconds, { min: 0 }),
    yAxis: { type: "category", inverse: true, data: names, axisLabel: { color: color.ink, width: 150, overflow: "truncate" }, axisLine: { show: false }, axisTick: { show: false } },
    series: [{ name: "median", type: "bar", barMaxWidth: 18, data: middles, itemStyle: { color: color.first, borderRadius: [0, 3, 3, 0] }, label: { show: true, position: "right", color: color.ink, formatter: ({ value }) => milliseconds(value) } }],
  });
  const rows = times.map((entry, index) => [
    names[index],
    milliseconds(middles[index]),
    milliseconds(Math.min(...entry.inference)),
    milliseconds(Math.max(...entry.inference)),
    milliseconds(median(entry.roundTrip)),
  ]);
  chart.show(option, rows.map(([name, middle]) => `${name}: ${middle}`).join("; "), rows);
  charts.push(chart);
  const kept = times.some(({ model }) => model.keeps_answers);
  return element(
    "div",
    { class: "stack" },
    chart.card,
    times.length > 1 ? element("p", { class: "note" }, comparison(names, middles)) : null,
    kept ? element("p", { class: "note" }, "Answers are kept (response_cache), so repeated calls may be quicker than first ones.") : null,
  );
}

function comparison(names, middles) {
  const [slow, fast] = middles[0] >= middles[1] ? [0, 1] : [1, 0];
  return `${names[fast]} answers in ${milliseconds(middles[fast])}, ${names[slow]} in ${milliseconds(middles[slow])}: ${number(middles[slow] / middles[fast])} times as long.`;
}
