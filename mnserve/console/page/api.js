// Calls of this server. The token is kept in this module alone, and leaves it in the header Authorization alone.

let token = "";

/** A call that failed, with the sentence of the server. */
export class CallError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Sends this token with all calls from now on; "" sends none. */
export function useToken(text) {
  token = text.trim();
}

/** Tells whether calls have a token. */
export function hasToken() {
  return token !== "";
}

/** Reads something from the server. */
export function read(path, signal) {
  return call("GET", path, undefined, signal);
}

/** Has the server do something. */
export function send(path, content, signal) {
  return call("POST", path, content, signal);
}

async function call(method, path, content, signal) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  if (method === "POST") headers["Content-Type"] = "application/json";
  let response;
  let text;
  try {
    const body = content === undefined ? undefined : JSON.stringify(content);
    response = await fetch(`api/${path}`, { method, headers, body, signal, cache: "no-store", redirect: "error" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError("The server does not answer. It may be stopped, or the network is down.", 0);
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new CallError(`The server answered ${response.status} without a reason.`, response.status);
  }
  if (response.ok) return answer;
  const reason = typeof answer.error === "string" ? answer.error : `The server answered ${response.status}.`;
  throw new CallError(sentence(reason), response.status);
}

/** Writes a reason as a sentence. A name at its beginning stays as it is: one that is given, or what is no plain word. */
export function sentence(text, name = "") {
  const named = (name && text.startsWith(name)) || !/^[a-z]+[ ,]/.test(text);
  const start = named ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}
