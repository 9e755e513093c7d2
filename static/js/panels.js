// @ts-check
/** What changes every second around the chart: score, bars, spotlight, GPU strip. */

import { fact, fill, find, keepOnly, keyed, laneName, show, el, svg } from "./dom.js";
import { cellLabel, count, duration, rate, ratio } from "./format.js";

const SPOTLIGHT_CHARS = 900;

/** @param {HTMLElement} root @param {Race} race */
export function drawScore(root, race) {
  race.scores.forEach((score, place) => {
    const box = find(`[data-score="${place}"]`, root);
    if (!box) return;
    const lane = place === 0 ? null : race.lines.find((line) => line.lane === score.lane);
    if (lane && find(".lane", box)?.textContent !== score.lane) {
      box.className = `score lane-${lane.style}`;
      find(".score-lane", box)?.replaceChildren(laneName(score.lane, lane.style));
    }
    fact(box, "value", rate(score.value));
    fact(box, "kind", score.kind);
  });
  const box = find("[data-ratio]", root);
  if (!box || !race.ratio) return;
  fact(box, "value", ratio(race.ratio.value));
  fact(box, "interval", race.ratio.interval);
  fact(box, "words", race.ratio.words);
}

/** What the chart shows, in a sentence; race_view.finding is the model. @param {Race} race */
export function findingOf(race) {
  const known = race.scores.filter((score) => score.value).map((score) => `${score.lane} ${rate(score.value)} tok/s`);
  const where = cellLabel(race.cell);
  if (!known.length) return `No tokens yet at ${where}.`;
  const times = race.ratio?.value ? ` (${ratio(race.ratio.value)})` : "";
  return `${known.join(" against ")}${times} at ${where}.`;
}

/** Tokens of every lane by the same clock. @param {HTMLElement} root @param {Race} race */
export function drawBars(root, race) {
  const list = find("[data-bars] ul", root);
  if (!list) return;
  show(find("[data-bars]", root), race.lines.length > 0);
  fact(root, "clock", duration(race.clock));
  const totals = race.lines.map((line) => tokensBy(line, race.clock));
  const most = Math.max(1, ...totals);
  keepOnly(list, "data-bar", race.lines.map((line) => line.lane));
  race.lines.forEach((line, place) => {
    const row = keyed(list, "data-bar", line.lane, () => newBar(line));
    row.querySelector(".fill")?.setAttribute("width", `${((100 * (totals[place] ?? 0)) / most).toFixed(2)}%`);
    fill(row.querySelector(".num"), count(totals[place]));
  });
}

/** @param {RaceLine} line @param {number} clock */
function tokensBy(line, clock) {
  return line.ticks.filter((tick) => tick.second < clock).reduce((sum, tick) => sum + tick.tokens, 0);
}

/** @param {RaceLine} line */
function newBar(line) {
  const track = svg("rect", { class: "track", width: "100%", height: "100%" });
  const bar = svg("rect", { class: "fill", width: "0%", height: "100%" });
  const box = svg("svg", { class: `length lane-${line.style}`, "aria-hidden": "true" }, track, bar);
  return el("li", "", laneName(line.lane, line.style), " ", box, " ", el("span", "num"));
}

/** @param {HTMLElement} root @param {Race} race */
export function drawSpotlights(root, race) {
  const section = find("[data-spotlights]", root);
  const list = section && find(".spotlights", section);
  if (!section || !list) return;
  show(section, race.lines.length > 0);
  keepOnly(list, "data-spotlight", race.lines.map((line) => line.lane));
  for (const line of race.lines) {
    const card = keyed(list, "data-spotlight", line.lane, () => newSpotlight(line));
    const text = card.querySelector(".text");
    if (!(text instanceof HTMLElement)) continue;
    fill(text, line.ticks.map((tick) => tick.text).join("").slice(-SPOTLIGHT_CHARS));
    if (document.activeElement !== text) text.scrollTop = text.scrollHeight;
  }
}

/** @param {RaceLine} line */
function newSpotlight(line) {
  const text = el("p", "text");
  text.tabIndex = 0;
  text.setAttribute("role", "region");
  text.setAttribute("aria-label", `Text of ${line.lane}`);
  return el("article", `spotlight rule lane-${line.style}`, el("h3", "", laneName(line.lane, line.style)), text);
}

/** @param {HTMLElement} root @param {GpuSample | null} gpu */
export function drawGpu(root, gpu) {
  const section = find("[data-gpu]", root);
  show(section, gpu !== null);
  if (!section || !gpu) return;
  for (const node of section.querySelectorAll("[data-gpu-fact]")) {
    const value = gpu[/** @type {keyof GpuSample} */ (node.getAttribute("data-gpu-fact"))];
    fill(node, Array.isArray(value) ? value.join(", ") || "none" : count(value));
  }
}
