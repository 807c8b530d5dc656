// The dialog that asks for a token: opened by the person, or by a call that needs one.

import { hasToken, read, useToken } from "./api.js";
import { announce, byId, showText } from "./dom.js";

const dialog = byId("token-dialog");
const input = byId("token-input");
const fault = byId("token-fault");
let dismissed = false;

/**
 * Sets the dialog up.
 *
 * @param {function} onChange Called once another token is used.
 */
export function setUpTokens(onChange) {
  byId("token-button").addEventListener("click", () => open(""));
  byId("token-cancel").addEventListener("click", () => {
    dismissed = true;
    dialog.close();
  });
  dialog.addEventListener("cancel", () => (dismissed = true)); // the key Escape
  dialog.addEventListener("close", () => (input.value = ""));
  byId("token-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    useToken(input.value);
    try {
      await read("status");
    } catch (error) {
      if (error.status === 401 || error.status === 403 || error.status === 429) {
        useToken("");
        showText(fault, error.message);
        input.setAttribute("aria-invalid", "true");
        input.select();
        return;
      }
    }
    dismissed = false;
    dialog.close();
    byId("token-button").textContent = hasToken() ? "Change token" : "Token";
    announce("The token is in use.");
    onChange();
  });
}

/** Asks for a token once, with the sentence of the call that lacked it. */
export function askForToken(reason) {
  if (!dialog.open && !dismissed) open(hasToken() ? reason : "");
}

function open(reason) {
  showText(fault, reason);
  input.removeAttribute("aria-invalid");
  dialog.showModal();
  input.focus();
}
