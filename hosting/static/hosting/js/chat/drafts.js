/** What was written and is not sent, kept in this tab for whoever wrote it. Knows no fields. */

export class Drafts {
  /** @param {string} person whose they are: the next one who signs in here does not see them */
  constructor(person) {
    this.person = person;
  }

  /** What stands in the field. */
  get typed() {
    return sessionStorage.getItem(this.#typedKey) ?? "";
  }

  set typed(text) {
    keepIfPossible(this.#typedKey, text);
  }

  /** The system prompt of a chat that has not begun. */
  get systemPrompt() {
    return sessionStorage.getItem(this.#promptKey) ?? "";
  }

  set systemPrompt(text) {
    keepIfPossible(this.#promptKey, text);
  }

  /** The tool servers of a chat that has not begun. @returns {number[]} */
  get toolServers() {
    return JSON.parse(sessionStorage.getItem(this.#toolsKey) ?? "[]");
  }

  set toolServers(servers) {
    keepIfPossible(this.#toolsKey, JSON.stringify(servers));
  }

  /** Until the conversation is open again. @param {string | null} conversation null: a new one @param {string} text */
  keep(conversation, text) {
    const both = [this.take(conversation), text].filter(Boolean).join("\n\n");
    keepIfPossible(this.#unsentKey(conversation), both);
  }

  /** @param {string | null} conversation */
  take(conversation) {
    const text = sessionStorage.getItem(this.#unsentKey(conversation)) ?? "";
    sessionStorage.removeItem(this.#unsentKey(conversation));
    return text;
  }

  get #typedKey() {
    return `hearth-draft-${this.person}`;
  }

  get #promptKey() {
    return `hearth-prompt-${this.person}`;
  }

  get #toolsKey() {
    return `hearth-tools-${this.person}`;
  }

  /** @param {string | null} conversation */
  #unsentKey(conversation) {
    return `hearth-unsent-${this.person}-${conversation ?? "new"}`;
  }
}

/** A text that is more than a tab may store is not kept, nor an older one in its place. */
function keepIfPossible(key, text) {
  try {
    sessionStorage.setItem(key, text);
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error;
    sessionStorage.removeItem(key);
  }
}
