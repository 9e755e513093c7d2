// @ts-check
/** The live page: feed in, drawing out, at most once a second. Pausing stops the drawing, never the data. */

import { Announcer } from "./announce.js";
import { drawLanes, drawMatrix, drawProgress, hasEnded } from "./board.js";
import { RaceChart } from "./chart.js";
import { drawAcceptance, drawFailures } from "./details.js";
import { fill, find, show } from "./dom.js";
import { Feed } from "./feed.js";
import { cellLabel, ratio } from "./format.js";
import { drawBars, drawGpu, drawScore, drawSpotlights, findingOf } from "./panels.js";
import { raceOf } from "./race.js";

const REDRAW_MS = 1000;
const CALM_REDRAW_MS = 5000;
const HIDDEN_LIMIT_MS = 60000;

const root = /** @type {HTMLElement} */ (find("[data-race]"));
const chart = new RaceChart(/** @type {HTMLElement} */ (find("[data-chart]", root)));
const announcer = new Announcer(find("[data-announce]", root));
/** Ticks by heat. @type {Map<number, Tick[]>} */
const ticks = new Map();
/** @type {Snapshot | null} */
let snapshot = null;
/** @type {GpuSample | null} */
let gpu = null;
let isPaused = false;
let isDirty = false;
let feedState = "open";
let lastTickAt = performance.now();
let hiddenTimer = 0;
const pick = {
  cell: root.dataset.cell ? Number(root.dataset.cell) : null,
  lane: root.dataset.lane || null,
  shown: Number(root.dataset.shown),
};
/** The server's clock minus ours, so that elapsed seconds are the server's. */
const skewMs = Date.parse(root.dataset.now ?? "") - Date.now();

/** @param {string} iso */
function age(iso) {
  return (Date.now() + skewMs - Date.parse(iso)) / 1000;
}

const feed = new Feed(root.dataset.run ?? "", {
  tick(tick) {
    const known = ticks.get(tick.heat);
    if (known) known.push(tick);
    else ticks.set(tick.heat, [tick]);
    gpu = tick.gpu ?? gpu;
    lastTickAt = performance.now();
    isDirty = true;
    root.dataset.waiting = String(Number(root.dataset.waiting ?? 0) + 1); // ticks not drawn yet
  },
  snapshot(news) {
    const isFirst = snapshot === null;
    snapshot = news;
    isDirty = true;
    if (isFirst) setTimeout(draw, 50); // the ticks that follow at once belong to the first picture
  },
  state(state) {
    feedState = state;
    drawFeed();
    if (state === "ended") draw();
  },
});

function draw() {
  if (!snapshot || isPaused || document.hidden) return;
  const race = raceOf(snapshot, ticks, pick);
  pick.shown = race.cell.id;
  isDirty = false;
  root.dataset.waiting = "0";
  drawScore(root, race);
  drawProgress(root, snapshot, age);
  drawMatrix(root, snapshot);
  drawLanes(root, snapshot, age);
  drawFailures(root, snapshot);
  drawAcceptance(root, race, snapshot);
  drawBars(root, race);
  drawSpotlights(root, race);
  drawGpu(root, gpu);
  const finding = findingOf(race);
  fill(find("[data-finding]", root), finding);
  fill(find("[data-cell-label]", root), cellLabel(race.cell));
  announcer.follow(snapshot.run.state, race);
  chart.draw(race, snapshot.recipe.decode.seconds, finding).catch(() => {
    /* plotly.js did not load: the server's drawing stays, and the numbers move */
  });
}

/** Title and favicon tell what a stale tab needs to know. */
function drawTitle() {
  if (!snapshot) return;
  const race = raceOf(snapshot, ticks, pick);
  const word = snapshot.run.state === "running" ? "racing" : snapshot.run.state;
  const times = race.ratio?.value ? `${ratio(race.ratio.value)} · ` : "";
  document.title = `${times}${word} · ${snapshot.run.name} · Slipstream`;
  const icon = document.querySelector('link[rel="icon"]');
  const href = word === "racing" ? "/static/favicon-racing.svg" : "/static/favicon.svg";
  if (icon?.getAttribute("href") !== href) icon?.setAttribute("href", href);
}

function drawFeed() {
  const isLost = feedState === "lost";
  const box = find("[data-feed]", root);
  show(box, isLost);
  const seconds = Math.round((performance.now() - lastTickAt) / 1000);
  if (isLost) fill(box, `Live feed lost; retrying; last tick ${seconds} s ago.`);
  find("[data-chart]", root)?.classList.toggle("grey", isLost);
}

find("[data-pause]", root)?.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.currentTarget);
  isPaused = !isPaused;
  button.setAttribute("aria-pressed", String(isPaused));
  fill(button, isPaused ? "Go on" : "Pause");
  draw();
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    hiddenTimer = setTimeout(() => feed.close(), HIDDEN_LIMIT_MS);
    return;
  }
  feed.open();
  draw();
});
document.addEventListener("themechange", draw);

const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
setInterval(() => {
  const isRunning = snapshot !== null && !hasEnded(snapshot.run.state);
  if (isDirty || isRunning) draw();
}, isCalm ? CALM_REDRAW_MS : REDRAW_MS);
setInterval(() => {
  drawTitle();
  if (feedState === "lost") drawFeed();
}, REDRAW_MS);
feed.open();
