// @ts-check
/** Numbers as the server writes them: app/web/formats.py is the model, a browser test holds both equal. */

export const NOTHING = "–";
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** @param {number | null | undefined} value */
export function rate(value) {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (value >= 99.95) return WHOLE.format(value);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** @param {number | null | undefined} value */
export function ratio(value) {
  return value == null ? NOTHING : `${value.toFixed(2)}×`;
}

/** @param {number | null | undefined} low @param {number | null | undefined} high */
export function interval(low, high) {
  return low == null || high == null ? "" : `${low.toFixed(2)}–${high.toFixed(2)}`;
}

/** @param {number | null | undefined} share */
export function percent(share) {
  return share == null ? NOTHING : `${(share * 100).toFixed(0)}%`;
}

/** @param {number | null | undefined} value */
export function count(value) {
  return value == null ? NOTHING : WHOLE.format(value);
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds == null) return NOTHING;
  const whole = Math.max(0, Math.trunc(seconds));
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.trunc(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.trunc(whole / 3600)} h ${two(Math.trunc((whole % 3600) / 60))} min`;
}

/** A span that has ended. @param {number | null | undefined} seconds */
export function span(seconds) {
  return seconds == null || seconds >= 10 ? duration(seconds) : `${seconds.toFixed(1)} s`;
}

/** @param {number} number @param {string} noun */
export function plural(number, noun) {
  return `${WHOLE.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** @param {CellView} cell */
export function cellLabel(cell) {
  const long = cell.context && cell.context % 1024 === 0;
  const context = long ? `${cell.context / 1024}K` : WHOLE.format(cell.context);
  return `${cell.workload} · ${context} context · ${plural(cell.concurrency, "stream")}`;
}
