/** Every sentence about the state of an answer. Pure functions from data to text. */

/** @typedef {import("./live_answer.js").LiveAnswer} LiveAnswer */

export const END_SENTENCES = { done: "Answer complete.", cancelled: "Stopped.", failed: "The answer failed." };
export const CONNECTION_SENTENCES = {
  open: "",
  lost: "Connection lost, trying again",
  crowded: "Too many tabs are open: close another, and this one goes on",
};

/** What a screen reader says of calls that wait; empty where none does. @param {import("./api.js").ToolCall[]} calls */
export function callsQuestion(calls) {
  const waiting = calls.filter(({ state }) => state === "waiting");
  const names = waiting.map(({ tool, server }) => `${tool} of ${server}`).join(", ");
  return names && `The model wants to use ${names}. Do you allow it?`;
}

/** @param {LiveAnswer} answer @param {string} modelName */
export function stateSentence(answer, modelName) {
  switch (answer.phase) {
    case "queued":
      return queueSentence(answer.queue);
    case "paused":
      return "Waiting for memory";
    case "loading":
      return withPercent(`Loading ${modelName}`, answer.fraction);
    case "reading":
      return withPercent("Reading", answer.fraction);
    case "thinking":
      return "Thinking";
    case "writing":
      return "Writing";
    default:
      return "Waiting for the engine";
  }
}

/** @param {{position: number, waitSeconds: number | null} | null} queue */
function queueSentence(queue) {
  if (!queue) return "Queued";
  const wait = queue.waitSeconds === null ? "" : ` (~${Math.max(1, Math.round(queue.waitSeconds))} s)`;
  return `Queued #${queue.position}${wait}`;
}

/** @param {string} text @param {number | null} fraction */
function withPercent(text, fraction) {
  return fraction === null ? text : `${text} ${Math.floor(fraction * 100)} %`;
}

/** @param {{isThinking: boolean, seconds: number | null, tokens: number | null}} thinking */
export function thinkingTitle({ isThinking, seconds, tokens }) {
  if (isThinking) return "Thinking";
  const time = seconds === null ? "" : ` for ${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `Thought${time}${tokens ? ` · ${amount(tokens)} tokens` : ""}`;
}

/**
 * "TTFT 0.3 s · 42 tok/s · 124 in (96 cached) · 58 out"
 * @param {import("./api.js").Usage | null} usage
 * @param {import("./api.js").Timings | null} timings
 */
export function statistics(usage, timings) {
  const parts = [];
  if (typeof timings?.ttft_seconds === "number") parts.push(`TTFT ${seconds(timings.ttft_seconds)}`);
  const written = usage?.completion_tokens ?? 0;
  if (written > 1 && timings?.decode_seconds) {
    const rate = (written - 1) / timings.decode_seconds;
    parts.push(`${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tok/s`);
  }
  if (usage) {
    const cached = usage.cached_tokens ? ` (${amount(usage.cached_tokens)} cached)` : "";
    parts.push(`${amount(usage.prompt_tokens)} in${cached}`, `${amount(written)} out`);
  }
  return parts.join(" · ");
}

/** @param {number} value */
function seconds(value) {
  return `${value < 10 ? value.toFixed(value < 0.095 ? 2 : 1) : Math.round(value)} s`;
}

/** @param {number} count */
export function amount(count) {
  return count.toLocaleString("en");
}

const ERROR_SENTENCES = {
  invalid_value: "Something in this request is not valid.",
  context_length_exceeded: "The conversation is too long for this model.",
  model_not_found: "This model is not available. Choose another one.",
  model_load_failed: "The model could not be loaded.",
  does_not_fit: "This request does not fit into the machine's memory.",
  insufficient_quota: "Your limits leave too little for this.",
  queue_full: "Too many people are waiting. Try again in a moment.",
  tenant_queue_full: "You have too many requests waiting. Let some of them end first.",
  deadline_exceeded: "It took too long and was given up.",
  poison: "The engine stopped twice at this request, so it was given up.",
  engine_error: "The engine met a fault.",
};

const IMAGE_PLACE = /messages\[\d+\]\.content\[(\d+)\]/g; // a message's images come before its words

/** @param {{code: string, detail: string}} error */
export function errorSentence({ code, detail }) {
  const sentence = ERROR_SENTENCES[code] ?? "The answer failed.";
  return detail ? `${sentence} ${detail.replace(IMAGE_PLACE, (_, place) => `Image ${Number(place) + 1}`)}` : sentence;
}

/** What to say under an answer that did not end by itself. @param {string | null} finishReason */
export function endSentence(finishReason) {
  if (finishReason === "cancelled") return "This answer was stopped."; // by the person, or by an administrator
  if (finishReason === "length") return "The answer reached its token limit.";
  return "";
}
