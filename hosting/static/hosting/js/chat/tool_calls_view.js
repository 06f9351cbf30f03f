/**
 * The calls of one answer: what is to be sent where, the person's decision, and what came of it. Asks no server.
 *
 * Everything in it was written by a model or a stranger's server, so it is put in as text and never as HTML.
 */

import { element, icon } from "./dom.js";

const OPEN_STATES = new Set(["waiting", "allowed", "running", "lost"]);
const STATE_SENTENCES = {
  waiting: "Nothing has been sent yet.",
  allowed: "Waiting to be run",
  running: "Running",
  lost: "Its result is lost, and it may have run. Try it again?",
  done: "Done",
  failed: "Failed",
  declined: "Not allowed",
  stopped: "Stopped",
};
const CHOICES = {
  waiting: [
    ["once", "Allow once", "button button-primary"],
    ["conversation", "Allow in this conversation", "button"],
    ["no", "Do not allow", "button"],
  ],
  lost: [
    ["once", "Try again", "button button-primary"],
    ["no", "Do not try again", "button"],
  ],
};

/** @typedef {import("./api.js").ToolCall} ToolCall */

/** @param {import("./api.js").Message} message */
export function isUndecided(message) {
  return message.role === "tool" && message.calls.some((call) => OPEN_STATES.has(call.state));
}

export class ToolCallsView {
  /** @type {Map<string, {call: string, node: HTMLElement}>} */
  #boxes = new Map();

  /**
   * @param {import("./api.js").Message} message
   * @param {{onDecide: (call: ToolCall, decision: string) => Promise<void>, onGoOn: (message: any) => void}} actions
   */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.calls = element("div", { class: "calls" });
    this.note = element("span");
    this.goOn = element(
      "button",
      { type: "button", class: "button", onclick: () => this.actions.onGoOn(this.message) },
      "Answer with these results",
    );
    this.end = element("div", { class: "answer-end", hidden: true }, this.note, this.goOn);
    this.node = element(
      "article",
      { class: "message message-calls", "data-id": message.id, "aria-label": "Tools" },
      this.calls,
      this.end,
    );
  }

  /** @param {{isLast: boolean, isBusy: boolean}} state */
  update({ isLast, isBusy }) {
    this.message.calls.forEach((call) => this.#showCall(call));
    this.end.hidden = !isLast || isUndecided(this.message);
    this.note.textContent = this.message.content || "The answer has not gone on after this.";
    this.goOn.disabled = isBusy;
  }

  /** @param {ToolCall} call */
  #showCall(call) {
    const known = this.#boxes.get(call.id);
    const seen = JSON.stringify(call);
    if (known?.call === seen) return;
    const node = this.#box(call);
    if (known) known.node.replaceWith(node);
    else this.calls.append(node);
    this.#boxes.set(call.id, { call: seen, node });
  }

  /** @param {ToolCall} call */
  #box(call) {
    const title = `call-${call.id}`;
    const choices = CHOICES[call.state] ?? [];
    return element(
      "section",
      { class: "call", "data-state": call.state, "aria-labelledby": title },
      element(
        "h3",
        { class: "call-title", id: title },
        icon("wrench"),
        element("span", {}, call.server ? `${call.tool} of ${call.server}` : call.tool),
      ),
      element("pre", { class: "call-text", role: "group", "aria-label": "What is sent", tabIndex: 0 }, call.arguments),
      element("p", { class: "call-state" }, STATE_SENTENCES[call.state] ?? call.state),
      choices.length
        ? element("div", { class: "call-choices" }, ...choices.map((choice) => this.#choice(call, choice)))
        : null,
      call.result ? this.#result(call) : null,
    );
  }

  /** @param {ToolCall} call @param {string[]} choice */
  #choice(call, [decision, label, style]) {
    const decide = async (event) => {
      const buttons = [...event.target.parentNode.children];
      for (const button of buttons) button.disabled = true;
      await this.actions.onDecide(call, decision);
      for (const button of buttons) button.disabled = false;
    };
    return element("button", { type: "button", class: style, onclick: decide }, label);
  }

  /** @param {ToolCall} call */
  #result(call) {
    return element(
      "details",
      { class: "tool-call", open: call.state !== "done" },
      element("summary", {}, icon("chevron-right"), element("span", {}, "Result")),
      element("pre", { class: "call-text", role: "group", "aria-label": "Result", tabIndex: 0 }, call.result),
    );
  }
}
