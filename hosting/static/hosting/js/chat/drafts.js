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

  /** The images beside it. */
  get images() {
    return JSON.parse(sessionStorage.getItem(this.#imagesKey) ?? "[]");
  }

  set images(ids) {
    keepIfPossible(this.#imagesKey, JSON.stringify(ids));
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

  /** Until the conversation is open again. @param {string | null} conversation null: a new one @param {import("./api.js").Said} said */
  keep(conversation, said) {
    const before = this.take(conversation);
    const content = [before.content, said.content].filter(Boolean).join("\n\n");
    keepIfPossible(this.#unsentKey(conversation), JSON.stringify({ content, images: [...before.images, ...said.images] }));
  }

  /** @param {string | null} conversation @returns {import("./api.js").Said} */
  take(conversation) {
    const kept = sessionStorage.getItem(this.#unsentKey(conversation));
    sessionStorage.removeItem(this.#unsentKey(conversation));
    return kept ? JSON.parse(kept) : { content: "", images: [] };
  }

  get #typedKey() {
    return `hearth-draft-${this.person}`;
  }

  get #imagesKey() {
    return `hearth-images-${this.person}`;
  }

  get #promptKey() {
    return `hearth-prompt-${this.person}`;
  }

  get #toolsKey() {
    return `hearth-tools-${this.person}`;
  }

  /** @param {string | null} conversation */
  #unsentKey(conversation) {
    return `hearth-not-sent-${this.person}-${conversation ?? "new"}`;
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
