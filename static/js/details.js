// @ts-check
/** What appears when it happens: failures of lanes, acceptance by draft position. */

import { el, find, laneName, laneStyle, show, svg } from "./dom.js";
import { count, percent } from "./format.js";

const LOG_LINES = 40;
let failuresDrawn = "";
let acceptanceDrawn = "";

/** @param {HTMLElement} root @param {Snapshot} snapshot */
export function drawFailures(root, snapshot) {
  const failed = snapshot.lanes.filter((lane) => lane.state === "failed");
  const mark = JSON.stringify(failed.map((lane) => [lane.name, lane.failure]));
  if (mark === failuresDrawn) return;
  failuresDrawn = mark;
  find("[data-failures]", root)?.replaceChildren(...failed.map(failurePanel));
}

/** @param {LaneView} lane */
function failurePanel(lane) {
  const failure = lane.failure;
  const panel = el("section", "failure", el("h2", "", `Lane ${lane.name} failed${failure ? ` while ${failure.step}` : ""}`));
  panel.setAttribute("role", "alert");
  panel.setAttribute("aria-label", `Lane ${lane.name} failed`);
  if (failure) panel.append(el("p", "", failure.cause));
  if (failure?.remedy) panel.append(el("p", "", el("strong", "", "What to try:"), ` ${failure.remedy}`));
  if (failure?.line) panel.append(logBox(failure.line, "Telling log line"));
  const log = lane.log_tail.split("\n").slice(-LOG_LINES).join("\n").trim();
  if (log) panel.append(el("details", "", el("summary", "", "Last log lines"), logBox(log, `Last log lines of ${lane.name}`)));
  return panel;
}

/** @param {string} text @param {string} label */
function logBox(text, label) {
  const box = el("pre", "", el("code", "", text));
  box.tabIndex = 0;
  box.setAttribute("aria-label", label);
  return box;
}

/** @param {HTMLElement} root @param {Race} race @param {Snapshot} snapshot */
export function drawAcceptance(root, race, snapshot) {
  const section = find("[data-acceptance]", root);
  const lanes = snapshot.lanes.filter((lane) => race.cell.lanes[lane.name]?.acceptance?.drafts);
  show(section, lanes.length > 0);
  const mark = JSON.stringify([race.cell.id, lanes.map((lane) => race.cell.lanes[lane.name]?.acceptance)]);
  if (!section || mark === acceptanceDrawn) return;
  acceptanceDrawn = mark;
  const figures = lanes.flatMap((lane) => {
    const view = race.cell.lanes[lane.name]?.acceptance;
    return view ? [acceptanceFigure(lane, view)] : [];
  });
  find(".multiples", section)?.replaceChildren(...figures);
}

/** @param {LaneView} lane @param {AcceptanceView} view */
function acceptanceFigure(lane, view) {
  const style = laneStyle(lane.position);
  const tau = view.tau === null ? "–" : view.tau.toFixed(2);
  const finding = `${percent(view.rate)} of drafted tokens accepted, ${tau} tokens per step, n = ${count(view.drafts)} drafts`;
  const caption = el("figcaption", "", laneName(lane.name, style), " ", el("span", "muted", finding));
  const shares = view.rate_per_position ?? [];
  if (!shares.length) return el("figure", "acceptance", caption, el("p", "muted", "The engine does not tell acceptance by position."));
  const rows = shares.map((share, place) =>
    el("tr", "", ...[String(place + 1), count(view.accepted_per_position?.[place]), percent(share)].map((text) => el("td", "num", text))),
  );
  const heads = ["position", "accepted", "share"].map((name) => el("th", "num", name));
  const table = el("table", "", el("thead", "", el("tr", "", ...heads)), el("tbody", "", ...rows));
  return el("figure", "acceptance", caption, bars(shares, style, lane.name), el("details", "", el("summary", "", "Data"), table));
}

/** charts.share_bars. @param {number[]} shares @param {number} style @param {string} lane */
function bars(shares, style, lane) {
  const width = 100 / shares.length;
  const groups = shares.map((share, place) => {
    const height = 64 * Math.max(0, Math.min(1, share));
    const box = { x: `${width * (place + 0.14)}%`, width: `${width * 0.72}%` };
    const middle = { x: `${width * (place + 0.5)}%`, "text-anchor": "middle" };
    const value = svg("text", { ...middle, class: "bar-value", y: `${74 - height}%` });
    const label = svg("text", { ...middle, class: "tick", y: "90%" });
    value.textContent = percent(share);
    label.textContent = String(place + 1);
    return svg("g", {},
      svg("rect", { ...box, class: "track", y: "12%", height: "64%" }),
      svg("rect", { ...box, class: "fill", y: `${76 - height}%`, height: `${height}%` }),
      value, label);
  });
  const axis = svg("line", { class: "axis", x1: "0", x2: "100%", y1: "76%", y2: "76%" });
  return svg("svg", { class: `chart bars lane-${style}`, role: "img", "aria-label": `Acceptance of ${lane} by draft position` }, axis, ...groups);
}
