// The view of the models: what is served and what is not, and why; and, for those who may, loading and unloading.

import { send } from "./api.js";
import { confirmed } from "./confirm.js";
import { announce, byId, element, isolated, showText } from "./dom.js";
import { milliseconds, number } from "./numbers.js";
import { refresh } from "./store.js";

const busy = new Map(); // name of a model -> what is being done to it
const faults = new Map(); // name of a model -> sentence of the last attempt that failed
const opened = new Set(); // names of the models whose tensors are seen
let shown = "";

/** Sets the view up; returns a function that shows the state of the server. */
export function setUpModels(history, tryModel) {
  let last = null;

  function show(server) {
    last = server;
    if (byId("view-models").hidden) return;
    const { status, models } = server;
    const ready = status.models.filter((state) => state.ready).length;
    byId("models-count").textContent = `${ready} of ${models.length} ready`;
    showText(byId("models-note"), note(status));
    const mayChange = status.control === "explicit" && status.may_control;
    const state = JSON.stringify([models, mayChange, [...busy], [...faults]]);
    if (state !== shown) {
      shown = state;
      keepingFocus(byId("models-table"), () => table(models, mayChange, change, tryModel));
    }
    for (const model of models) showFigures(model, history);
  }

  async function change(name, action) {
    if (action === "unload") {
      const question = `Requests for ${name} are refused until it is loaded again. Requests that it has admitted are still answered.`;
      if (!(await confirmed(`Unload ${name}?`, question, "Unload"))) return;
    }
    busy.set(name, action);
    faults.delete(name);
    show(last);
    let told;
    try {
      await send(`models/${encodeURIComponent(name)}/${action === "unload" ? "unload" : "load"}`, {});
      told = { load: "loaded.", reload: "loaded again.", unload: "unloaded." }[action];
    } catch (error) {
      faults.set(name, error.message);
      told = error.message;
    }
    busy.delete(name);
    await refresh();
    show(last);
    announce(`${name}: ${told}`);
  }

  return show;
}

function note(status) {
  if (status.control !== "explicit") {
    const source = { none: "as they were at the start", poll: "as the repository has them" }[status.control];
    return `This server serves the models ${source}. To load and unload them here, start it with --model-control explicit.`;
  }
  return status.may_control ? "" : "Your token is good for inference. Loading and unloading needs one that is good for control.";
}

function table(models, mayChange, change, tryModel) {
  const heads = ["Model", "State", "Requests a second", "p99", "Tensors", "Actions"];
  const first = new Map();
  models.forEach((model, index) => first.has(model.name) || first.set(model.name, index));
  return element(
    "table",
    { class: "models" },
    element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, models.map((model, index) => row(model, first.get(model.name) === index, mayChange, change, tryModel))),
  );
}

function row(model, isFirst, mayChange, change, tryModel) {
  const doing = busy.get(model.name);
  const buttons = [];
  if (model.kind) buttons.push(button("Try", model, () => tryModel(model), false));
  if (mayChange && isFirst) {
    buttons.push(button(model.loaded ? "Reload" : "Load", model, () => change(model.name, model.loaded ? "reload" : "load"), doing));
    if (model.loaded) buttons.push(button("Unload", model, () => change(model.name, "unload"), doing));
  }
  const version = model.version === null ? null : element("span", { class: "soft" }, `version ${model.version}`);
  const fault = isFirst ? faults.get(model.name) : null;
  return element(
    "tr",
    { "data-model": model.name, "data-version": model.version ?? "" },
    element("th", { scope: "row" }, isolated(model.name), version),
    element("td", {}, chip(model, isFirst ? doing : null), reason(model), fault ? element("p", { class: "fault" }, fault) : null),
    element("td", { class: "figure", "data-figure": "requests" }, "–"),
    element("td", { class: "figure", "data-figure": "p99" }, "–"),
    element("td", {}, model.kind ? signature(model) : null),
    element("td", { class: "buttons" }, buttons),
  );
}

function reason(model) {
  return model.ready || !model.loaded ? null : element("p", { class: "reason" }, isolated(model.reason));
}

function chip(model, doing) {
  if (doing) return element("span", { class: "chip", "data-state": "waiting" }, doing === "unload" ? "Unloading" : "Loading");
  if (model.ready) return element("span", { class: "chip", "data-state": "ready" }, "Ready");
  if (!model.loaded) return element("span", { class: "chip", "data-state": "off" }, "Not loaded");
  return element("span", { class: "chip", "data-state": "failed" }, "Not ready");
}

function signature(model) {
  const open = opened.has(model.name);
  const note = (event) => (event.target.open ? opened.add(model.name) : opened.delete(model.name));
  const counted = (list, noun) => `${list.length} ${noun}${list.length === 1 ? "" : "s"}`;
  return element(
    "details",
    { open, toggle: note },
    element("summary", {}, `${counted(model.inputs, "input")}, ${counted(model.outputs, "output")}`),
    tensors("Takes", model.inputs),
    tensors("Answers", model.outputs),
  );
}

function tensors(title, list) {
  const lines = list.map((tensor) =>
    element("li", {}, isolated(tensor.name), " ", element("span", { class: "soft" }, `${tensor.datatype} ${shape(tensor)}`)),
  );
  return [element("p", { class: "soft" }, title), element("ul", { class: "tensors" }, lines)];
}

function shape(tensor) {
  return tensor.shape === null ? "any shape" : `[${tensor.shape.map((size) => (size < 0 ? "n" : size)).join(", ")}]`;
}

function button(label, model, press, disabled) {
  return element("button", { type: "button", "data-action": label, "aria-label": `${label} ${model.name}`, disabled: Boolean(disabled), click: press }, label);
}

function showFigures(model, history) {
  if (!model.kind) return;
  const latest = history.latest(`${model.name}\n${model.version}`);
  for (const line of byId("models-table").querySelectorAll("tbody tr")) {
    if (line.dataset.model !== model.name || line.dataset.version !== String(model.version)) continue;
    line.querySelector('[data-figure="requests"]').textContent = latest ? number(latest.requests) : "–";
    line.querySelector('[data-figure="p99"]').textContent = latest ? milliseconds(latest.p99) : "–";
  }
}

/** Replaces the content of an element; the button that had the focus has it again. */
function keepingFocus(target, make) {
  const label = target.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  target.replaceChildren(make());
  if (label) [...target.querySelectorAll("button")].find((item) => item.getAttribute("aria-label") === label)?.focus();
}
