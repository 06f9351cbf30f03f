/**
 * Formulas in Markdown, as extensions of marked: `$$…$$` and `\[…\]` on display, `\(…\)` and `$…$` in a line.
 *
 * They are taken before Markdown sees backslashes, stars and underscores. A formula whose end has not come yet stays as
 * it was written, to the end of its paragraph; an empty line ends any formula, so none can swallow what follows.
 */

const END_OF_PARAGRAPH = String.raw`\n[ \t]*\n`;
// Every part stops at its own delimiters, so that a wrong beginning costs no more than the way to the next one
const DOLLARS_INSIDE = String.raw`(?:(?!${END_OF_PARAGRAPH})(?:\\[^]|\$(?!\$)|[^\\$]))+?`;
const BRACKETS_INSIDE = String.raw`(?:(?!${END_OF_PARAGRAPH})(?:\\[^()[\]]|[^\\]))+?`;

const CLOSED_DISPLAY = String.raw`\$\$${DOLLARS_INSIDE}\$\$|\\\[${BRACKETS_INSIDE}\\\](?!\()`; // \[not a link\](address)
// Pandoc's rule against prices, and no letter after the end against $HOME/$USER
const DOLLARS_IN_LINE = String.raw`\$(?![\s$])(?:\\[^\n]|[^\\$\x60\n])+?(?<!\s)\$(?![\w$])`; // \x60 begins code

const CLOSED_BLOCK = new RegExp(String.raw`^ {0,3}(?:${CLOSED_DISPLAY})[ \t]*(?:\n|$)`);
const CLOSED_INLINE = new RegExp(String.raw`^(?:${CLOSED_DISPLAY}|\\\(${BRACKETS_INSIDE}\\\)|${DOLLARS_IN_LINE})`);
const OPEN_BLOCK = new RegExp(String.raw`^ {0,3}(?:\$\$(?:${DOLLARS_INSIDE})?\$?|\\\[(?:${BRACKETS_INSIDE})?\\?)$`);
const OPEN_INLINE = new RegExp(String.raw`^(?:\$\$(?:${DOLLARS_INSIDE})?|\\\((?:${BRACKETS_INSIDE})?\\?)$`);
const BLOCK_OR_END = /\n(?:[ \t]*\n|(?= {0,3}(?:\$\$|\\\[)))/g;

/** @param {RegExpExecArray | null} match @param {string} type @param {boolean} isBlock */
const token = (match, type, isBlock) => (match ? { type, raw: match[0], isBlock } : undefined);

/** @param {string} source */
const blockFormula = (source) =>
  token(CLOSED_BLOCK.exec(source), "formula", true) ?? token(OPEN_BLOCK.exec(source), "unfinishedFormula", true);

/** Where a formula ends this paragraph; a cut at what is none makes marked slow. @param {string} source */
function blockStart(source) {
  for (const { 0: found, index } of source.matchAll(BLOCK_OR_END)) {
    if (found !== "\n") return undefined;
    if (blockFormula(source.slice(index + 1))) return index + 1;
  }
  return undefined;
}

/** @param {(text: string) => string} escape */
export function mathExtensions(escape) {
  return [
    {
      name: "formula",
      level: "block",
      start: blockStart,
      tokenizer: blockFormula,
      renderer: ({ raw }) => `<span data-formula>${escape(raw.trim())}</span>`,
    },
    {
      name: "formula",
      level: "inline",
      start: (source) => {
        const index = source.search(/\$|\\[([]/);
        return index < 0 ? undefined : index;
      },
      tokenizer(source) {
        const open = () => token(OPEN_INLINE.exec(source), "unfinishedFormula", false);
        return token(CLOSED_INLINE.exec(source), "formula", false) ?? open();
      },
    },
    {
      name: "unfinishedFormula",
      renderer: ({ raw, isBlock }) => (isBlock ? `<p>${escape(raw.trim())}</p>\n` : escape(raw)),
    },
  ];
}
