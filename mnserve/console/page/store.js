// State of the server, asked for once a second while the page is seen, and told to the views.

import { read } from "./api.js";

const PERIOD = 1000;
const LONGEST_PERIOD = 10_000;
const EVENTS = new EventTarget();
let failures = 0;
let timer = 0;
let asking = null; // the poll in flight

/** The last answers: state and counters of the server, and descriptions of its models. */
export const server = { status: null, models: [], fault: null };

/** Calls a function after every answer, with the state of the server. */
export function onUpdate(listener) {
  EVENTS.addEventListener("update", () => listener(server));
}

/** Calls a function with the error of every call that failed. */
export function onFailure(listener) {
  EVENTS.addEventListener("failure", (event) => listener(event.detail));
}

/** Asks now, and from then on. There is one poll at a time: this one ends the one before, whose answer is dropped. */
export async function refresh() {
  clearTimeout(timer);
  asking?.abort();
  const own = new AbortController();
  asking = own;
  let refused = false;
  try {
    const status = await read("status", own.signal);
    const models = signature(status) === signature(server.status) ? server.models : await read("models", own.signal);
    if (asking !== own) return;
    Object.assign(server, { status, models, fault: null });
    failures = 0;
    EVENTS.dispatchEvent(new Event("update"));
  } catch (error) {
    if (asking !== own) return;
    server.fault = error;
    failures += 1;
    refused = error.status === 401 || error.status === 403; // the next attempt waits for a token
    EVENTS.dispatchEvent(new CustomEvent("failure", { detail: error }));
  }
  if (!document.hidden && !refused) {
    clearTimeout(timer);
    timer = setTimeout(refresh, Math.min(PERIOD * 2 ** Math.min(failures, 5), LONGEST_PERIOD));
  }
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden) refresh();
});

function signature(status) {
  return status === null ? "" : JSON.stringify([status.start, status.models]);
}
