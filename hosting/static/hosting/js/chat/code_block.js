/** A block of code with its language, a copy button and colours. Knows no markdown. */

import hljs from "../../vendor/highlight/core.min.js";
import { copyButton } from "./clipboard.js";
import { element } from "./dom.js";

const LONGEST_TO_COLOUR = 40_000;

const GRAMMARS =
  "bash c cpp css diff dockerfile go ini java javascript json python rust sql swift typescript xml yaml".split(" ");

const ALIASES = {
  "c++": "cpp", console: "bash", docker: "dockerfile", html: "xml", js: "javascript", jsx: "javascript",
  mjs: "javascript", patch: "diff", py: "python", python3: "python", rs: "rust", sh: "bash", shell: "bash",
  svg: "xml", toml: "ini", ts: "typescript", tsx: "typescript", yml: "yaml", zsh: "bash",
};

/** @type {Map<string, Promise<void>>} grammar -> when it is there */
const loading = new Map();

/** @param {string} language as written after the fence @returns {string | null} the grammar for it */
function grammarFor(language) {
  const name = language.toLowerCase();
  const grammar = ALIASES[name] ?? name;
  return GRAMMARS.includes(grammar) ? grammar : null;
}

/** @param {string} grammar */
function loadGrammar(grammar) {
  if (!loading.has(grammar)) {
    const address = new URL(`../../vendor/highlight/languages/${grammar}.min.js`, import.meta.url);
    loading.set(grammar, import(address.href).then((module) => hljs.registerLanguage(grammar, module.default)));
  }
  return loading.get(grammar);
}

/** @param {HTMLElement} code @param {string} language */
async function colour(code, language) {
  const grammar = grammarFor(language);
  if (!grammar || code.textContent.length > LONGEST_TO_COLOUR) return;
  await loadGrammar(grammar);
  // highlight() escapes the code and adds nothing but <span class="hljs-...">.
  code.innerHTML = hljs.highlight(code.textContent, { language: grammar, ignoreIllegals: true }).value;
}

/**
 * A block whose code is known (coloured) or still grows (`isOpen`: colours come with close()).
 * @param {{text: string, language: string, isOpen?: boolean}} options
 */
export function codeBlock({ text, language, isOpen = false }) {
  const letters = document.createTextNode(text);
  const code = element("code", {}, letters);
  const node = element(
    "div",
    { class: "code-block" },
    element(
      "div",
      { class: "code-head" },
      element("span", { class: "code-language" }, language || "text"),
      copyButton("Copy code", () => code.textContent.replace(/\n$/, "")),
    ),
    element("pre", { tabIndex: 0, "aria-label": `Code${language ? `, ${language}` : ""}`, role: "region" }, code),
  );
  if (!isOpen) colour(code, language);
  return {
    node,
    language,
    /** Append-only as long as the new text goes on from the old. @param {string} next */
    grow(next) {
      if (next.startsWith(letters.data)) letters.appendData(next.slice(letters.length));
      else letters.data = next;
    },
  };
}
