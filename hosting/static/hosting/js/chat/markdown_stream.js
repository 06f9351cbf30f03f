/**
 * Markdown that grows: what is closed is never parsed or painted again.
 *
 *     container [ closed block | closed block | ... | open block ]
 *
 * A block is closed when a later block begins whose first line is complete: from then on no text that follows can
 * change it. Only the open block is parsed at a paint; open code only gets the new letters appended.
 *
 * Invariant: after finish() the container holds the same HTML as one render of the whole text.
 */

import { codeBlock } from "./code_block.js";
import { element } from "./dom.js";
import { lex, render } from "./markdown.js";

export class MarkdownStream {
  #source = "";
  #closedLength = 0;
  /** @type {import("./markdown.js").Definitions} */
  #definitions = {};
  /** @type {ReturnType<typeof codeBlock> | null} */
  #openCode = null;
  #isFinished = false;

  /** @param {HTMLElement} container its content belongs to this object */
  constructor(container) {
    this.container = container;
    this.open = element("div", { class: "open-block" });
    container.replaceChildren(this.open);
  }

  /** @param {string} text all of it, so far */
  update(text) {
    const source = normalise(text);
    if (this.#isFinished || !source.startsWith(this.#source)) this.#restart();
    if (source === this.#source) return;
    this.#source = source;
    this.#closeBlocks(source.slice(this.#closedLength, source.lastIndexOf("\n") + 1));
    this.#paintOpenBlock();
  }

  /** @param {string} text the whole of it */
  finish(text) {
    const source = normalise(text);
    if (this.#isFinished && source === this.#source) return;
    if (this.#isFinished || !source.startsWith(this.#source)) this.#restart();
    this.#source = source;
    // A link may be defined after the paragraph that uses it; only then the whole is rendered again.
    const tail = lex(source.slice(this.#closedLength), this.#definitions);
    const isWhole = Object.keys(this.#definitions).length > 0;
    if (isWhole) this.container.replaceChildren(render(lex(source)));
    else this.open.replaceWith(render(tail));
    this.#openCode = null;
    this.#isFinished = true;
  }

  #restart() {
    this.#source = "";
    this.#closedLength = 0;
    this.#definitions = {};
    this.#openCode = null;
    this.#isFinished = false;
    this.open.replaceChildren();
    this.container.replaceChildren(this.open);
  }

  /** @param {string} lines complete lines from the start of the open block */
  #closeBlocks(lines) {
    const tokens = lex(lines, this.#definitions);
    const last = tokens.findLastIndex((token) => token.type !== "space");
    if (last <= 0) return;
    const closed = tokens.slice(0, last);
    this.open.before(render(Object.assign(closed, { links: this.#definitions })));
    this.#closedLength += closed.reduce((length, token) => length + token.raw.length, 0);
    this.#openCode = null;
  }

  #paintOpenBlock() {
    const source = this.#source.slice(this.#closedLength);
    // Whether a last $ ends a formula or begins a price is told by what follows.
    const tokens = lex(source.replace(/(?<!\$)\$$/, ""), this.#definitions);
    const blocks = tokens.filter((token) => token.type !== "space");
    const [only] = blocks;
    if (blocks.length === 1 && only.type === "code" && only.lang !== undefined) {
      this.#paintOpenCode(only);
    } else {
      this.#openCode = null;
      this.open.replaceChildren(render(tokens));
    }
  }

  /** @param {{text: string, lang?: string}} token */
  #paintOpenCode({ text, lang = "" }) {
    const language = lang.match(/^\S+/)?.[0] ?? "";
    if (this.#openCode?.language !== language) {
      this.#openCode = codeBlock({ text: "", language, isOpen: true });
      this.open.replaceChildren(this.#openCode.node);
    }
    this.#openCode?.grow(text);
  }
}

/** As marked's lexer does it, so that the lengths of its tokens are lengths in our text. @param {string} text */
function normalise(text) {
  return text.replace(/\r\n|\r/g, "\n");
}
