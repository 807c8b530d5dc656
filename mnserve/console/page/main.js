// The page: its views, the state in its head, and the calls once a second.

import "./no_markup.js";
import { History } from "./counters.js";
import { byId, showText } from "./dom.js";
import { setUpModels } from "./models_view.js";
import { onFailure, onUpdate, refresh, server } from "./store.js";
import { askForToken, setUpTokens } from "./token_dialog.js";
import { offerModels, setUpTraffic } from "./traffic_view.js";
import { setUpTrial } from "./try_view.js";

const VIEWS = ["traffic", "models", "try"];
const history = new History();
const showTraffic = setUpTraffic(history);
const trial = setUpTrial();
const showModels = setUpModels(history, (model) => {
  location.hash = "#try";
  trial.choose(model);
});

function showView() {
  const wanted = location.hash.slice(1);
  const view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) byId(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${view}-title`).textContent} – ${byId("server-name").textContent}`;
  if (server.status) showAll();
}

function showAll() {
  showTraffic();
  showModels(server);
  trial.show(server);
}

function showState(text, state) {
  const chip = byId("state");
  chip.textContent = text;
  chip.dataset.state = state;
}

onUpdate(({ status }) => {
  history.add(status);
  byId("server-name").textContent = status.name;
  byId("release").textContent = status.release;
  showText(byId("connection"), "");
  const unready = status.models.filter((state) => state.loaded && !state.ready).length;
  if (status.ready) showState("Ready", "ready");
  else showState(unready ? `Not ready: ${unready} ${unready === 1 ? "model" : "models"}` : "Not ready", "failed");
  offerModels(status.counters);
  showAll();
});

onFailure((error) => {
  if (error.status === 401 || error.status === 403) {
    showState("Token needed", "waiting");
    askForToken(error.message);
  } else {
    showState(error.status === 0 ? "No answer" : "Trouble", "failed");
  }
  showText(byId("connection"), error.message);
});

// A file that is dropped beside the field for images would be opened in place of the page, and the token be lost.
for (const name of ["dragover", "drop"]) {
  window.addEventListener(name, (event) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

setUpTokens(refresh);
window.addEventListener("hashchange", showView);
showView();
refresh();
