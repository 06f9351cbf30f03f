/** Paints what changed, at most 20 times a second and less often when painting is slow. Knows not what it paints. */

const SHORTEST_GAP_MS = 50;
const SHARE_OF_TIME = 4; // painting may take a quarter of the time

export class Painter {
  /** @type {Set<() => void>} */
  #dirty = new Set();
  #timer = 0;
  #paintedAt = 0;
  #gap = SHORTEST_GAP_MS;

  /** @param {() => void} paint called once, soon; asking again before that changes nothing */
  request(paint) {
    this.#dirty.add(paint);
    if (this.#timer) return;
    const due = this.#paintedAt + this.#gap - performance.now();
    this.#timer = setTimeout(() => this.#paintAll(), Math.max(0, due));
  }

  #paintAll() {
    this.#timer = 0;
    const started = performance.now();
    const paints = [...this.#dirty];
    this.#dirty.clear();
    for (const paint of paints) paint();
    this.#paintedAt = performance.now();
    this.#gap = Math.max(SHORTEST_GAP_MS, (this.#paintedAt - started) * SHARE_OF_TIME);
  }
}
