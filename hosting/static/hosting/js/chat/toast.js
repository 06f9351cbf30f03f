/** Short messages at the edge of the page, with at most one button. Knows not what they are about. */

import { element, iconButton } from "./dom.js";

const SHOWN_MS = 6000;

/**
 * @param {string} text
 * @param {{action?: string, link?: HTMLElement | null, onAction?: () => void, onGone?: () => void}} [options] exactly one
 *   of onAction and onGone is called: onGone when the message leaves by itself, is closed, or the page is left
 */
export function toast(text, { action, link = null, onAction, onGone } = {}) {
  const region = document.getElementById("toasts");
  const leave = (then) => {
    clearTimeout(timer);
    removeEventListener("pagehide", onPageHide);
    node.remove();
    then?.();
  };
  const onPageHide = () => leave(onGone);
  const button = action
    ? element("button", { type: "button", class: "button button-quiet", onclick: () => leave(onAction) }, action)
    : null;
  const close = iconButton("Close", "x", () => leave(onGone));
  const node = element("div", { class: "toast" }, element("span", {}, text), link, button, close);
  const timer = setTimeout(() => leave(onGone), SHOWN_MS);
  addEventListener("pagehide", onPageHide);
  region.append(node);
}
