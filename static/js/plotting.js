// @ts-check
/** Plotly, fetched from our own host when a chart is first drawn, and what all our charts share. */

/** @type {Promise<typeof Plotly> | undefined} */
let loading;

/** @returns {Promise<typeof Plotly>} */
export function loadPlotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/vendor/plotly-cartesian.min.js";
    script.addEventListener("load", () => resolve(Plotly));
    script.addEventListener("error", () => reject(new Error("plotly.js could not be loaded")));
    document.head.append(script);
  });
  return loading;
}

/** Nothing is ever sent to the vendor, and no button offers to. The mode bar is out of a keyboard's reach: off. */
export const CONFIG = /** @type {Partial<Plotly.Config>} */ ({
  displayModeBar: false,
  displaylogo: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  responsive: true,
  scrollZoom: false,
});

/** Colour, dash and weight of a lane as tokens.css has them at this moment. @param {number} style */
export function laneLook(style) {
  const probe = document.createElement("span");
  probe.className = `lane lane-${style}`;
  document.body.append(probe);
  const look = getComputedStyle(probe);
  const dash = look.getPropertyValue("--dash").trim();
  const line = {
    color: look.color,
    width: Number.parseFloat(look.getPropertyValue("--weight")) || 3,
    dash: dash === "none" ? "solid" : dash.split(" ").map((part) => `${part}px`).join(","),
  };
  probe.remove();
  return line;
}

/** Layout in the page's own colours and type. @returns {Partial<Plotly.Layout>} */
export function baseLayout() {
  const page = getComputedStyle(document.body);
  const muted = colourOf("muted");
  const axis = { gridcolor: colourOf("grid-probe"), linecolor: muted, tickfont: { color: muted, size: 14 }, zeroline: false };
  return /** @type {Partial<Plotly.Layout>} */ ({
    autosize: true,
    showlegend: false,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: page.fontFamily, color: page.color, size: 14 },
    margin: { l: 52, r: isNarrow() ? 84 : 156, t: 26, b: 46 },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hovermode: "x unified",
    hoverlabel: { bgcolor: colourOf("card"), bordercolor: muted, font: { color: page.color } },
    xaxis: { ...axis, showgrid: false },
    yaxis: { ...axis, rangemode: "tozero", fixedrange: true },
  });
}

/** Whether labels must be short. */
export function isNarrow() {
  return matchMedia("(max-width: 40rem)").matches;
}

/** Colour (or background) that a class gets. @param {string} name */
function colourOf(name) {
  const probe = document.createElement("span");
  probe.className = name;
  document.body.append(probe);
  const look = getComputedStyle(probe);
  const colour = name === "card" ? look.backgroundColor : look.color;
  probe.remove();
  return colour;
}

/** The next 1, 2 or 5 times a power of ten that gives `highest` head-room in four steps: the axis does not breathe. @param {number} highest */
export function axisEnd(highest) {
  const step = niceStep((Math.max(highest, 1e-9) * 1.08) / 4);
  return step * Math.max(1, Math.ceil((highest * 1.08) / step));
}

/** The next 1, 2 or 5 times a power of ten. @param {number} raw */
export function niceStep(raw) {
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  return [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999) ?? raw;
}

/**
 * Heights of end labels, moved as little as needed to be apart.
 * @param {number[]} heights @param {number} gap
 */
export function spread(heights, gap) {
  const order = heights.map((_, place) => place).sort((a, b) => (heights[b] ?? 0) - (heights[a] ?? 0));
  const moved = [...heights];
  order.slice(1).forEach((below, place) => {
    const above = moved[order[place] ?? 0] ?? 0;
    moved[below] = Math.min(moved[below] ?? 0, above - gap);
  });
  return moved;
}
