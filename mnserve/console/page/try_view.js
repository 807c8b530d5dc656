// The view that tries a model: an input, the answer, and a second model beside it.

import { answerColumns, spoken } from "./answer_columns.js";
import { send } from "./api.js";
import { announce, byId, element, showText } from "./dom.js";
import { ImageInput } from "./image_input.js";
import { CALLS, latencyResult, measure } from "./latency_results.js";
import { RowInput, TensorInput } from "./text_input.js";

const WAYS = { images: "Images", rows: "Rows", tensors: "Tensors" };
const model = byId("trial-model");
const other = byId("trial-other");
const way = byId("trial-way");
const fault = byId("trial-fault");
const results = byId("trial-results");
const latency = byId("trial-latency");
const latencyLabel = latency.textContent;
let models = [];
let shown = "";
let input = null;
let inputKey = "";
let charts = [];
let running = null;

/** Sets the view up; returns a function that shows the models, and one that chooses a model. */
export function setUpTrial() {
  model.addEventListener("change", () => choose(""));
  other.addEventListener("change", () => reset());
  way.addEventListener("change", () => choose(way.value));
  byId("trial-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(predict);
  });
  latency.addEventListener("click", () => run(measureLatency));
  clear();
  return {
    show(server) {
      const served = server.models.filter((entry) => entry.kind);
      if (JSON.stringify(served) === shown) return;
      shown = JSON.stringify(served);
      models = served;
      const before = pairKey();
      const wanted = find(model.value) ?? models.find((entry) => entry.explains) ?? models[0];
      fill(model, models.map(optionOf), wanted ? keyOf(wanted) : "");
      showInput(way.value);
      if (pairKey() !== before) reset();
    },
    choose(wanted) {
      model.value = keyOf(wanted);
      choose("");
    },
  };
}

function keyOf(entry) {
  return `${entry.name}\n${entry.version}`;
}

function pairKey() {
  return JSON.stringify([model.value, other.value, way.value]);
}

function optionOf(entry) {
  const several = models.filter((model) => model.name === entry.name).length > 1;
  return [keyOf(entry), several ? `${entry.name}, version ${entry.version}` : entry.name];
}

function find(key) {
  return models.find((entry) => keyOf(entry) === key);
}

/** Offers pairs of value and text; what was wanted is chosen, where it is there. */
function fill(select, pairs, wanted) {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  if (pairs.some(([value]) => value === wanted)) select.value = wanted;
}

/** Takes what was chosen: answers of another model or input do not stay. */
function choose(wantedWay) {
  showInput(wantedWay);
  reset();
}

function showInput(wantedWay) {
  const chosen = find(model.value);
  const rivals = chosen ? models.filter((entry) => entry !== chosen && entry.kind === chosen.kind) : [];
  fill(other, [["", "no other model"], ...rivals.map(optionOf)], other.value);
  other.disabled = rivals.length === 0;
  const kinds = chosen ? [...new Set([chosen.kind, "tensors"])] : [];
  fill(way, kinds.map((kind) => [kind, WAYS[kind]]), wantedWay);
  byId("trial-way-label").hidden = kinds.length < 2;
  byId("explain-label").hidden = !chosen?.explains || way.value === "tensors";
  for (const button of byId("trial-form").querySelectorAll(".actions button")) button.disabled = !chosen;
  const taken = chosen && { images: chosen.image, rows: chosen.columns, tensors: chosen.inputs }[way.value];
  const key = chosen ? JSON.stringify([way.value, taken]) : "none";
  if (key === inputKey) return;
  inputKey = key;
  input = chosen ? makeInput(chosen) : null;
  byId("trial-input").replaceChildren(input ? input.node : element("p", { class: "soft" }, "No model is ready to be tried."));
}

function makeInput(chosen) {
  if (way.value === "images") return new ImageInput(chosen.image);
  return way.value === "rows" ? new RowInput(chosen) : new TensorInput(chosen);
}

/** Runs one action after the other; a new one ends the one before. */
async function run(action) {
  reset({ keepAnswers: true });
  const stop = new AbortController();
  running = stop;
  results.setAttribute("aria-busy", "true");
  const pair = [find(model.value), find(other.value)].filter(Boolean);
  try {
    await action(pair, await input.read(), stop.signal);
  } catch (error) {
    if (running === stop) {
      clear();
      showText(fault, error.message);
    }
  }
  if (running === stop) settle();
}

/** Ends what is running. */
function reset({ keepAnswers = false } = {}) {
  running?.abort();
  settle();
  showText(fault, "");
  if (!keepAnswers) clear();
}

function settle() {
  running = null;
  results.setAttribute("aria-busy", "false");
  latency.textContent = latencyLabel;
}

function body(entry, content, explain) {
  return { model: entry.name, version: String(entry.version), explain: explain && entry.explains, ...content };
}

async function predict(pair, content, signal) {
  const explain = byId("trial-explain").checked;
  const outcomes = [];
  for (const entry of pair) outcomes.push(await outcome(entry, body(entry, content, explain), signal));
  signal.throwIfAborted();
  if (outcomes.length === 1 && outcomes[0].error) throw outcomes[0].error;
  clear();
  results.replaceChildren(...answerColumns(outcomes, Object.keys(content)[0], charts));
  results.dataset.columns = outcomes.length;
  announce(outcomes.map(spoken).join(" "));
}

/** Asks one model: its fault does not take the answer of the other away. */
async function outcome(entry, content, signal) {
  try {
    return { entry, answer: await send("predict", content, signal) };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return { entry, error };
  }
}

async function measureLatency(pair, content, signal) {
  const single = content.images ? { images: content.images.slice(0, 1) } : content;
  const tell = (turn) => {
    if (!signal.aborted) latency.textContent = `Measuring ${turn} of ${CALLS}`;
  };
  const times = await measure(pair, (entry) => body(entry, single, false), tell, signal);
  signal.throwIfAborted();
  clear();
  results.replaceChildren(latencyResult(times, charts));
  results.dataset.columns = 1;
  announce("Latency measured.");
}

function clear() {
  charts.forEach((chart) => chart.drop());
  charts = [];
  results.dataset.columns = 1;
  results.replaceChildren(element("p", { class: "placeholder soft" }, "Answers appear here."));
}
