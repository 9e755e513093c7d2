// @ts-check
/** Small helpers for the page: find, fill, build. Text is always set as text, never as HTML. */

/** @param {string} selector @param {ParentNode} [root] @returns {HTMLElement | null} */
export function find(selector, root = document) {
  return root.querySelector(selector);
}

/** Set an element's text, only when it changes. @param {Element | null | undefined} node @param {string} text */
export function fill(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

/** Text of the named fact inside `root`. @param {ParentNode | null} root @param {string} fact @param {string} text */
export function fact(root, fact, text) {
  if (root) fill(root.querySelector(`[data-fact="${fact}"]`), text);
}

/** @param {Element | null} node @param {boolean} isShown */
export function show(node, isShown) {
  if (node instanceof HTMLElement) node.hidden = !isShown;
}

/**
 * An HTML element with class, text or children.
 * @param {string} tag @param {string} className @param {(string | Node)[]} children @returns {HTMLElement}
 */
export function el(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** An SVG element. @param {string} tag @param {Record<string, string>} attributes @param {Node[]} children */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A lane's name with its stroke, as partials/_parts.html draws it. @param {string} name @param {number} style */
export function laneName(name, style) {
  const path = svg("path", { class: `line lane-${style}`, d: "M0 4H24" });
  const swatch = svg("svg", { class: "swatch", viewBox: "0 0 24 8", "aria-hidden": "true" }, path);
  const node = el("span", `lane lane-${style}`);
  node.append(swatch, name);
  return node;
}

/** Style of a lane by its place; app/web/charts.py lane_style. @param {number} position */
export function laneStyle(position) {
  return position === 0 ? 0 : ((position - 1) % 7) + 1;
}

/** Element of a list that belongs to `key`, made when it is not there. @param {Element} list @param {string} attribute @param {string} key @param {() => Element} make @returns {Element} */
export function keyed(list, attribute, key, make) {
  const known = [...list.children].find((child) => child.getAttribute(attribute) === key);
  if (known) return known;
  const node = make();
  node.setAttribute(attribute, key);
  list.append(node);
  return node;
}

/** Remove children whose key is not wanted any more. @param {Element} list @param {string} attribute @param {string[]} keys */
export function keepOnly(list, attribute, keys) {
  for (const child of [...list.children]) {
    if (!keys.includes(child.getAttribute(attribute) ?? "")) child.remove();
  }
}
