/** Where the reader is: follows the end of a growing thread unless the reader scrolled away. Knows no messages. */

const NEAR_END_PX = 48;

export class ScrollKeeper {
  #isFollowing = true;
  #lastTop = 0;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} content grows inside
   * @param {HTMLElement} jump button to the end, shown while away from it
   */
  constructor(scroller, content, jump) {
    this.scroller = scroller;
    this.content = content;
    this.jump = jump;
    scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    jump.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.#onGrowth()).observe(content);
    new ResizeObserver(() => this.#onGrowth()).observe(scroller);
  }

  toEnd() {
    this.#isFollowing = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.jump.hidden = true;
  }

  /** Keeps the place in this conversation for the next visit. @param {string} name */
  remember(name) {
    const top = this.scroller.scrollTop;
    const anchor = [...this.content.children].find((child) => child.offsetTop + child.offsetHeight > top);
    const place = this.#isFollowing || !anchor ? null : { id: anchor.dataset.id, offset: top - anchor.offsetTop };
    if (place) sessionStorage.setItem(placeKey(name), JSON.stringify(place));
    else sessionStorage.removeItem(placeKey(name));
  }

  /** @param {string} name */
  restore(name) {
    const place = JSON.parse(sessionStorage.getItem(placeKey(name)) ?? "null");
    const anchor = place && this.content.querySelector(`[data-id="${CSS.escape(place.id)}"]`);
    if (!anchor) return this.toEnd();
    this.#isFollowing = false;
    const scroll = () => (this.scroller.scrollTop = anchor.offsetTop + place.offset);
    scroll();
    // Messages outside the view get their true height when they are first drawn, which is after the next frame begins
    requestAnimationFrame(() => requestAnimationFrame(scroll));
    return undefined;
  }

  #onScroll() {
    const top = this.scroller.scrollTop;
    if (this.#isAtEnd()) this.#isFollowing = true;
    else if (top < this.#lastTop) this.#isFollowing = false;
    this.#lastTop = top;
    this.jump.hidden = this.#isAtEnd();
  }

  #onGrowth() {
    if (this.#isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.jump.hidden = this.#isFollowing || this.#isAtEnd();
  }

  #isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
  }
}

/** @param {string} name */
const placeKey = (name) => `hearth-place-${name}`;
