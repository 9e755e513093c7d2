// @ts-check
/** The live chart: lanes on one clock. Redrawn at most once a second; the reader's zoom is kept. */

import { rate } from "./format.js";
import { CONFIG, axisEnd, baseLayout, isNarrow, laneLook, loadPlotly, niceStep, spread } from "./plotting.js";
import { pointsOf } from "./race.js";

const LABEL_CHARS = 15;

export class RaceChart {
  #cell = -1;
  #top = 0;
  #isDrawing = false;

  /** @param {HTMLElement} box */
  constructor(box) {
    this.box = box;
  }

  /** @param {Race} race @param {number} planned seconds of a heat @param {string} finding */
  async draw(race, planned, finding) {
    const drawn = race.lines.filter((line) => line.ticks.length);
    if (!drawn.length || this.#isDrawing) return;
    this.#isDrawing = true;
    try {
      const plotly = await loadPlotly();
      if (!this.box.classList.contains("js-plotly-plot")) this.box.replaceChildren();
      const traces = drawn.map(trace);
      await plotly.react(this.box, traces, this.#layout(race, drawn, traces, planned), CONFIG);
      this.box.setAttribute("role", "img");
      this.box.setAttribute("aria-label", `Tokens per second of each lane, second by second. ${finding}`);
    } finally {
      this.#isDrawing = false;
    }
  }

  /** @param {Race} race @param {RaceLine[]} drawn @param {Partial<Plotly.PlotData>[]} traces @param {number} planned */
  #layout(race, drawn, traces, planned) {
    const tops = traces.map((one) => Math.max(0, ...numbers(one.y)));
    if (this.#cell !== race.cell.id) this.#top = 0;
    this.#cell = race.cell.id;
    this.#top = Math.max(this.#top, axisEnd(Math.max(1, ...tops)));
    const last = Math.max(...traces.map((one) => numbers(one.x).at(-1) ?? 0));
    const isLive = race.lines.some((line) => line.heat.state === "running");
    const layout = baseLayout();
    return /** @type {Partial<Plotly.Layout>} */ ({
      ...layout,
      uirevision: race.cell.id,
      xaxis: { ...layout.xaxis, range: [0, Math.max(last, isLive ? planned : 0)], dtick: Math.max(1, niceStep(last / 7)), title: { text: "seconds since the heat began", font: { size: 14 }, standoff: 8 } },
      yaxis: { ...layout.yaxis, range: [0, this.#top], nticks: 6, title: { text: "" } },
      annotations: [unitNote(), ...labels(drawn, traces, this.#top)],
    });
  }
}

/** @param {RaceLine} line @returns {Partial<Plotly.PlotData>} */
function trace(line) {
  const points = pointsOf(line.ticks);
  return /** @type {Partial<Plotly.PlotData>} */ ({
    type: "scatter",
    mode: "lines",
    name: line.isGhost ? `${line.lane} ghost` : line.lane,
    x: points.x,
    y: points.y,
    connectgaps: false,
    opacity: line.isGhost ? 0.75 : 1,
    line: laneLook(line.style),
    hovertemplate: "%{y:,.1f} tok/s",
  });
}

function unitNote() {
  return { text: "tokens per second", xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", xshift: -44, yshift: 6, showarrow: false, font: { size: 14 } };
}

/** Direct labels at the line ends: no legend to look up. @param {RaceLine[]} drawn @param {Partial<Plotly.PlotData>[]} traces @param {number} top */
function labels(drawn, traces, top) {
  const ends = traces.map((one) => numbers(one.y).at(-1) ?? 0);
  const heights = spread(ends, top * (isNarrow() ? 0.2 : 0.075));
  return drawn.map((line, place) => ({
    text: labelOf(line, ends[place]),
    x: numbers(traces[place]?.x).at(-1) ?? 0,
    y: heights[place] ?? 0,
    xanchor: "left",
    align: "left",
    xshift: 6,
    showarrow: false,
    font: { color: laneLook(line.style).color, size: 14, weight: 600 }, // not <b>: it sets a style attribute, which the CSP refuses
  }));
}

/** @param {RaceLine} line @param {number | undefined} end */
function labelOf(line, end) {
  const name = escaped(short(line.lane));
  if (isNarrow()) return line.isGhost ? `${name}<br>ghost` : name;
  return `${name}${line.isGhost ? " ghost" : ""} ${rate(end)}`;
}

/** @param {unknown} values @returns {number[]} */
function numbers(values) {
  return Array.isArray(values) ? values.filter((one) => typeof one === "number") : [];
}

/** @param {string} name */
function short(name) {
  return name.length <= LABEL_CHARS ? name : `${name.slice(0, LABEL_CHARS - 1)}…`;
}

/** plotly.js reads a little HTML in annotations. @param {string} text */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
