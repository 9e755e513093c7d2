// @ts-check
/** The polite voice of the live page: at the start, when the lead changes, at the end; else at most every 15 s. */

import { fill } from "./dom.js";
import { rate, ratio } from "./format.js";

const PAUSE_MS = 15000;

export class Announcer {
  #last = -Infinity;
  #leader = "";
  #state = "";

  /** @param {Element | null} region */
  constructor(region) {
    this.region = region;
  }

  /** @param {string} state of the run @param {Race} race */
  follow(state, race) {
    const [base, lane] = race.scores;
    const leader = base?.value && lane?.value ? (lane.value > base.value ? lane.lane : base.lane) : "";
    const hasNews = state !== this.#state || (leader !== "" && leader !== this.#leader);
    if (!hasNews && performance.now() - this.#last < PAUSE_MS) return;
    const text = sentence(state, this.#state, race, leader, this.#leader);
    this.#state = state;
    this.#leader = leader || this.#leader;
    if (!text) return;
    this.#last = performance.now();
    fill(this.region, text);
  }
}

/** @param {string} state @param {string} before @param {Race} race @param {string} leader @param {string} led */
function sentence(state, before, race, leader, led) {
  const times = race.ratio?.value ? ` Speedup ${ratio(race.ratio.value)}.` : "";
  if (state !== before && state !== "running") return `The race is ${state}.${times}`;
  if (state !== before) return "The race is on.";
  if (leader && led && leader !== led) return `${leader} takes the lead.${times}`;
  const known = race.scores.filter((score) => score.value);
  return known.map((score) => `${score.lane} ${rate(score.value)} tokens per second.`).join(" ") + times;
}
