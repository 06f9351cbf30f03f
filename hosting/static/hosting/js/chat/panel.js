/** Panels that open at a button: placing them, and moving through menus by arrow keys. Native popovers do the rest. */

const MARGIN_PX = 8;

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

/** Below the button if it fits there, else above; never outside the window. */
function place(panel, button) {
  const { offsetWidth: width, offsetHeight: height } = panel;
  const below = button.bottom + MARGIN_PX / 2;
  const top = below + height + MARGIN_PX > innerHeight ? button.top - height - MARGIN_PX / 2 : below;
  const left = Math.min(button.left, innerWidth - width - MARGIN_PX);
  panel.style.setProperty("--panel-x", `${Math.max(MARGIN_PX, left)}px`);
  panel.style.setProperty("--panel-y", `${Math.max(MARGIN_PX, top)}px`);
}

/** Up, Down, Home and End move through the items of a menu. @param {HTMLElement} menu */
export function moveByArrows(menu) {
  menu.addEventListener("keydown", (event) => {
    const items = [...menu.querySelectorAll('[role^="menuitem"], [role="option"]')];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items.at(to === items.length ? 0 : to)?.focus();
  });
}
