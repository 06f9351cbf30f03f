/** Moving between the versions of a message. */

import { element, iconButton } from "./dom.js";

/**
 * "‹ 2/3 ›", hidden for a message without other versions. Built again only when it has changed, so that focus stays.
 */
export class VersionSwitch {
  #shown = "";

  /** @param {(id: string) => void} onShow */
  constructor(onShow) {
    this.onShow = onShow;
    this.node = element("span", { class: "versions", role: "group", "aria-label": "Versions", hidden: true });
  }

  /** @param {import("./api.js").Message[]} versions @param {string} id of the one shown */
  update(versions, id) {
    const ids = versions.map((version) => version.id);
    const shown = `${id} of ${ids}`;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.node.hidden = ids.length < 2;
    if (this.node.hidden) return;
    const at = ids.indexOf(id);
    this.node.replaceChildren(
      this.#step("Previous version", "chevron-left", ids[at - 1]),
      element("span", { class: "version-count" }, `${at + 1}/${ids.length}`),
      this.#step("Next version", "chevron-right", ids[at + 1]),
    );
  }

  /** @param {string} label @param {string} iconName @param {string | undefined} to */
  #step(label, iconName, to) {
    const button = iconButton(label, iconName, () => this.onShow(to));
    button.disabled = to === undefined;
    return button;
  }
}
