/**
 * Markdown of a model to DOM, safely. Knows nothing of streaming.
 *
 * The text is not trusted: a model repeats what anybody wrote to it. So raw HTML stays text, images stay links (a
 * picture's address can carry the conversation out), links go to http, https and mailto only, and DOMPurify has the
 * last word over what marked made.
 */

import "../../vendor/dompurify/purify.min.js";
import { Lexer, Marked } from "../../vendor/marked/marked.esm.js";
import { codeBlock } from "./code_block.js";
import { element } from "./dom.js";
import { formula } from "./formula.js";
import { mathExtensions } from "./math_syntax.js";

const MOST_FORMULAS = 1_000; // set at once; with many more the page would no longer answer

const SAFE_LINK = /^(?:https?:\/\/|mailto:)/i;

const ALLOWED_TAGS =
  "a blockquote br code del em h3 h4 h5 h6 hr li ol p pre span strong table tbody td th thead tr ul".split(" ");

const PURIFY_OPTIONS = {
  ALLOWED_TAGS,
  ALLOWED_ATTR: ["href", "title", "start", "align", "data-language", "data-formula"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: SAFE_LINK,
  ADD_URI_SAFE_ATTR: ["start", "align", "data-language", "data-formula"], // all other values are held against the line above
  RETURN_DOM_FRAGMENT: true,
};

const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** @param {string} text */
const escape = (text) => text.replace(/[&<>"']/g, (character) => ESCAPES[character]);

/** @param {string} address @param {string} inner HTML @param {string | null} [title] */
function linkHtml(address, inner, title) {
  if (!SAFE_LINK.test(address)) return inner;
  return `<a href="${escape(address)}"${title ? ` title="${escape(title)}"` : ""}>${inner}</a>`;
}

const marked = new Marked({
  gfm: true,
  breaks: true, // a poem's lines are lines
  extensions: mathExtensions(escape),
  tokenizer: {
    html: () => undefined,
    tag: () => undefined,
  },
  renderer: {
    code({ text, lang }) {
      return `<pre data-language="${escape(lang?.match(/^\S+/)?.[0] ?? "")}"><code>${escape(text)}\n</code></pre>\n`;
    },
    html({ text }) {
      return escape(text);
    },
    heading({ tokens, depth }) {
      // The page has its own h1 and h2.
      const level = Math.min(6, depth + 2);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
    },
    link({ href, title, tokens }) {
      return linkHtml(href, this.parser.parseInline(tokens), title);
    },
    image({ href, text }) {
      return linkHtml(href, escape(text || href));
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

/** Link definitions of a text, by label. @typedef {Record<string, {href: string, title: string}>} Definitions */

/**
 * @param {string} source
 * @param {Definitions} [definitions] those of the text before; new ones are added to it
 */
export function lex(source, definitions = {}) {
  const lexer = new Lexer(marked.defaults);
  Object.assign(lexer.tokens.links, definitions);
  const tokens = lexer.lex(source);
  Object.assign(definitions, tokens.links);
  return tokens;
}

/**
 * The blocks of lexed tokens as DOM.
 * @param {ReturnType<typeof lex>} tokens
 * @returns {DocumentFragment}
 */
export function render(tokens) {
  const fragment = globalThis.DOMPurify.sanitize(marked.parser(tokens), PURIFY_OPTIONS);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of fragment.querySelectorAll("table")) scrollable(table);
  for (const pre of fragment.querySelectorAll("pre")) {
    pre.replaceWith(codeBlock({ text: pre.textContent, language: pre.dataset.language ?? "" }).node);
  }
  const places = [...fragment.querySelectorAll("[data-formula]")].slice(0, MOST_FORMULAS);
  for (const place of places) place.replaceWith(formula(place.textContent));
  return fragment;
}

/** @param {HTMLTableElement} table wide tables scroll in a box of their own, by keyboard too */
function scrollable(table) {
  const box = element("div", { class: "table-box", role: "region", "aria-label": "Table", tabIndex: 0 });
  table.replaceWith(box);
  box.append(table);
}
