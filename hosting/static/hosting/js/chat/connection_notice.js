/** Says that the server cannot be reached, once that lasts. */

import { byId } from "./dom.js";
import { CONNECTION_SENTENCES } from "./sentences.js";

const SHOWN_AFTER_MS = 1500;

export class ConnectionNotice {
  #node = byId("offline");
  #onBack;
  #timer = 0;
  #wasAway = false;

  /** @param {() => void} onBack it was away: what was said meanwhile was not heard */
  constructor(onBack) {
    this.#onBack = onBack;
  }

  /** @param {import("./socket.js").ConnectionState} state */
  note(state) {
    clearTimeout(this.#timer);
    const isOpen = state === "open";
    const show = () => {
      this.#node.textContent = CONNECTION_SENTENCES[state];
      this.#node.hidden = isOpen;
    };
    if (isOpen) show();
    else this.#timer = setTimeout(show, SHOWN_AFTER_MS);
    if (isOpen && this.#wasAway) this.#onBack();
    this.#wasAway = !isOpen;
  }
}
