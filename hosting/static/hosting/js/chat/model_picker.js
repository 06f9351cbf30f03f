/** Which model answers: the list with its states, the choice and what it can do. Knows no conversation. */

import { api } from "./api.js";
import { byId, element, icon } from "./dom.js";
import { anchorPanel, moveByArrows } from "./panel.js";
import { amount } from "./sentences.js";

const URGENT_POLL_MS = 2_000;
const IDLE_POLL_MS = 30_000;
const STORED = "hearth-model";

const STATES = {
  loaded: "Ready",
  loading: "Loading",
  cold: "Loads at first use",
  failed: "Cannot be loaded",
  fetching: "Downloading",
};

/** @typedef {import("./api.js").Model} Model */

export class ModelPicker {
  /** @type {Model[]} */
  models = [];
  /** Whether the server was asked: before, nobody knows whether the chosen model is there. */
  wasAsked = false;
  #chosen = localStorage.getItem(STORED);

  /** @param {{onChange: (model: Model | null, isByPerson: boolean) => void}} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.button = byId("model-button");
    this.panel = byId("model-panel");
    this.list = byId("model-list");
    anchorPanel(this.panel, () => this.button, () => this.refresh());
    moveByArrows(this.list);
    this.panel.addEventListener("toggle", (event) => {
      if (event.newState === "open") this.list.querySelector('[aria-selected="true"]')?.focus();
    });
    this.#poll();
  }

  /** @returns {Model | null} */
  get current() {
    const byName = this.models.find((model) => model.name === this.#chosen);
    return byName ?? this.models.find((model) => model.is_default) ?? this.models[0] ?? null;
  }

  /** @param {string | null} name */
  displayName(name) {
    return this.models.find((model) => model.name === name)?.display_name || name || "the model";
  }

  /** @param {string | null} name as a conversation remembers it */
  show(name) {
    if (name) this.#chosen = name;
    this.#render();
    this.handlers.onChange(this.current, false);
  }

  /** What an answer tells about its model. @param {string | null} name @param {Partial<Model>} changes */
  note(name, changes) {
    this.models = this.models.map((model) => (model.name === name ? { ...model, ...changes } : model));
    this.#render();
  }

  async refresh() {
    try {
      this.models = (await api.models()).models;
      this.#render();
    } catch {
      // the next poll asks again; the page says elsewhere that the service is away
    }
    this.wasAsked = true;
    this.handlers.onChange(this.current, false);
  }

  async #poll() {
    if (!document.hidden) await this.refresh();
    const isUrgent = !this.models.length || this.panel.matches(":popover-open");
    setTimeout(() => this.#poll(), isUrgent ? URGENT_POLL_MS : IDLE_POLL_MS);
  }

  /** @param {Model} model */
  #choose(model) {
    this.#chosen = model.name;
    localStorage.setItem(STORED, model.name);
    this.#render();
    this.panel.hidePopover();
    this.handlers.onChange(model, true);
  }

  #render() {
    const { current } = this;
    const name = current ? current.display_name || current.name : "No model";
    this.button.replaceChildren(
      ember(current?.state ?? "failed"),
      element("span", { class: "model-name" }, name),
      icon("chevron-down"),
    );
    this.button.setAttribute("aria-label", `Model: ${name}`);
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.model : null;
    this.list.replaceChildren(...this.models.map((model) => this.#option(model, model === current)));
    if (!this.models.length) this.list.append(element("p", { class: "muted" }, "There is no model for you yet. Ask an administrator."));
    if (focused) this.list.querySelector(`[data-model="${CSS.escape(focused)}"]`)?.focus();
  }

  /** @param {Model} model @param {boolean} isCurrent */
  #option(model, isCurrent) {
    const badge = (text) => element("span", { class: "badge" }, text);
    const option = element(
      "button",
      {
        type: "button",
        role: "option",
        class: "model-option",
        "aria-selected": String(isCurrent),
        "data-model": model.name,
        disabled: model.state === "failed" || model.state === "fetching",
        onclick: () => this.#choose(model),
      },
      ember(model.state),
      element("span", { class: "model-option-name" }, model.display_name || model.name),
      element("span", { class: "model-option-state" }, stateText(model)),
      element(
        "span",
        { class: "model-option-badges" },
        model.context_limit_tokens ? badge(`${amount(model.context_limit_tokens)} tokens`) : null,
        model.supports_thinking ? badge("thinking") : null,
        model.supports_tools ? badge("tools") : null,
        model.supports_images ? badge("images") : null,
        model.is_default ? badge("default") : null,
      ),
    );
    return option;
  }
}

/** @param {Model} model */
function stateText({ state, fraction }) {
  const percent = typeof fraction === "number" ? ` ${Math.floor(fraction * 100)} %` : "";
  return (STATES[state] ?? state) + percent;
}

/** The state as a coal: glowing, warming, cold. @param {string} state */
function ember(state) {
  return element("span", { class: "ember", "data-state": state, "aria-hidden": "true" });
}
