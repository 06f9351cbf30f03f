/**
 * Where the person writes: field, images, send and stop. Knows not where it goes.
 *
 * What is sent before the page is ready stays in the field, locked, until it is.
 */

import { Attachments } from "./attachments.js";
import { byId, icon } from "./dom.js";
import { amount } from "./sentences.js";
import { autosize, isSendKey } from "./textarea.js";

export class Composer {
  #isRunning = false;
  #isReady = false;
  #isWaiting = false;

  /**
   * @param {import("./drafts.js").Drafts} drafts
   * @param {{onSend: (said: import("./api.js").Said) => void, onStop: () => void, onEditLast: () => void}} handlers
   */
  constructor(drafts, handlers) {
    this.drafts = drafts;
    this.handlers = handlers;
    this.field = byId("message");
    this.button = byId("send-button");
    this.notice = byId("composer-notice");
    this.fit = autosize(this.field);
    this.attachments = new Attachments({ onChange: () => this.#onAttached() });
    this.form = byId("composer");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#act();
    });
    this.button.addEventListener("click", (event) => {
      const isSecondOfDoubleClick = event.detail === 2;
      if (isSecondOfDoubleClick && this.#isRunning) event.preventDefault(); // the first one sent
    });
    this.field.addEventListener("keydown", (event) => this.#onKey(event));
    this.field.addEventListener("input", () => this.#onInput());
    this.attachments.giveBack(drafts.images);
    this.text = this.text || drafts.typed;
    this.#wait(this.form.dataset.early === "sent");
    delete this.form.dataset.early;
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    this.field.value = value;
    this.fit();
    this.#onInput();
  }

  /** Before what is typed by now. @param {import("./api.js").Said} said */
  giveBack({ content, images }) {
    this.text = [content, this.text].filter(Boolean).join("\n\n");
    this.attachments.giveBack(images);
  }

  /** It need not be sent again. @param {import("./api.js").Said} said as given back */
  takeBack({ content, images }) {
    if (this.text !== content || this.attachments.ids.join() !== images.join()) return;
    this.#clear();
    this.showNotice("");
  }

  /** Why this cannot be sent; empty where it can. @param {import("./api.js").Said} said */
  faultOf({ content, images }) {
    const most = Number(this.field.dataset.mostCharacters);
    const count = [...content].length; // as the server counts: a smiley is one, and has a length of two
    if (count > most) return `This is too long: it has ${amount(count)} characters, at most ${amount(most)} can be sent.`;
    return this.attachments.faultOf(images);
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  /** With a finger, focus would open the keyboard over the page. */
  focusUnlessTouched() {
    if (matchMedia("(pointer: fine)").matches) this.focus();
  }

  /** @param {boolean} isRunning send becomes stop */
  showRunning(isRunning) {
    if (isRunning !== this.#isRunning) this.button.replaceChildren(icon(isRunning ? "stop" : "arrow-up"));
    this.#isRunning = isRunning;
    const label = isRunning ? "Stop" : "Send";
    this.button.setAttribute("aria-label", label);
    this.button.title = isRunning ? "Stop (Esc)" : "Send (Enter)";
    this.button.classList.toggle("is-running", isRunning);
    this.#showPossible();
  }

  /** @param {boolean} isReady what was sent meanwhile goes out */
  showReady(isReady) {
    this.#isReady = isReady;
    if (!isReady || !this.#isWaiting) return;
    this.#wait(false);
    this.#act();
  }

  get isWaiting() {
    return this.#isWaiting;
  }

  /** The text can be changed again, and is not sent by itself. */
  stopWaiting() {
    this.#wait(false);
  }

  /** @param {string} sentence empty: nothing to say @param {HTMLElement | null} [link] to what helps */
  showNotice(sentence, link = null) {
    this.notice.replaceChildren(sentence, ...(link ? [" ", link] : []));
    this.notice.hidden = !sentence;
  }

  #onInput() {
    this.drafts.typed = this.text;
    this.#showPossible();
  }

  #clear() {
    this.text = "";
    this.attachments.clear();
  }

  #onAttached() {
    if (!this.attachments.areOnTheirWay) this.drafts.images = this.attachments.ids;
    this.#showPossible();
  }

  /** Whether there is anything to send, and all of it is there. */
  get #isWritten() {
    const { ids, areOnTheirWay } = this.attachments;
    return !areOnTheirWay && Boolean(this.text.trim() || ids.length);
  }

  #showPossible() {
    this.button.disabled = this.#isWaiting || (!this.#isRunning && !this.#isWritten);
  }

  /** @param {boolean} isWaiting */
  #wait(isWaiting) {
    this.#isWaiting = isWaiting;
    this.field.readOnly = isWaiting;
    this.form.classList.toggle("is-waiting", isWaiting);
    this.#showPossible();
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (isSendKey(event)) {
      event.preventDefault();
      if (!this.#isRunning) this.#act();
    } else if (event.key === "ArrowUp" && !this.text) {
      event.preventDefault();
      this.handlers.onEditLast();
    }
  }

  #act() {
    if (this.#isRunning) return this.handlers.onStop();
    if (!this.#isWritten) return this.attachments.explainWait();
    if (!this.#isReady) return this.#wait(true);
    const said = { content: this.text.trim(), images: this.attachments.ids };
    this.showNotice("");
    this.#clear();
    return this.handlers.onSend(said);
  }
}
