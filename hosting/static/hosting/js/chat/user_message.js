/** One message of the person: its text and images, editing it into a new branch, its versions. */

import { imageAddress } from "./api.js";
import { copyButton } from "./clipboard.js";
import { element, iconButton } from "./dom.js";
import { autosize, isSendKey } from "./textarea.js";
import { VersionSwitch } from "./version_switch.js";

export class UserMessageView {
  /**
   * @param {import("./api.js").Message} message
   * @param {{onEdit: (message: any, said: import("./api.js").Said) => void, onShowVersion: (id: string) => void}} actions
   */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.bubble = element("div", { class: "bubble", hidden: !message.content }, message.content);
    this.images = element("div", { class: "message-images" }, ...message.images.map(shownImage));
    this.versions = new VersionSwitch(actions.onShowVersion);
    this.editButton = iconButton("Edit message", "pencil", () => this.edit());
    this.tools = element(
      "div",
      { class: "message-tools" },
      this.versions.node,
      copyButton("Copy message", () => this.message.content),
      this.editButton,
    );
    this.node = element(
      "article",
      { class: "message message-user", "data-id": message.id, "aria-label": "You" },
      this.images,
      this.bubble,
      this.tools,
    );
  }

  /** @param {{versions: import("./api.js").Message[], isBusy: boolean}} state */
  update({ versions, isBusy }) {
    this.versions.update(versions, this.message.id);
    this.editButton.disabled = isBusy;
  }

  edit() {
    if (this.editor) return;
    const area = element("textarea", { class: "edit-area", value: this.message.content, "aria-label": "Edit message" });
    const send = () => {
      const content = area.value.trim();
      this.#closeEditor();
      const { images } = this.message;
      const isSomething = content || images.length;
      if (isSomething && content !== this.message.content) this.actions.onEdit(this.message, { content, images });
    };
    area.addEventListener("keydown", (event) => {
      if (isSendKey(event)) {
        event.preventDefault();
        send();
      } else if (event.key === "Escape") {
        event.stopPropagation();
        this.#closeEditor();
      }
    });
    const button = (label, className, onclick) => element("button", { type: "button", class: className, onclick }, label);
    this.editor = element(
      "div",
      { class: "editor" },
      area,
      element(
        "div",
        { class: "editor-buttons" },
        button("Cancel", "button button-quiet", () => this.#closeEditor()),
        button("Send", "button button-primary", send),
      ),
    );
    this.bubble.replaceWith(this.editor);
    this.tools.hidden = true;
    autosize(area);
    area.focus();
  }

  #closeEditor() {
    this.editor?.replaceWith(this.bubble);
    this.editor = undefined;
    this.tools.hidden = false;
    this.editButton.focus();
  }
}

/** Opened large in a tab of its own. @param {string} id @param {number} place */
function shownImage(id, place) {
  const name = `Image ${place + 1}`;
  return element(
    "a",
    { class: "message-image", href: imageAddress(id), target: "_blank", rel: "noopener", title: `Open ${name.toLowerCase()}` },
    element("img", { src: imageAddress(id), alt: name }),
  );
}
