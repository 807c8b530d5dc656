// Input of images: files that are dropped or chosen, or a drawing.

import { Drawing } from "./drawing.js";
import { announce, element, isolated } from "./dom.js";

const MOST = 32;
const MOST_NAMED = 8;
const MOST_BYTES = 16 * 1024 * 1024;

/** Collects the images for one model. */
export class ImageInput {
  /** @param {{channels: number, height: number|null, width: number|null}} size Size that the model takes. */
  constructor(size) {
    this.files = [];
    this.list = element("ul", { class: "files", "aria-label": "Chosen images" });
    this.leftOut = element("p", { class: "note", id: "left-out" });
    this.picker = element("input", {
      type: "file",
      id: "image-files",
      accept: "image/*",
      multiple: true,
      change: () => {
        this.add(this.picker.files);
        this.picker.value = "";
      },
    });
    const zone = element(
      "div",
      { class: "zone" },
      element("p", {}, element("label", { for: "image-files" }, "Images"), " – drop them here, or choose files"),
      this.picker,
      element("p", { class: "soft" }, `The model takes ${size.width ?? "any"} × ${size.height ?? "any"} ${size.channels === 1 ? "gray" : "color"} pixels; other images are fitted.`),
    );
    for (const name of ["dragenter", "dragover"]) {
      zone.addEventListener(name, (event) => {
        event.preventDefault();
        zone.classList.add("over");
      });
    }
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      this.add(event.dataTransfer.files);
    });
    this.drawing = new Drawing(size, () => {
      this.files = [];
      this.showList();
      this.tellLeftOut([]);
    });
    this.node = element("div", { class: "stack" }, zone, this.leftOut, this.list, this.drawing.node);
    this.tellLeftOut([]);
  }

  /** Adds files to those that are there, as many as are taken at a time, and tells which were left out. */
  add(files) {
    const images = [...this.files, ...files];
    this.files = images.slice(0, MOST);
    if (files.length) this.drawing.clear();
    this.showList();
    this.tellLeftOut(images.slice(MOST));
    announce(`${this.files.length} images chosen. ${this.leftOut.textContent}`);
  }

  tellLeftOut(files) {
    const names = files.slice(0, MOST_NAMED).flatMap((file, index) => [index ? ", " : "", isolated(file.name)]);
    const more = files.length > MOST_NAMED ? ` and ${files.length - MOST_NAMED} more` : "";
    this.leftOut.replaceChildren(...(files.length ? [`${MOST} images are taken at a time. Left out: `, ...names, `${more}.`] : []));
    this.leftOut.hidden = files.length === 0;
  }

  showList() {
    for (const picture of this.list.querySelectorAll("img")) URL.revokeObjectURL(picture.src);
    this.list.replaceChildren(
      ...this.files.map((file) =>
        element(
          "li",
          {},
          element("img", { src: URL.createObjectURL(file), alt: "", width: 40, height: 40 }),
          element("span", {}, isolated(file.name)),
          element("button", { type: "button", class: "quiet", "aria-label": `Leave out ${file.name}`, click: () => this.remove(file) }, "×"),
        ),
      ),
    );
  }

  remove(file) {
    this.files = this.files.filter((other) => other !== file);
    this.showList();
    this.tellLeftOut([]);
    this.picker.focus();
  }

  /**
   * Reads the input.
   *
   * @returns {Promise<Object>} The part of a call that has the images.
   */
  async read() {
    const files = this.drawing.empty ? this.files : [await this.drawing.file()];
    if (files.length === 0) throw new Error("Choose an image, or draw one.");
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    if (bytes > MOST_BYTES) {
      throw new Error(`The images have ${Math.ceil(bytes / 2 ** 20)} MiB, and ${MOST_BYTES / 2 ** 20} are taken at a time. Choose fewer.`);
    }
    return { images: await Promise.all(files.map(async (file) => ({ name: file.name, data: await base64(file) }))) };
  }
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read. Choose it again.`));
    reader.readAsDataURL(file);
  });
}
