// Charts of ECharts in the colors of the page, each with a sentence and a table of the same figures beside it.

import { element } from "./dom.js";

const SCHEME = matchMedia("(prefers-color-scheme: dark)");
const ALL = new Set();

/** A chart in a card. */
export class Chart {
  /**
   * @param {string} title What it shows.
   * @param {Object} options
   * @param {string} options.note A few words on unit and time.
   * @param {string[]} options.columns Names of the columns of its table.
   * @param {string} options.size Class of the height.
   */
  constructor(title, { note = "", columns = [], size = "plot" } = {}) {
    this.title = title;
    this.columns = columns;
    this.plot = element("div", { class: size, role: "img", "aria-label": title });
    this.body = element("tbody");
    const heads = columns.map((name) => element("th", { scope: "col" }, name));
    this.details = element(
      "details",
      { toggle: () => this.fillTable() },
      element("summary", {}, "Figures as a table", element("span", { class: "unseen" }, `: ${title}`)),
      element("table", {}, element("thead", {}, element("tr", {}, heads)), this.body),
    );
    this.card = element(
      "article",
      { class: "card chart" },
      element("h2", {}, title, note ? element("span", { class: "soft" }, note) : null),
      this.plot,
      columns.length ? this.details : null,
    );
    this.rows = [];
    this.instance = null;
    this.makeOption = () => ({});
    ALL.add(this);
    new ResizeObserver(() => this.draw(true)).observe(this.plot);
  }

  /**
   * Shows new figures.
   *
   * @param {function(Object): Object} makeOption Makes the option of ECharts from the colors of the page.
   * @param {string} summary What a screen reader says in place of the picture.
   * @param {Array<string[]>} rows Rows of the table.
   */
  show(makeOption, summary, rows = []) {
    this.makeOption = makeOption;
    this.rows = rows;
    this.plot.setAttribute("aria-label", `${this.title}. ${summary}`);
    this.draw(false);
    this.fillTable();
  }

  draw(resized) {
    if (this.plot.clientWidth === 0 || this.plot.clientHeight === 0) return;
    if (this.instance === null) {
      this.instance = window.echarts.init(this.plot, null, { renderer: "canvas" });
    } else if (resized) {
      this.instance.resize();
    }
    this.instance.setOption(this.makeOption(colors()), { notMerge: true, lazyUpdate: true });
  }

  /** Gives the chart up. */
  drop() {
    this.instance?.dispose();
    this.instance = null;
    ALL.delete(this);
  }

  fillTable() {
    if (!this.details.open) return;
    this.body.replaceChildren(
      ...this.rows.map((cells) =>
        element("tr", {}, cells.map((cell, index) => element(index ? "td" : "th", index ? {} : { scope: "row" }, cell))),
      ),
    );
  }
}

SCHEME.addEventListener("change", () => ALL.forEach((chart) => chart.draw(false)));

/** Reads the colors of the page as they are now. */
export function colors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"),
    soft: read("soft"),
    line: read("line"),
    card: read("card"),
    first: read("first"),
    second: read("second"),
    bad: read("bad"),
    font: style.fontFamily,
  };
}

/** The parts of an option that all charts share. */
export function base(color) {
  return {
    animation: false,
    textStyle: { fontFamily: color.font, color: color.soft },
    tooltip: {
      trigger: "axis",
      renderMode: "richText", // the other mode writes HTML
      confine: true,
      backgroundColor: color.card,
      borderColor: color.line,
      textStyle: { color: color.ink, fontSize: 12 },
    },
    grid: { left: 4, right: 14, top: 30, bottom: 4, containLabel: true },
  };
}

/** An axis of numbers. */
export function valueAxis(color, formatter, more = {}) {
  return {
    type: "value",
    splitNumber: 3,
    axisLabel: { color: color.soft, formatter },
    splitLine: { lineStyle: { color: color.line } },
    ...more,
  };
}

/** A legend above the plot, at its left. */
export function legend(color, names) {
  return { data: names, left: 0, top: 0, itemWidth: 14, itemHeight: 8, icon: "roundRect", textStyle: { color: color.soft } };
}
