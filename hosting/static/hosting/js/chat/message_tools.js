/** The row of small buttons under a message: versions, copy and what a message offers. */

import { element, iconButton } from "./dom.js";

/**
 * "‹ 2/3 ›", empty for a message without other versions.
 * @param {import("./api.js").Message[]} versions
 * @param {string} id of the one shown
 * @param {(id: string) => void} onShow
 */
export function versionSwitch(versions, id, onShow) {
  if (versions.length < 2) return null;
  const at = versions.findIndex((version) => version.id === id);
  const step = (label, iconName, to) => {
    const button = iconButton(label, iconName, () => onShow(versions[to].id));
    button.disabled = !versions[to];
    return button;
  };
  return element(
    "span",
    { class: "versions", role: "group", "aria-label": "Versions" },
    step("Previous version", "chevron-left", at - 1),
    element("span", { class: "version-count" }, `${at + 1}/${versions.length}`),
    step("Next version", "chevron-right", at + 1),
  );
}
