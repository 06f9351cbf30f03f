/** The messages of one conversation as a tree of versions. Pure data; knows no DOM and no server. */

/** @typedef {import("./api.js").Message} Message */

export class MessageTree {
  /** @type {Map<string, Message>} in order of creation */
  #messages = new Map();
  /** @type {Map<string | null, Set<string>>} parent -> ids, in order of arrival */
  #children = new Map();

  /** @param {Message[]} messages replaces what has the same id */
  upsert(messages) {
    for (const message of messages) {
      this.#messages.set(message.id, message);
      if (!this.#children.has(message.parent)) this.#children.set(message.parent, new Set());
      this.#children.get(message.parent)?.add(message.id);
    }
  }

  /** @param {string} id */
  get(id) {
    return this.#messages.get(id);
  }

  /** @param {string} id */
  remove(id) {
    const message = this.#messages.get(id);
    if (message) this.#children.get(message.parent)?.delete(id);
    this.#messages.delete(id);
  }

  /** From the first message to `leaf`. @param {string | null} leaf @returns {Message[]} */
  pathTo(leaf) {
    const path = [];
    for (let message = leaf && this.#messages.get(leaf); message; ) {
      path.push(message);
      message = message.parent && this.#messages.get(message.parent);
    }
    return path.reverse();
  }

  /** The versions of a message, itself included, oldest first. @param {Message} message */
  versions(message) {
    return this.#childrenOf(message.parent).filter((other) => other.role === message.role);
  }

  /** Where the newest branch under a message ends. @param {string} id */
  newestLeafUnder(id) {
    for (;;) {
      const next = this.#childrenOf(id).at(-1);
      if (!next) return id;
      id = next.id;
    }
  }

  /** The leaf to show when the stored one is unknown. */
  newestLeaf() {
    return [...this.#messages.keys()].at(-1) ?? null;
  }

  /** @param {string | null} parent */
  #childrenOf(parent) {
    return [...(this.#children.get(parent) ?? [])]
      .map((id) => this.#messages.get(id))
      .sort((one, other) => Date.parse(one.created_at) - Date.parse(other.created_at));
  }
}
