// @ts-check
/** What changes with the snapshot: state, progress, matrix, lanes with their launch steps. */

import { el, fact, fill, find, show } from "./dom.js";
import { count, duration, interval, plural, rate, ratio, span } from "./format.js";
import { progressOf } from "./race.js";

const ENDED = ["finished", "failed", "cancelled"];

/** @param {string} state */
export function hasEnded(state) {
  return ENDED.includes(state);
}

/** @param {HTMLElement} root @param {Snapshot} snapshot @param {(iso: string) => number} age seconds since a moment */
export function drawProgress(root, snapshot, age) {
  const { run, now } = snapshot;
  const badge = find('.race-acts [data-fact="state"]', root);
  if (badge) badge.className = `state state-${run.state}`;
  fill(badge, run.state);
  const text = nowText(snapshot, now.since ? age(now.since) : null);
  const box = find("[data-now-text]", root);
  if (!hasEnded(run.state) || !box?.textContent?.startsWith(text)) fill(box, text); // the server adds the date
  const left = run.eta_seconds ? ` · about ${duration(run.eta_seconds)} left` : "";
  fill(find("[data-progress-text]", root), `${count(run.heats_done)} of ${plural(run.heats_total, "heat")}${left}`);
  find("[data-progress]", root)?.setAttribute("value", String(run.heats_done));
  show(find("[data-cancel]", root), !hasEnded(run.state) && !run.is_cancelling);
  show(find("[data-pause]", root), !hasEnded(run.state));
  const result = find("[data-result]", root);
  if (run.slug) result?.setAttribute("href", `/r/${run.slug}`);
  show(result, run.slug !== null);
}

/** @param {Snapshot} snapshot @param {number | null} seconds */
function nowText({ run, now }, seconds) {
  if (run.state === "queued") {
    const place = run.queue_position ? `Place ${run.queue_position} in the queue. ` : "";
    return `${place}The race starts when a worker takes it.`;
  }
  if (run.state === "running") {
    const text = run.is_cancelling ? "Cancelling" : now.text || "Starting";
    return seconds === null ? text : `${text} · ${duration(seconds)}`;
  }
  const word = run.state.charAt(0).toUpperCase() + run.state.slice(1);
  return run.error ? `${word}: ${run.error}` : word;
}

/** @param {HTMLElement} root @param {Snapshot} snapshot */
export function drawMatrix(root, snapshot) {
  for (const cell of snapshot.cells) {
    const row = find(`[data-matrix] [data-cell="${cell.id}"]`, root);
    for (const [name, lane] of Object.entries(cell.lanes)) {
      const box = [...(row?.children ?? [])].find((one) => one.getAttribute("data-lane") === name);
      if (box) drawEntry(box, lane);
    }
  }
}

/** One lane in one cell, as partials/_parts.html draws it. @param {Element} box @param {LaneCell} lane */
function drawEntry(box, lane) {
  const judged = lane.speedup;
  const progress = progressOf(lane);
  const parts = [];
  if (judged?.value != null) parts.push(el("b", "times", ratio(judged.value)));
  const bounds = interval(judged?.low, judged?.high);
  if (bounds) parts.push(" ", el("span", "bounds", bounds));
  if (lane.tokens_per_second != null || !progress) {
    parts.push(el("span", "speed", `${rate(lane.tokens_per_second)} `, el("small", "", "tok/s")));
  }
  if (judged && ["too close to call", "one heat, no interval"].includes(judged.verdict)) {
    parts.push(el("span", "note", judged.verdict));
  }
  if (progress) parts.push(el("span", "note", progress));
  parts.push(...lane.flags.map(flag));
  const classes = ["entry"];
  if (judged?.value != null) classes.push(heatStep(judged.value));
  if (judged?.verdict === "too close to call") classes.push("close");
  if (lane.heats.some((heat) => heat.state === "running")) classes.push("racing");
  box.className = classes.join(" ");
  box.replaceChildren(...parts);
}

/** @param {string} word */
function flag(word) {
  const known = find(`[data-flag="${CSS.escape(word)}"]`);
  show(known, true);
  const isVoid = known?.hasAttribute("data-voids") ?? false;
  return el("span", isVoid ? "flag void" : "flag", isVoid ? `void: ${word}` : word);
}

/** charts.heat_step. @param {number} value */
function heatStep(value) {
  const step = value > 0 ? Math.round(Math.max(-1, Math.min(1, Math.log2(value))) * 4) : 0;
  return step === 0 ? "heat-z" : `heat-${step > 0 ? "p" : "m"}${Math.abs(step)}`;
}

/** @param {HTMLElement} root @param {Snapshot} snapshot @param {(iso: string) => number} age */
export function drawLanes(root, snapshot, age) {
  for (const lane of snapshot.lanes) {
    const card = [...root.querySelectorAll("[data-lane-card]")].find((one) => one.getAttribute("data-lane-card") === lane.name);
    if (!card) continue;
    fact(card, "lane-state", lane.state);
    const badge = find('[data-fact="lane-state"]', card);
    if (badge) badge.className = `state state-${lane.state}`;
    fact(card, "what", whatIs(lane));
    if (lane.steps.length) find("[data-steps]", card)?.replaceChildren(...lane.steps.map((step) => stepRow(step, age)));
    show(find("[data-argv]", card), lane.argv.length > 0);
    fill(find("[data-argv] code", card), lane.argv.join(" "));
  }
}

/** @param {LaneView} lane */
function whatIs(lane) {
  const drafter = lane.drafter ? `${lane.drafter}, ` : "";
  const k = lane.k ? `K = ${lane.k}` : lane.is_baseline ? "no speculation" : "";
  return `${drafter}${k}${lane.engine_version ? ` · version ${lane.engine_version}` : ""}`;
}

/** @param {StepView} step @param {(iso: string) => number} age */
function stepRow(step, age) {
  const isCurrent = step.seconds === null;
  const length = isCurrent ? `${duration(age(step.started_at))} …` : span(step.seconds);
  const row = el("li", "", el("span", "", step.name), " ", el("span", "num muted", length));
  if (isCurrent) row.setAttribute("aria-current", "step");
  return row;
}

