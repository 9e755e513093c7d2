// @ts-check
/** The result page on demand: every panel of throughput as an interactive chart, from the document itself. */

import { find, laneStyle } from "./dom.js";
import { cellLabel } from "./format.js";
import { CONFIG, axisEnd, baseLayout, laneLook, loadPlotly } from "./plotting.js";

/** @typedef {{ lanes: { name: string }[], cells: CellView[] }} ResultDocument */

const button = find("[data-explore]");
const panels = find("[data-panels]");
/** @type {ResultDocument | null} */
let result = null;

button?.addEventListener("click", async () => {
  button.setAttribute("disabled", "");
  try {
    const answer = await fetch(button.dataset.explore ?? "");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    result = await answer.json();
    await draw();
    button.hidden = true;
  } catch {
    button.removeAttribute("disabled");
    button.textContent = "Explore (could not be loaded; try again)";
  }
});
document.addEventListener("themechange", () => void draw());

async function draw() {
  if (!result || !panels) return;
  const plotly = await loadPlotly();
  const figures = [...panels.querySelectorAll("figure")];
  const groups = [...grouped(result.cells).values()];
  await Promise.all(
    groups.map((cells, place) => {
      const figure = figures[place];
      if (!figure || !result) return;
      let box = find(".explored", figure);
      if (!box) {
        box = document.createElement("div");
        box.className = "explored";
        figure.querySelector(".chart")?.replaceWith(box);
      }
      return plotly.react(box, traces(result, cells), layout(cells), CONFIG);
    }),
  );
}

/** @param {CellView[]} cells */
function grouped(cells) {
  /** @type {Map<string, CellView[]>} */
  const groups = new Map();
  for (const cell of cells) {
    const key = `${cell.workload} ${cell.context}`;
    groups.set(key, [...(groups.get(key) ?? []), cell].sort((a, b) => a.concurrency - b.concurrency));
  }
  return groups;
}

/** @param {ResultDocument} document @param {CellView[]} cells */
function traces({ lanes }, cells) {
  return lanes.map(({ name }, place) => {
    const known = cells.filter((cell) => cell.lanes[name]?.tokens_per_second != null);
    const speeds = known.map((cell) => cell.lanes[name]?.tokens_per_second ?? 0);
    const heats = known.map((cell) => (cell.lanes[name]?.heats ?? []).flatMap((heat) => heat.tokens_per_second ?? []));
    const look = laneLook(laneStyle(place));
    return /** @type {Partial<Plotly.PlotData>} */ ({
      type: "scatter",
      mode: "lines+markers",
      name,
      x: known.map((cell) => cell.concurrency),
      y: speeds,
      text: known.map(cellLabel),
      error_y: {
        type: "data",
        symmetric: false,
        array: heats.map((values, at) => Math.max(...values) - (speeds[at] ?? 0)),
        arrayminus: heats.map((values, at) => (speeds[at] ?? 0) - Math.min(...values)),
        color: look.color,
      },
      line: look,
      marker: { color: look.color, symbol: place, size: 8 },
      hovertemplate: "%{y:,.1f} tok/s",
    });
  });
}

/** @param {CellView[]} cells */
function layout(cells) {
  const base = baseLayout();
  const speeds = cells.flatMap((cell) => Object.values(cell.lanes).map((lane) => lane.tokens_per_second ?? 0));
  return /** @type {Partial<Plotly.Layout>} */ ({
    ...base,
    showlegend: true,
    legend: { orientation: "h", y: 1.12 },
    margin: { l: 52, r: 16, t: 40, b: 46 },
    xaxis: { ...base.xaxis, tickvals: cells.map((cell) => cell.concurrency), title: { text: "streams at once", font: { size: 14 } } },
    yaxis: { ...base.yaxis, range: [0, axisEnd(Math.max(1, ...speeds))], nticks: 6, title: { text: "tok/s", font: { size: 14 } } },
  });
}
