/** Which tool servers the conversation may use: the button, the panel, what the person has switched on. */

import { api } from "./api.js";
import { byId, element } from "./dom.js";
import { anchorPanel } from "./panel.js";

const NO_TOOLS = "This model has no way to call tools. Choose one that has the badge “tools”.";
const ASKED_FIRST = "The model may use what you switch on here. You are asked before anything is sent.";

export class ToolPicker {
  /** @type {import("./api.js").ToolServer[]} */
  #servers = [];
  /** @type {Set<number>} */
  #chosen = new Set();
  #isPossible = true;

  /** @param {{onChange: (servers: number[]) => void}} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.button = byId("tools-button");
    this.panel = byId("tools-panel");
    this.list = byId("tools-list");
    anchorPanel(this.panel, () => this.button, () => this.refresh());
    this.refresh();
  }

  /** What is switched on and still there. */
  get chosen() {
    return this.#servers.map((server) => server.id).filter((id) => this.#chosen.has(id));
  }

  /** @param {number[]} servers as a conversation has them */
  show(servers) {
    this.#chosen = new Set(servers);
    this.#render();
  }

  /** @param {import("./api.js").Model | null} model */
  showModel(model) {
    this.#isPossible = Boolean(model?.supports_tools);
    this.#render();
  }

  async refresh() {
    try {
      this.#servers = (await api.toolServers()).servers;
    } catch {
      return; // what was known stays; the page says elsewhere that the service is away
    }
    this.#render();
  }

  #render() {
    const count = this.#isPossible ? this.chosen.length : 0;
    this.button.hidden = !this.#servers.length;
    byId("tools-count").textContent = count ? String(count) : "";
    this.button.setAttribute("aria-label", count ? `Tools: ${count}` : "Tools");
    this.button.classList.toggle("is-on", count > 0);
    byId("tools-note").textContent = this.#isPossible ? ASKED_FIRST : NO_TOOLS;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.id : null;
    this.list.replaceChildren(...this.#servers.map((server) => this.#row(server)));
    if (focused) document.getElementById(focused)?.focus();
  }

  /** @param {import("./api.js").ToolServer} server */
  #row(server) {
    const id = `tool-server-${server.id}`;
    const box = element("input", {
      type: "checkbox",
      id,
      checked: this.#isPossible && this.#chosen.has(server.id),
      disabled: !this.#isPossible,
      "aria-describedby": `${id}-tools`,
      onchange: (event) => this.#switch(server.id, event.target.checked),
    });
    const names = server.tools.map((tool) => tool.name).join(", ");
    return element(
      "li",
      { class: "tool-server" },
      box,
      element("label", { for: id }, server.name),
      element("span", { id: `${id}-tools`, class: "tool-names" }, names),
    );
  }

  /** @param {number} id @param {boolean} isOn */
  #switch(id, isOn) {
    if (isOn) this.#chosen.add(id);
    else this.#chosen.delete(id);
    this.#render();
    this.handlers.onChange(this.chosen);
  }
}
