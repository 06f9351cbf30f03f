/** One answer: state line, thinking, text, tool calls, how it ended, statistics. Paints a LiveAnswer; asks no server. */

import { copyButton } from "./clipboard.js";
import { element, icon, iconButton } from "./dom.js";
import { limitsLink } from "./limits.js";
import { MarkdownStream } from "./markdown_stream.js";
import { endSentence, errorSentence, stateSentence, statistics, thinkingTitle } from "./sentences.js";
import { VersionSwitch } from "./version_switch.js";

/** @typedef {import("./live_answer.js").LiveAnswer} LiveAnswer */

export class AnswerView {
  /** @type {LiveAnswer | null} */
  #answer = null;
  #isFoldChosen = false;
  #endedPaint = null;

  /**
   * @param {import("./api.js").Message} message
   * @param {{onRegenerate: (message: any) => void, onShowVersion: (id: string) => void}} actions
   */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.paint = this.paint.bind(this);
    this.#build();
  }

  #build() {
    this.thinkingTitle = element("span");
    this.thinkingText = document.createTextNode("");
    this.thinking = element(
      "details",
      { class: "thinking", hidden: true },
      element("summary", { onclick: () => (this.#isFoldChosen = true) }, icon("chevron-right"), this.thinkingTitle),
      element("div", { class: "thinking-text" }, this.thinkingText),
    );
    this.prose = element("div", { class: "prose" });
    this.markdown = new MarkdownStream(this.prose);
    this.toolCalls = element("div", { class: "tool-calls" });
    this.state = element("p", { class: "answer-state" });
    this.end = element("div", { class: "answer-end", hidden: true });
    this.versions = new VersionSwitch(this.actions.onShowVersion);
    this.stats = element("span", { class: "answer-stats" });
    const again = () => this.actions.onRegenerate(this.message);
    this.regenerate = iconButton("Regenerate", "refresh-cw", again);
    this.retry = element("button", { type: "button", class: "button", onclick: again }, "Try again");
    this.tools = element(
      "div",
      { class: "message-tools" },
      this.versions.node,
      copyButton("Copy answer", () => this.#answer?.text ?? ""),
      this.regenerate,
      this.stats,
    );
    this.node = element(
      "article",
      { class: "message message-answer", "data-id": this.message.id, "aria-label": "Answer" },
      element("span", { class: "answer-mark" }, icon("hearth")),
      this.thinking,
      this.prose,
      this.toolCalls,
      this.state,
      this.end,
      this.tools,
    );
  }

  /** @param {{answer: LiveAnswer, versions: import("./api.js").Message[], modelName: string, isBusy: boolean,
   *   hasCallsBelow: boolean}} state */
  update({ answer, versions, modelName, isBusy, hasCallsBelow }) {
    this.#answer = answer;
    this.toolCalls.hidden = hasCallsBelow; // they are shown there, with what came of them
    this.modelName = modelName;
    this.regenerate.disabled = isBusy;
    this.retry.disabled = isBusy;
    this.versions.update(versions, this.message.id);
    this.paint();
  }

  paint() {
    const answer = this.#answer;
    if (!answer || this.#endedPaint === answer) return;
    this.#endedPaint = answer.isEnded ? answer : null;
    this.node.dataset.phase = answer.phase;
    this.node.setAttribute("aria-busy", String(!answer.isEnded));
    this.#paintThinking(answer);
    if (answer.isEnded) this.markdown.finish(answer.text);
    else this.markdown.update(answer.text);
    this.#paintToolCalls(answer);
    this.#paintState(answer);
    if (answer.isEnded) this.#paintEnd(answer);
  }

  /** @param {LiveAnswer} answer */
  #paintThinking(answer) {
    this.thinking.hidden = !answer.reasoning.trim();
    if (this.thinking.hidden) return;
    const isThinking = answer.phase === "thinking";
    const shown = this.thinkingText.data;
    if (answer.reasoning.startsWith(shown)) this.thinkingText.appendData(answer.reasoning.slice(shown.length));
    else this.thinkingText.data = answer.reasoning;
    this.thinkingTitle.textContent = thinkingTitle({
      isThinking,
      seconds: answer.thinkingSeconds,
      tokens: answer.usage?.reasoning_tokens ?? null,
    });
    if (!this.#isFoldChosen) this.thinking.open = isThinking;
  }

  /** @param {LiveAnswer} answer */
  #paintToolCalls(answer) {
    const calls = answer.toolCalls.filter(Boolean);
    while (this.toolCalls.children.length < calls.length) {
      const title = element("summary", {}, icon("chevron-right"), element("span"));
      this.toolCalls.append(element("details", { class: "tool-call" }, title, element("pre")));
    }
    calls.forEach((call, index) => {
      const box = this.toolCalls.children[index];
      box.querySelector("span").textContent = `Calls ${call.name}`;
      box.querySelector("pre").textContent = call.arguments;
    });
  }

  /** @param {LiveAnswer} answer */
  #paintState(answer) {
    const isVisible = !answer.isEnded && answer.phase !== "writing" && answer.phase !== "thinking";
    this.state.hidden = !isVisible;
    if (isVisible) this.state.textContent = stateSentence(answer, this.modelName);
    this.tools.hidden = !answer.isEnded;
  }

  /** @param {LiveAnswer} answer */
  #paintEnd(answer) {
    const resumed = answer.resumptions ? " · resumed" : "";
    this.stats.textContent = statistics(answer.usage, answer.timings) + resumed;
    const isEmpty = !answer.text.trim() && !answer.toolCalls.length && answer.phase === "done";
    const sentence = answer.error
      ? errorSentence(answer.error)
      : endSentence(answer.finishReason) || (isEmpty ? "The model gave no answer." : "");
    this.end.hidden = !sentence;
    this.end.classList.toggle("answer-failed", answer.phase === "failed");
    const link = answer.error && limitsLink(answer.error);
    const told = [element("span", {}, sentence), ...(link ? [link] : []), this.retry];
    this.end.replaceChildren(...(sentence ? told : []));
  }
}
