// The question before something that others notice.

import { byId } from "./dom.js";

/** Asks a question; resolves to true if it was answered with yes. */
export function confirmed(title, text, action) {
  const dialog = byId("confirm-dialog");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = action;
  dialog.showModal();
  return new Promise((resolve) => {
    // Not on the event "close", which may come when the next question is asked already.
    dialog.querySelector("form").onsubmit = (event) => resolve(event.submitter.value === "yes");
    dialog.oncancel = () => resolve(false); // the key Escape
  });
}
