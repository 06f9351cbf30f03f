/** One line of the conversation list. Knows the line only. */

import { element, iconButton } from "./dom.js";

export class ConversationItem {
  /**
   * @param {import("./api.js").ConversationRow} row
   * @param {boolean} isCurrent
   * @param {{onOpen: (id: string) => void, onMenu: (id: string) => void, menu: HTMLElement}} actions
   */
  constructor(row, isCurrent, actions) {
    this.row = row;
    const { title } = row;
    this.link = element(
      "a",
      {
        href: `/c/${row.id}`,
        "aria-current": isCurrent ? "page" : undefined,
        onclick: (event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          actions.onOpen(row.id);
        },
      },
      row.is_generating ? element("span", { class: "ember-dot", role: "img", "aria-label": "Generating" }) : null,
      element("span", { class: "conversation-title", title }, title),
      row.snippet ? element("span", { class: "conversation-snippet" }, row.snippet) : null,
    );
    this.menuButton = iconButton(`Options for ${title}`, "ellipsis", () => actions.onMenu(row.id));
    this.menuButton.popoverTargetElement = actions.menu;
    this.node = element("li", { class: "conversation-row", "data-conversation": row.id }, this.link, this.menuButton);
  }

  /** Turns the line into a field. @returns {Promise<string | null>} the new title, or null when given up */
  askTitle() {
    return new Promise((resolve) => {
      const input = element("input", { class: "rename", value: this.row.title, "aria-label": "Title", maxLength: 120 });
      const done = (title) => {
        input.replaceWith(this.link);
        this.link.focus();
        resolve(title);
      };
      input.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.isComposing) input.blur();
        if (event.key !== "Escape") return;
        event.stopPropagation();
        input.value = "";
        input.blur();
      });
      input.addEventListener("blur", () => done(input.value.trim() || null), { once: true });
      this.link.replaceWith(input);
      input.focus();
      input.select();
    });
  }
}
