/**
 * The ids under which messages are sent. One that is sent again, because no answer came, has the same id, and the
 * server stores it once. Knows no page.
 */

export class MessageIds {
  /** @type {Map<string, {id: string, said: import("./api.js").Said}>} what was sent and is not known to have arrived */
  #unanswered = new Map();

  /** @param {import("./api.js").Said} message all that is sent of it */
  of(message) {
    const words = JSON.stringify(message);
    const { content, images } = message;
    const known = this.#unanswered.get(words) ?? { id: newId(), said: { content, images } };
    this.#unanswered.set(words, known);
    return known.id;
  }

  /** It has arrived: the same words are another message from now on. @param {import("./api.js").Said} message */
  forget(message) {
    this.#unanswered.delete(JSON.stringify(message));
  }

  /** What these messages show to have arrived, and forgets it. @param {import("./tree.js").MessageTree} tree */
  takeArrived(tree) {
    const arrived = [...this.#unanswered].filter(([, { id }]) => tree.get(id));
    for (const [words] of arrived) this.#unanswered.delete(words);
    return arrived.map(([, { said }]) => said);
  }
}

/** A random UUID; crypto.randomUUID is only there behind TLS. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40; // RFC 9562: version 4
  bytes[8] = (bytes[8] & 0x3f) | 0x80; // and its variant
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
