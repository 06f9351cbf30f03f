/** Builds DOM nodes. Knows no part of the page. */

const ICONS = document.body.dataset.icons ?? "";

/**
 * A new element. Keys of `properties` starting with "on" are listeners, "class", "aria-*", "data-*" and "role" are
 * attributes, all others are set as properties; undefined is left out.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node | string | null | undefined)} children
 * @returns {any}
 */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (/^(class|role|for|aria-|data-)/.test(name)) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** @param {string} name a symbol of icons.svg */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `${ICONS}#${name}`);
  svg.append(use);
  return svg;
}

/**
 * @param {string} label what a screen reader says and the tooltip shows
 * @param {string} iconName
 * @param {(event: MouseEvent) => void} onclick
 */
export function iconButton(label, iconName, onclick) {
  return element(
    "button",
    { type: "button", class: "button button-icon", "aria-label": label, title: label, onclick },
    icon(iconName),
  );
}

/** @param {string} id @returns {any} */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no #${id}`);
  return node;
}
