/** The messages of the path shown. Keeps a view per message, so that what is painted stays as it is. */

import { AnswerView } from "./answer_view.js";
import { ToolCallsView } from "./tool_calls_view.js";
import { UserMessageView } from "./user_message.js";

const VIEWS = { user: UserMessageView, assistant: AnswerView, tool: ToolCallsView };

export class Thread {
  /** @type {Map<string, AnswerView | UserMessageView | ToolCallsView>} */
  #views = new Map();

  /** @param {HTMLElement} container @param {object} actions handed on to the views */
  constructor(container, actions) {
    this.container = container;
    this.actions = actions;
  }

  /**
   * @param {import("./api.js").Message[]} path
   * @param {(message: import("./api.js").Message, index: number) => any} stateOf what a view's update() takes
   */
  show(path, stateOf) {
    const ids = new Set(path.map((message) => message.id));
    for (const [id, view] of this.#views) {
      if (ids.has(id)) continue;
      view.node.remove();
      this.#views.delete(id);
    }
    path.forEach((message, index) => {
      const view = this.#viewOf(message);
      if (this.container.children[index] !== view.node) {
        this.container.insertBefore(view.node, this.container.children[index] ?? null);
      }
      view.update(stateOf(message, index));
    });
  }

  /** @param {string} id */
  view(id) {
    return this.#views.get(id);
  }

  /** @param {import("./api.js").Message} message */
  #viewOf(message) {
    let view = this.#views.get(message.id);
    if (!view) {
      view = new VIEWS[message.role](message, this.actions);
      this.#views.set(message.id, view);
    }
    view.message = message;
    return view;
  }
}
