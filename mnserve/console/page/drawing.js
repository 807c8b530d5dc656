// A canvas to draw a digit or another figure on, which is brought to the frame that such images have.

import { element } from "./dom.js";

const SIDE = 280;
const MARGIN = 4 / 28; // free border of handwritten digits of 28 x 28 pixels; smaller ones have none

/** Takes strokes of a pen, a finger or a mouse. */
export class Drawing {
  /**
   * @param {{height: number|null, width: number|null}} size Size that the model takes.
   * @param {function()} onBegin Called once something is drawn.
   */
  constructor(size, onBegin) {
    this.onBegin = onBegin;
    const pixels = Math.min(size.width ?? 64, size.height ?? 64);
    this.margin = pixels >= 20 ? MARGIN * SIDE : SIDE / pixels / 4;
    this.pen = Math.max(8, Math.min(SIDE / 7, (pixels >= 20 ? 2.4 : 1.1) * (SIDE / pixels)));
    this.empty = true;
    this.canvas = element("canvas", { width: SIDE, height: SIDE, "aria-label": "Drawing area; by keyboard, choose a file instead", role: "img" });
    this.dark = element("input", { type: "checkbox", checked: true, id: "draw-dark", change: () => this.clear() });
    this.centered = element("input", { type: "checkbox", checked: true, id: "draw-centered" });
    this.node = element(
      "details",
      { class: "drawing", open: size.channels === 1 },
      element("summary", {}, "Draw one"),
      element(
        "div",
        { class: "board" },
        this.canvas,
        element(
          "div",
          { class: "side" },
          element("label", { class: "check" }, this.dark, element("span", {}, "White on black")),
          element("label", { class: "check" }, this.centered, element("span", {}, "Center and fill")),
          element("button", { type: "button", click: () => this.clear() }, "Clear drawing"),
        ),
      ),
    );
    this.pencil = this.canvas.getContext("2d", { willReadFrequently: true });
    this.canvas.addEventListener("pointerdown", (event) => this.begin(event));
    this.canvas.addEventListener("pointermove", (event) => this.go(event));
    this.clear();
  }

  /** Takes everything off. */
  clear() {
    this.pencil.fillStyle = this.dark.checked ? "#000" : "#fff";
    this.pencil.fillRect(0, 0, SIDE, SIDE);
    this.empty = true;
  }

  begin(event) {
    if (this.empty) this.onBegin();
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.place(event);
    this.go(event);
  }

  go(event) {
    if (!this.canvas.hasPointerCapture(event.pointerId)) return;
    const place = this.place(event);
    Object.assign(this.pencil, { lineWidth: this.pen, lineCap: "round", lineJoin: "round", strokeStyle: this.dark.checked ? "#fff" : "#000" });
    this.pencil.beginPath();
    this.pencil.moveTo(...this.last);
    this.pencil.lineTo(...place);
    this.pencil.stroke();
    this.last = place;
    this.empty = false;
  }

  place(event) {
    const frame = this.canvas.getBoundingClientRect();
    return [((event.clientX - frame.left) / frame.width) * SIDE, ((event.clientY - frame.top) / frame.height) * SIDE];
  }

  /** Returns the drawing as a file. */
  async file() {
    const source = this.centered.checked ? this.framed() : this.canvas;
    const blob = await new Promise((resolve) => source.toBlob(resolve, "image/png"));
    return new File([blob], "drawing.png", { type: "image/png" });
  }

  /** Returns a canvas on which the strokes fill the frame within its margin, and keep their proportions. */
  framed() {
    const { data } = this.pencil.getImageData(0, 0, SIDE, SIDE);
    const paper = this.dark.checked ? 0 : 255;
    let [left, top, right, bottom] = [SIDE, SIDE, 0, 0];
    for (let y = 0; y < SIDE; y += 1) {
      for (let x = 0; x < SIDE; x += 1) {
        if (data[4 * (y * SIDE + x)] === paper) continue;
        [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + 1), Math.max(bottom, y + 1)];
      }
    }
    const framed = element("canvas", { width: SIDE, height: SIDE });
    const pencil = framed.getContext("2d");
    pencil.fillStyle = this.dark.checked ? "#000" : "#fff";
    pencil.fillRect(0, 0, SIDE, SIDE);
    if (right <= left) return framed;
    const [width, height] = [right - left, bottom - top];
    const scale = Math.min(2, (SIDE - 2 * this.margin) / Math.max(width, height));
    pencil.imageSmoothingQuality = "high";
    pencil.drawImage(this.canvas, left, top, width, height, (SIDE - width * scale) / 2, (SIDE - height * scale) / 2, width * scale, height * scale);
    return framed;
  }
}
