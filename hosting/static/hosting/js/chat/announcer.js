/** Speaks to screen readers in whole sentences and not too often. Knows no messages. */

const GAP_MS = 2500;

export class Announcer {
  #text = "";
  #spoken = 0;
  #timer = 0;

  /** @param {HTMLElement} region with aria-live="polite" */
  constructor(region) {
    this.region = region;
  }

  /** @param {string} sentence */
  say(sentence) {
    this.region.textContent = sentence;
  }

  /** @param {string} text all of it, so far */
  grow(text) {
    this.#text = text;
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      this.#flush(endOfLastSentence(this.#text));
    }, GAP_MS);
  }

  /** @param {string} sentence said after the rest of the text */
  end(sentence) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.say(`${aloud(this.#text.slice(this.#spoken))} ${sentence}`.trim());
    this.#text = "";
    this.#spoken = 0;
  }

  /** @param {number} until */
  #flush(until) {
    if (until <= this.#spoken) return;
    this.say(aloud(this.#text.slice(this.#spoken, until)).trim());
    this.#spoken = until;
  }
}

/** Without the signs that only make Markdown look like something. @param {string} markdown */
const aloud = (markdown) => markdown.replace(/^ {0,3}(#{1,6}|>) +/gm, "").replace(/\*\*|~~|`+/g, "");

/** @param {string} text */
function endOfLastSentence(text) {
  const ends = [...text.matchAll(/[.!?:]\s|\n/g)];
  const last = ends.at(-1);
  return last ? last.index + last[0].length : 0;
}
