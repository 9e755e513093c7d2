// @ts-check
/** The race on screen, computed from a snapshot and ticks; app/web/race_view.py draws the same. No DOM here. */

import { interval, plural } from "./format.js";
import { laneStyle } from "./dom.js";

const LIVE_SECONDS = 5;
const SHORTEST_TICK_S = 0.5;
const BASELINE = "baseline";

/**
 * @param {Snapshot} snapshot @param {Map<number, Tick[]>} ticks by heat
 * @param {{ cell: number | null, lane: string | null, shown: number }} pick cell by position, lane by name, cell id on screen
 * @returns {Race}
 */
export function raceOf(snapshot, ticks, pick) {
  const cell = pickCell(snapshot, pick);
  const featured = pickLane(snapshot, cell, pick.lane);
  const heats = pickHeats(cell, ticks);
  const isLive = heats.some((heat) => heat.state === "running");
  const lines = heats.map((heat) => ({
    lane: heat.lane,
    style: laneStyle(snapshot.lanes.find((lane) => lane.name === heat.lane)?.position ?? 0),
    heat,
    ticks: ticks.get(heat.id) ?? [],
    isGhost: isLive && heat.state === "done",
  }));
  const names = featured ? [BASELINE, featured] : [BASELINE];
  const scores = names.map((name) => scoreOf(cell, name, ticks));
  return { cell, featured, lines, clock: clockOf(lines), scores, ratio: ratioOf(cell, featured, scores) };
}

/** @param {Snapshot} snapshot @param {{ cell: number | null, shown: number }} pick @returns {CellView} */
function pickCell(snapshot, pick) {
  const by = (/** @type {(cell: CellView) => boolean} */ test) => snapshot.cells.find(test);
  const found =
    by((cell) => cell.position === pick.cell) ??
    by((cell) => cell.id === snapshot.now.cell) ??
    by((cell) => cell.id === pick.shown);
  return found ?? /** @type {CellView} */ (snapshot.cells[0]); // a run has at least one cell
}

/** @param {Snapshot} snapshot @param {CellView} cell @param {string | null} name */
function pickLane(snapshot, cell, name) {
  const variants = snapshot.lanes.filter((lane) => !lane.is_baseline).map((lane) => lane.name);
  if (name && variants.includes(name)) return name;
  if (snapshot.now.lane && variants.includes(snapshot.now.lane)) return snapshot.now.lane;
  const speed = (/** @type {string} */ lane) => cell.lanes[lane]?.tokens_per_second ?? -1;
  const order = [...variants].sort((a, b) => speed(b) - speed(a));
  return order[0] ?? null;
}

/** One heat per lane, all of the same ordinal. @param {CellView} cell @param {Map<number, Tick[]>} driven @returns {HeatView[]} */
function pickHeats(cell, driven) {
  const all = Object.values(cell.lanes).flatMap((lane) => lane.heats);
  const begun = all.filter((heat) => ["running", "done"].includes(heat.state) || driven.has(heat.id));
  const running = begun.find((heat) => heat.state === "running");
  const ordinals = begun.map((heat) => heat.ordinal);
  const weight = (/** @type {number} */ one) => ordinals.filter((other) => other === one).length * 1e6 + one;
  const ordinal = running?.ordinal ?? ordinals.sort((a, b) => weight(b) - weight(a))[0];
  return begun.filter((heat) => heat.ordinal === ordinal);
}

/** @param {RaceLine[]} lines */
function clockOf(lines) {
  const length = (/** @type {RaceLine} */ line) => Math.max(0, ...line.ticks.map((tick) => tick.second + tick.length_s));
  const running = lines.filter((line) => line.heat.state === "running");
  const lengths = (running.length ? running : lines).map(length);
  const known = running.length ? lengths : lengths.filter((one) => one > 0);
  return known.length ? Math.min(...known) : 0;
}

/** @param {CellView} cell @param {string} lane @param {Map<number, Tick[]>} ticks @returns {Score} */
function scoreOf(cell, lane, ticks) {
  const view = cell.lanes[lane];
  const running = view?.heats.find((heat) => heat.state === "running");
  const live = running ? liveRate(ticks.get(running.id) ?? []) : null;
  if (live !== null) return { lane, value: live, kind: `live, last ${LIVE_SECONDS} s` };
  if (running && view?.tokens_per_second == null) return { lane, value: null, kind: "no steady second yet" };
  const counted = view?.heats.filter((heat) => heat.tokens_per_second != null).length ?? 0;
  const kind = counted ? `mean of ${plural(counted, "heat")}` : (view && progressOf(view)) || "no heat counts";
  return { lane, value: view?.tokens_per_second ?? null, kind };
}

/** Tokens per second over the last whole seconds of the steady window: ramp is no speed. @param {Tick[]} ticks */
export function liveRate(ticks) {
  const whole = ticks.filter((tick) => tick.is_steady && tick.length_s >= SHORTEST_TICK_S);
  const last = whole.slice(-LIVE_SECONDS);
  const seconds = last.reduce((sum, tick) => sum + tick.length_s, 0);
  return seconds ? last.reduce((sum, tick) => sum + tick.tokens, 0) / seconds : null;
}

/** @param {CellView} cell @param {string | null} featured @param {Score[]} scores @returns {Ratio | null} */
function ratioOf(cell, featured, scores) {
  if (!featured) return null;
  const judged = cell.lanes[featured]?.speedup;
  if (judged?.value != null) {
    return { value: judged.value, interval: interval(judged.low, judged.high), words: judged.verdict };
  }
  const [base, lane] = [scores[0]?.value, scores.at(-1)?.value];
  if (base && lane) return { value: lane / base, interval: "", words: "live, no interval yet" };
  return { value: null, interval: "", words: (judged?.heats && judged.reason) || "no speedup yet" };
}

/** Where a lane's heats stand; empty once all are done. @param {LaneCell} view */
export function progressOf(view) {
  const total = view.heats.length;
  const done = view.heats.filter((heat) => heat.state === "done").length;
  const running = view.heats.find((heat) => heat.state === "running");
  if (running) return `racing, heat ${running.ordinal} of ${total}`;
  for (const word of ["failed", "cancelled"]) {
    if (done < total && view.heats.some((heat) => heat.state === word)) {
      return done === 0 ? word : `${done} of ${total} heats, rest ${word}`;
    }
  }
  if (done === total) return "";
  return done === 0 ? "waiting" : `${done} of ${total} heats`;
}

/** Points of a line, null where a second is missing. @param {Tick[]} ticks @returns {{ x: number[], y: (number | null)[] }} */
export function pointsOf(ticks) {
  /** @type {{ x: number[], y: (number | null)[] }} */
  const points = { x: [], y: [] };
  for (const tick of ticks.filter((one) => one.length_s >= SHORTEST_TICK_S).slice(-300)) {
    const x = tick.second + tick.length_s;
    const before = points.x.at(-1);
    if (before !== undefined && x - before > 1.5) {
      points.x.push(before + 0.5);
      points.y.push(null);
    }
    points.x.push(x);
    points.y.push(tick.tokens / tick.length_s);
  }
  return points;
}
