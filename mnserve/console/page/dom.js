// Elements of the page. Text is set as text alone, so that no name or label becomes markup.

/**
 * Makes an element.
 *
 * @param {string} tag Name of the element.
 * @param {Object} properties Attributes by name; functions are listeners of the event of that name; null and false are
 *   left out, and true is an attribute without a value.
 * @param {...(Node|string|number|null|Array)} children What it holds; null is left out.
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(plain));
  return made;
}

function plain(child) {
  return child instanceof Node ? child : String(child);
}

/** Makes text whose direction does not leak into its surroundings. */
export function isolated(text) {
  return element("bdi", {}, text);
}

/** Finds an element of the page by its id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Shows a sentence in an element, or hides the element where there is none. */
export function showText(target, text) {
  target.textContent = text;
  target.hidden = !text;
}

/** Has a screen reader tell something that has happened. */
export function announce(text) {
  byId("announce").textContent = text;
}
