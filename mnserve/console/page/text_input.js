// Input of rows of a table, and of tensors: text that is pasted, written, or read from a file.

import { element } from "./dom.js";

class TextInput {
  constructor(label, hint, example, accept) {
    this.area = element("textarea", { id: "text-input", rows: 8, spellcheck: "false", autocomplete: "off", "aria-describedby": "text-hint" });
    this.area.value = example;
    const picker = element("input", {
      type: "file",
      accept,
      "aria-label": "Read a file into the field",
      change: async () => {
        if (picker.files.length) this.area.value = await picker.files[0].text();
        picker.value = "";
      },
    });
    this.node = element(
      "div",
      { class: "stack" },
      element("label", { for: "text-input" }, label),
      this.area,
      element("p", { id: "text-hint", class: "soft" }, hint),
      picker,
    );
  }
}

/** Rows for a model of tables: CSV, TSV or JSON. */
export class RowInput extends TextInput {
  constructor(model) {
    const names = model.columns.map((column) => column.name);
    const values = model.columns.map((column) => (column.values === null ? "0" : column.values[0] ?? ""));
    const lines = [names, values].map((cells) => cells.map(quoted).join(","));
    super(
      "Rows",
      `A table with names in its first line, or JSON: a list of objects. The model takes ${names.length} ${names.length === 1 ? "column" : "columns"}; others are passed by.`,
      `${lines.join("\n")}\n`,
      ".csv,.tsv,.json,.txt,text/*",
    );
  }

  /** Returns the part of a call that has the rows. */
  async read() {
    if (!this.area.value.trim()) throw new Error("Paste rows, with the names of the columns in the first line.");
    return { rows: this.area.value };
  }
}

/** Tensors for any other model, as JSON. */
export class TensorInput extends TextInput {
  constructor(model) {
    const example = Object.fromEntries(model.inputs.filter((input) => !input.optional).map((input) => [input.name, zeros(input)]));
    super("Tensors", "JSON: an object with a list, or lists of lists, for each input.", JSON.stringify(example, null, 1), ".json,.txt");
  }

  /** Returns the part of a call that has the tensors. */
  async read() {
    if (!this.area.value.trim()) throw new Error("Write the tensors, an object with a list for each input.");
    return { tensors: this.area.value }; // as text: JavaScript would round whole numbers beyond 2**53
  }
}

function quoted(cell) {
  return /[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** Makes a small tensor of zeros; any size becomes one, and a tensor of many elements an empty list. */
function zeros(input) {
  const shape = (input.shape ?? [1]).map((size) => (size < 0 ? 1 : size));
  if (shape.reduce((product, size) => product * size, 1) > 4096) return [];
  const zero = { BYTES: "", BOOL: false }[input.datatype] ?? 0;
  return shape.reduceRight((inner, size) => Array.from({ length: size }, () => structuredClone(inner)), zero);
}
