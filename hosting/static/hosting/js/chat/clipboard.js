/** Copying with a visible and spoken "Copied". */

import { icon, iconButton } from "./dom.js";

const SHOWN_MS = 1600;

/**
 * @param {string} label
 * @param {() => string} text read when pressed
 */
export function copyButton(label, text) {
  const button = iconButton(label, "copy", async () => {
    const isCopied = await copy(text());
    show(button, isCopied ? "check" : "circle-alert", isCopied ? "Copied" : "Copying is not allowed here");
    setTimeout(() => show(button, "copy", label), SHOWN_MS);
  });
  return button;
}

/** @param {HTMLElement} button @param {string} iconName @param {string} label */
function show(button, iconName, label) {
  button.replaceChildren(icon(iconName));
  button.setAttribute("aria-label", label);
  button.title = label;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Without https (a machine of the local network) the clipboard API is missing; the old way still works. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  const focused = document.activeElement;
  (focused?.closest("dialog") ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
