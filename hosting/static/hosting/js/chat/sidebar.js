/** The sidebar as a piece of furniture: collapsed or not on wide screens, a drawer on narrow ones; the theme switch. */

import { byId } from "./dom.js";
import { anchorPanel, moveByArrows } from "./panel.js";

const STORED_COLLAPSED = "hearth-sidebar";
const STORED_THEME = "hearth-theme";
const narrow = matchMedia("(max-width: 760px)");

export class Sidebar {
  constructor() {
    this.root = byId("chat");
    this.sidebar = byId("sidebar");
    this.openButton = byId("open-sidebar");
    this.root.classList.toggle("is-collapsed", localStorage.getItem(STORED_COLLAPSED) === "collapsed");
    this.openButton.addEventListener("click", () => this.toggle());
    byId("close-sidebar").addEventListener("click", () => this.toggle());
    byId("backdrop").addEventListener("click", () => this.closeDrawer());
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#isDrawerOpen || document.querySelector(":popover-open")) return;
      event.preventDefault();
      this.closeDrawer();
      this.openButton.focus();
    });
    narrow.addEventListener("change", () => this.#show());
    this.#show();
    listenToAccountMenu();
  }

  get #isDrawerOpen() {
    return this.root.classList.contains("is-drawer-open");
  }

  toggle() {
    if (narrow.matches) {
      this.root.classList.toggle("is-drawer-open");
    } else {
      const isCollapsed = this.root.classList.toggle("is-collapsed");
      localStorage.setItem(STORED_COLLAPSED, isCollapsed ? "collapsed" : "open");
    }
    this.#show();
    if (this.#isVisible) byId("close-sidebar").focus();
    else this.openButton.focus();
  }

  /** Makes it visible. */
  open() {
    if (!this.#isVisible) this.toggle();
  }

  closeDrawer() {
    this.root.classList.remove("is-drawer-open");
    this.#show();
  }

  get #isVisible() {
    return narrow.matches ? this.#isDrawerOpen : !this.root.classList.contains("is-collapsed");
  }

  #show() {
    this.sidebar.inert = !this.#isVisible;
    this.openButton.setAttribute("aria-expanded", String(this.#isVisible));
    byId("conversation").inert = narrow.matches && this.#isDrawerOpen;
  }
}

function listenToAccountMenu() {
  const menu = byId("account-menu");
  anchorPanel(menu, () => byId("account-button"));
  moveByArrows(menu);
  const themes = menu.querySelectorAll("[data-theme-choice]");
  const show = (theme) => themes.forEach((item) => item.setAttribute("aria-checked", String(item.dataset.themeChoice === theme)));
  show(localStorage.getItem(STORED_THEME) ?? "system");
  for (const item of themes) {
    item.addEventListener("click", () => {
      const theme = item.dataset.themeChoice;
      applyTheme(theme);
      show(theme);
    });
  }
}

/** @param {string} theme light, dark or system */
function applyTheme(theme) {
  if (theme === "system") {
    localStorage.removeItem(STORED_THEME);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(STORED_THEME, theme);
    document.documentElement.dataset.theme = theme;
  }
}
