/** Panels that open at a button: placing them, and moving through menus by arrow keys. Native popovers do the rest. */

const MARGIN_PX = 8;
const GAP_PX = 4;

/**
 * Places a popover at its button whenever it opens. On narrow screens the style sheet makes it a sheet at the bottom.
 * @param {HTMLElement} panel with the attribute popover
 * @param {() => HTMLElement} anchor
 * @param {() => void} [onOpen]
 */
export function anchorPanel(panel, anchor, onOpen = () => {}) {
  panel.addEventListener("beforetoggle", (event) => {
    if (event.newState === "open") onOpen();
  });
  panel.addEventListener("toggle", (event) => {
    anchor().setAttribute("aria-expanded", String(event.newState === "open"));
    if (event.newState === "open") place(panel, anchor().getBoundingClientRect());
  });
}

/** Below the button where it fits, else above and growing upwards; never outside the window. */
function place(panel, button) {
  const { offsetWidth: width, offsetHeight: height } = panel;
  const fitsBelow = button.bottom + GAP_PX + height + MARGIN_PX <= innerHeight;
  const left = Math.max(MARGIN_PX, Math.min(button.left, innerWidth - width - MARGIN_PX));
  const bottom = Math.max(MARGIN_PX, innerHeight - button.top + GAP_PX);
  panel.style.setProperty("--panel-left", `${left}px`);
  panel.style.setProperty("--panel-top", fitsBelow ? `${button.bottom + GAP_PX}px` : "auto");
  panel.style.setProperty("--panel-bottom", fitsBelow ? "auto" : `${bottom}px`);
  panel.style.setProperty("--panel-room", fitsBelow ? "100dvh" : `${innerHeight - bottom - MARGIN_PX}px`);
}

/** Up, Down, Home and End move through the items of a menu. @param {HTMLElement} menu */
export function moveByArrows(menu) {
  menu.addEventListener("toggle", (event) => {
    if (event.newState === "open") menu.querySelector('[role^="menuitem"]')?.focus();
  });
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll('[role^="menuitem"], [role="option"]')];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items.at(to === items.length ? 0 : to)?.focus();
  });
}
