/** How answers are drawn: the settings panel and the thinking switch, checked and kept in the browser. */

import { byId } from "./dom.js";
import { anchorPanel } from "./panel.js";

const STORED = "hearth-settings";

/** Field name -> its limits; the same as the server's. */
const LIMITS = {
  temperature: { least: 0, most: 2 },
  top_p: { least: 0.01, most: 1 },
  top_k: { least: 0, most: 1_000_000, isWhole: true },
  max_tokens: { least: 1, most: 1_000_000, isWhole: true },
  seed: { least: 0, most: 2 ** 31 - 1, isWhole: true },
};

/**
 * The number in a field: undefined when empty, or an Error with a sentence.
 * @param {string} text @param {{least: number, most: number, isWhole?: boolean}} limits
 */
function checkNumber(text, { least, most, isWhole = false }) {
  if (!text.trim()) return undefined;
  const value = Number(text.replace(",", "."));
  if (Number.isNaN(value)) return new Error("Write a number, or leave it empty.");
  if (isWhole && !Number.isInteger(value)) return new Error("Write a whole number.");
  if (value < least || value > most) return new Error(`Between ${least} and ${most.toLocaleString("en")}.`);
  return value;
}

export class Settings {
  /** @type {Record<string, number>} */
  #numbers = {};
  #isThinkingWanted = false;
  #isThinkingPossible = false;

  /** @param {{onSystemPrompt: (text: string) => void}} handlers called when the field is left with another text */
  constructor(handlers) {
    this.form = byId("settings-form");
    this.systemPromptField = this.form.elements.system_prompt;
    this.thinkingButton = byId("thinking-button");
    this.settingsButton = byId("settings-button");
    this.panel = byId("settings-panel");
    anchorPanel(this.panel, () => this.settingsButton);
    this.#restore();
    this.form.addEventListener("input", () => this.#read());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(() => this.#read()));
    this.systemPromptField.addEventListener("change", () => handlers.onSystemPrompt(this.systemPrompt));
    this.thinkingButton.addEventListener("click", () => this.#toggleThinking());
  }

  /** What is sent with a message. */
  get options() {
    const thinking = this.#isThinkingPossible ? { enable_thinking: this.#isThinkingWanted } : {};
    return { ...this.#numbers, ...thinking };
  }

  /** What is wrong with a number: it is not sent. Empty where all are right. */
  get fault() {
    const field = this.form.querySelector("[aria-invalid=true]");
    return field ? `${field.labels[0].textContent}: ${byId(`${field.id}-error`).textContent}` : "";
  }

  get systemPrompt() {
    return this.systemPromptField.value.trim();
  }

  set systemPrompt(text) {
    if (document.activeElement !== this.systemPromptField) this.systemPromptField.value = text;
    this.#showChanged();
  }

  /** A text that is being written is handed over, while it is known whose it is; its panel closes. */
  leave() {
    this.systemPromptField.blur();
    this.panel.hidePopover();
  }

  /** @param {import("./api.js").Model | null} model */
  showModel(model) {
    this.#isThinkingPossible = Boolean(model?.supports_thinking);
    this.thinkingButton.hidden = !this.#isThinkingPossible;
    const limit = model?.context_limit_tokens;
    this.form.elements.max_tokens.placeholder = limit ? `up to ${limit.toLocaleString("en")}` : "no limit of its own";
  }

  #toggleThinking() {
    this.#isThinkingWanted = !this.#isThinkingWanted;
    this.#showThinking();
    this.#store();
  }

  #showThinking() {
    this.thinkingButton.setAttribute("aria-pressed", String(this.#isThinkingWanted));
  }

  #read() {
    this.#numbers = {};
    for (const [name, limits] of Object.entries(LIMITS)) {
      const field = this.form.elements[name];
      const value = checkNumber(field.value, limits);
      const error = value instanceof Error ? value.message : "";
      field.setAttribute("aria-invalid", String(Boolean(error)));
      byId(`${field.id}-error`).textContent = error;
      if (typeof value === "number") this.#numbers[name] = value;
    }
    this.#showChanged();
    this.#store();
  }

  /** The button says that answers are drawn in another way than the model's own. */
  #showChanged() {
    const isChanged = Object.keys(this.#numbers).length > 0 || this.systemPrompt !== "";
    this.settingsButton.classList.toggle("is-changed", isChanged);
  }

  #store() {
    localStorage.setItem(STORED, JSON.stringify({ numbers: this.#numbers, thinking: this.#isThinkingWanted }));
  }

  #restore() {
    const { numbers = {}, thinking = false } = JSON.parse(localStorage.getItem(STORED) ?? "{}");
    for (const name of Object.keys(LIMITS)) this.form.elements[name].value = numbers[name] ?? "";
    this.#isThinkingWanted = thinking;
    this.#showThinking();
    this.#read();
  }
}
