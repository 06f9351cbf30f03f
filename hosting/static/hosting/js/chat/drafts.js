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
    sessionStorage.setItem(this.#typedKey, text);
  }

  /** Until the conversation is open again. @param {string | null} conversation null: a new one @param {string} text */
  keep(conversation, text) {
    const both = [this.take(conversation), text].filter(Boolean).join("\n\n");
    sessionStorage.setItem(this.#unsentKey(conversation), both);
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

  /** @param {string | null} conversation */
  #unsentKey(conversation) {
    return `hearth-unsent-${this.person}-${conversation ?? "new"}`;
  }
}
