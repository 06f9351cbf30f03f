/** A formula set by KaTeX, which comes with the first one. Until then, and where it is wrong, its source. Knows no markdown. */

import { element } from "./dom.js";

const LONGEST_TO_SET = 5_000;
const MOST_KEPT = 2_000;
const LONGEST_IN_LINE = 20; // shorter ones fit on any screen
const SLICE_MS = 10;
// A command defined in a formula can make a short one endless
const DEFINES = /\\(?:[egx]?def|let|futurelet|(?:re)?newcommand|providecommand)(?![a-zA-Z])/;

const KATEX_OPTIONS = { output: "htmlAndMathml", trust: false, strict: "ignore", maxSize: 20, maxExpand: 1000, errorColor: "currentColor" };

/** @typedef {{node: HTMLElement, tex: string, isDisplay: boolean}} Formula */

/** Source and kind -> what KaTeX made of it, so that an open paragraph costs no more at each paint. @type {Map<string, Node>} */
const kept = new Map();
/** @type {Formula[]} */
const waiting = [];
/** @type {Promise<void> | null} when KaTeX is there */
let loading = null;
let isSetting = false;

/** @param {string} source with its delimiters @returns {HTMLElement} */
export function formula(source) {
  const isDisplay = /^(?:\$\$|\\\[)/.test(source);
  const delimiter = source.startsWith("\\") || isDisplay ? 2 : 1;
  const tex = source.slice(delimiter, -delimiter);
  const node = isDisplay ? displayBox(source) : element("span", { class: "formula" }, source);
  if (tex.length > LONGEST_TO_SET || DEFINES.test(tex)) return node;
  waiting.push({ node, tex, isDisplay });
  loadKatex().then(setAll);
  return node;
}

/** @param {string} source a long formula scrolls in a box of its own, by keyboard too */
function displayBox(source) {
  const box = { class: "formula formula-display", role: "group", "aria-label": "Formula", tabIndex: 0 };
  return element("span", box, source);
}

function loadKatex() {
  loading ??= load();
  return loading;
}

async function load() {
  const address = (name) => new URL(`../../vendor/katex/${name}`, import.meta.url).href;
  document.head.append(element("link", { rel: "stylesheet", href: address("katex.min.css") }));
  await Promise.all([import(address("katex.min.js")), import(address("copy-tex.min.js"))]);
}

/** Those that were asked for last, which are nearest to the reader, come first; the page may do other things between. */
function setAll() {
  if (isSetting) return;
  const until = performance.now() + SLICE_MS;
  while (waiting.length && performance.now() < until) set(waiting.pop());
  isSetting = waiting.length > 0;
  if (isSetting) setTimeout(goOn);
}

function goOn() {
  isSetting = false;
  setAll();
}

/** @param {Formula} formula */
function set({ node, tex, isDisplay }) {
  const name = `${isDisplay} ${tex}`;
  if (!kept.has(name)) keep(name, typeset(tex, isDisplay));
  const made = kept.get(name);
  if (!made) return;
  node.replaceChildren(made.cloneNode(true));
  if (!isDisplay && tex.length > LONGEST_IN_LINE) boxIfWide(node);
}

/** @param {HTMLElement} node in a line, which breaks at relations and sums only; it scrolls where that is not enough */
function boxIfWide(node) {
  if (node.offsetWidth > node.closest(".prose")?.clientWidth) node.classList.add("formula-wide");
}

/** @param {string} name @param {Node | null} node */
function keep(name, node) {
  kept.set(name, node);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

/** @param {string} tex @param {boolean} displayMode @returns {Node | null} null for a wrong one */
function typeset(tex, displayMode) {
  const box = document.createElement("span");
  try {
    globalThis.katex.render(tex, box, { ...KATEX_OPTIONS, displayMode });
  } catch {
    return null; // not LaTeX, or nested deeper than the stack
  }
  return box.firstChild;
}
