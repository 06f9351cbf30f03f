/** What is known of an answer while it is made: wire events folded into one state. Pure data; knows no DOM. */

/**
 * @typedef {"waiting" | "queued" | "paused" | "loading" | "reading" | "thinking" | "writing" | "done" | "cancelled" | "failed"} Phase
 * @typedef {{id: string, name: string, arguments: string}} ToolCall
 */

const ENDED = new Set(["done", "cancelled", "failed"]);

/** @type {Record<string, Phase>} */
const STORED_PHASES = { done: "done", cancelled: "cancelled", failed: "failed" };

/** @param {any} call in OpenAI's form @returns {ToolCall} */
function storedToolCall({ id, name, arguments: text, function: called }) {
  return { id, name: called?.name ?? name ?? "", arguments: called?.arguments ?? text ?? "" };
}

export class LiveAnswer {
  /** @type {Phase} */
  phase = "waiting";
  text = "";
  reasoning = "";
  /** @type {ToolCall[]} */
  toolCalls = [];
  /** @type {{position: number, waitSeconds: number | null} | null} */
  queue = null;
  /** Of loading or reading, 0 to 1. @type {number | null} */
  fraction = null;
  resumptions = 0;
  /** @type {number | null} known only if all the thinking was watched */
  thinkingSeconds = null;
  /** @type {string | null} */
  finishReason = null;
  /** @type {{code: string, detail: string} | null} */
  error = null;
  /** @type {import("./api.js").Usage | null} */
  usage = null;
  /** @type {import("./api.js").Timings | null} */
  timings = null;
  #thinkingSince = 0;

  /** @param {{isWatchedFromStart: boolean, now?: () => number}} options `now` in milliseconds */
  constructor({ isWatchedFromStart, now = () => performance.now() }) {
    this.isWatchedFromStart = isWatchedFromStart;
    this.now = now;
  }

  /** An answer as it was stored. @param {import("./api.js").Message} message */
  static fromMessage(message) {
    const answer = new LiveAnswer({ isWatchedFromStart: false });
    const generation = message.generation;
    answer.text = message.content ?? "";
    answer.reasoning = message.reasoning ?? "";
    answer.toolCalls = (message.tool_calls ?? []).map(storedToolCall);
    answer.usage = generation?.usage ?? null;
    answer.timings = generation?.timings ?? null;
    answer.error = generation?.error ?? null;
    answer.finishReason = generation?.finish_reason ?? null;
    answer.phase = STORED_PHASES[generation?.state ?? "done"] ?? "waiting";
    return answer;
  }

  get isEnded() {
    return ENDED.has(this.phase);
  }

  /** @param {any} event one wire event as JSON; fields with their default are absent */
  apply(event) {
    const handler = HANDLERS[event.type];
    handler?.(this, event);
  }

  /** @param {any} event a Delta */
  addDelta({ channel, text = "", tool_call: part }) {
    if (channel === "reasoning") {
      if (this.phase !== "thinking") this.#thinkingSince = this.now();
      this.phase = "thinking";
      this.reasoning += text;
      return;
    }
    this.stopThinking();
    this.phase = "writing";
    if (channel === "content") this.text += text;
    else this.#addToolCall(part, text);
  }

  stopThinking() {
    if (this.phase !== "thinking" || !this.isWatchedFromStart) return;
    this.thinkingSeconds = (this.thinkingSeconds ?? 0) + (this.now() - this.#thinkingSince) / 1000;
  }

  /** @param {{index: number, call_id: string, name?: string}} part @param {string} text */
  #addToolCall(part, text) {
    const call = (this.toolCalls[part.index] ??= { id: part.call_id, name: "", arguments: "" });
    call.name ||= part.name ?? "";
    call.arguments += text;
  }

  /** @param {Phase} phase */
  end(phase) {
    this.stopThinking();
    this.phase = phase;
  }
}

/** @type {Record<string, (answer: LiveAnswer, event: any) => void>} */
const HANDLERS = {
  Accepted: (answer) => {
    answer.phase = "waiting";
  },
  Queued: (answer, { position, wait_seconds = null }) => {
    answer.phase = "queued";
    answer.queue = { position, waitSeconds: wait_seconds };
  },
  Loading: (answer, { fraction }) => {
    answer.phase = "loading";
    answer.fraction = fraction;
  },
  Started: (answer) => {
    answer.phase = "reading";
    answer.fraction = null;
  },
  Prefilled: (answer, { done_tokens, total_tokens }) => {
    if (answer.text || answer.reasoning) return; // after Resumed the text so far is read again
    answer.phase = "reading";
    answer.fraction = total_tokens ? done_tokens / total_tokens : null;
  },
  Delta: (answer, event) => answer.addDelta(event),
  Paused: (answer) => {
    answer.stopThinking();
    answer.phase = "paused";
  },
  Resumed: (answer) => {
    answer.resumptions += 1;
    if (answer.phase === "paused") answer.phase = "reading";
  },
  Finished: (answer, { reason, usage, timings }) => {
    answer.finishReason = reason;
    answer.usage = usage;
    answer.timings = timings;
    answer.end(reason === "cancelled" ? "cancelled" : "done");
  },
  Failed: (answer, { code, detail, usage = null }) => {
    answer.error = { code, detail };
    answer.usage = usage;
    answer.end("failed");
  },
  Refused: (answer, { code, detail }) => {
    answer.error = { code, detail };
    answer.end("failed");
  },
};
