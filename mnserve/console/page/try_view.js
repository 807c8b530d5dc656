// The view that tries a model: an input, the answer, and a second model beside it.

import { send, sentence } from "./api.js";
import { announce, byId, element, isolated, showText } from "./dom.js";
import { ImageInput } from "./image_input.js";
import { imageResult } from "./image_results.js";
import { CALLS, latencyResult, measure } from "./latency_results.js";
import { milliseconds } from "./numbers.js";
import { rowResults, tensorResults } from "./table_results.js";
import { RowInput, TensorInput } from "./text_input.js";

const model = byId("trial-model");
const other = byId("trial-other");
const results = byId("trial-results");
let models = [];
let input = null;
let inputKey = "";
let charts = [];
let running = null;

/** Sets the view up; returns a function that shows the models, and one that chooses a model. */
export function setUpTrial() {
  model.addEventListener("change", chooseModel);
  other.addEventListener("change", () => showText(byId("trial-fault"), ""));
  byId("trial-form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(predict);
  });
  byId("trial-latency").addEventListener("click", () => run(measureLatency));
  clear();
  return {
    show(server) {
      const served = server.models.filter((entry) => entry.kind);
      if (JSON.stringify(served) === JSON.stringify(models)) return;
      models = served;
      const wanted = find(model.value) ?? models.find((entry) => entry.explains) ?? models[0];
      fill(model, models, wanted ? keyOf(wanted) : "");
      chooseModel();
    },
    choose(wanted) {
      model.value = keyOf(wanted);
      chooseModel();
    },
  };
}

function keyOf(entry) {
  return `${entry.name}\n${entry.version}`;
}

function nameOf(entry) {
  const several = models.filter((model) => model.name === entry.name).length > 1;
  return several ? `${entry.name}, version ${entry.version}` : entry.name;
}

function find(key) {
  return models.find((entry) => keyOf(entry) === key);
}

function fill(select, entries, wanted, empty) {
  const options = entries.map((entry) => element("option", { value: keyOf(entry) }, nameOf(entry)));
  select.replaceChildren(...(empty ? [element("option", { value: "" }, empty)] : []), ...options);
  if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
}

function chooseModel() {
  const chosen = find(model.value);
  const rivals = chosen ? models.filter((entry) => entry !== chosen && entry.kind === chosen.kind) : [];
  fill(other, rivals, other.value, "no other model");
  other.disabled = rivals.length === 0;
  byId("explain-label").hidden = !chosen?.explains;
  for (const button of byId("trial-form").querySelectorAll(".actions button")) button.disabled = !chosen;
  const key = chosen ? JSON.stringify([chosen.kind, chosen.image, chosen.columns, chosen.kind === "tensors" ? chosen.inputs : null]) : "";
  if (key === inputKey) return;
  inputKey = key;
  input = chosen ? makeInput(chosen) : null;
  byId("trial-input").replaceChildren(input ? input.node : element("p", { class: "soft" }, "No model is ready to be tried."));
}

function makeInput(chosen) {
  if (chosen.kind === "images") return new ImageInput(chosen.image);
  return chosen.kind === "rows" ? new RowInput(chosen) : new TensorInput(chosen);
}

/** Runs one action after the other; a new one ends the one before. */
async function run(action) {
  running?.abort();
  const stop = new AbortController();
  running = stop;
  results.setAttribute("aria-busy", "true");
  showText(byId("trial-fault"), "");
  const pair = [find(model.value), find(other.value)].filter(Boolean);
  try {
    await action(pair, await input.read(), stop.signal);
  } catch (error) {
    if (error.name !== "AbortError") showText(byId("trial-fault"), error.message);
  }
  if (running === stop) {
    running = null;
    results.setAttribute("aria-busy", "false");
  }
}

function body(entry, content, explain) {
  return { model: entry.name, version: String(entry.version), explain: explain && entry.explains, ...content };
}

async function predict(pair, content, signal) {
  const explain = byId("trial-explain").checked;
  const answers = [];
  for (const entry of pair) answers.push(await send("predict", body(entry, content, explain), signal));
  clear();
  const agreement = answers.length === 2 && pair[0].kind === "images" ? agreed(answers) : null;
  results.replaceChildren(...(agreement ? [agreement] : []), ...answers.map((answer, index) => answerColumn(answer, pair[index])));
  results.dataset.columns = answers.length;
  announce(answers.map(spoken).join(" "));
}

/** Tells for how many images two models give the same class. */
function agreed(answers) {
  const [first, second] = answers.map((answer) => answer.results.map((result) => result.classes?.[0].label));
  const answered = first.filter((label, index) => label !== undefined && second[index] !== undefined).length;
  const same = first.filter((label, index) => label !== undefined && label === second[index]).length;
  if (answered === 0) return null;
  const text = answered === 1 ? (same ? "Both give the same class." : "They give different classes.") : `Both give the same class for ${same} of ${answered} images.`;
  return element("p", { class: "note wide" }, text);
}

async function measureLatency(pair, content, signal) {
  const button = byId("trial-latency");
  const single = content.images ? { images: content.images.slice(0, 1) } : content;
  const label = button.textContent;
  try {
    const times = await measure(pair, (entry) => body(entry, single, false), (turn) => (button.textContent = `Measuring ${turn} of ${CALLS}`), signal);
    clear();
    results.replaceChildren(latencyResult(times, charts));
    results.dataset.columns = 1;
    announce("Latency measured.");
  } finally {
    button.textContent = label.startsWith("Measuring") ? "Measure latency" : label;
  }
}

function answerColumn(answer, entry) {
  const notes = [...answer.notes, ...(entry.finding && !answer.notes.includes(entry.finding) ? [entry.finding] : [])];
  return element(
    "section",
    { class: "column", "aria-label": `Answers of ${answer.model}` },
    element(
      "header",
      { class: "answerer" },
      element("h2", {}, isolated(answer.model), element("span", { class: "soft" }, `version ${answer.version}`)),
      element("p", { class: "soft" }, `${milliseconds(answer.milliseconds)} of inference`),
    ),
    notes.map((note) => element("p", { class: "note" }, sentence(note))),
    resultNodes(answer, entry),
  );
}

function resultNodes(answer, entry) {
  if (entry.kind === "images") return answer.results.map((result) => imageResult(result, charts));
  return entry.kind === "rows" ? rowResults(answer.results) : tensorResults(answer.results);
}

function spoken(answer) {
  const [first] = answer.results;
  if (!first || first.error) return `${answer.model}: ${first?.error ?? "no answer"}.`;
  const what = first.classes?.[0].label ?? first.label ?? (first.values && !first.datatype ? Object.entries(first.values).map(([name, value]) => `${name} ${value}`).join(", ") : "answered");
  return `${answer.model}: ${what}${answer.results.length > 1 ? `, and ${answer.results.length - 1} more` : ""}.`;
}

function clear() {
  charts.forEach((chart) => chart.drop());
  charts = [];
  results.replaceChildren(element("p", { class: "placeholder soft" }, "Answers appear here."));
}
