/** The page's requests to the server. Knows the addresses and the error form; not what the answers are used for. */

/**
 * @typedef {{prompt_tokens: number, cached_tokens?: number, completion_tokens?: number, reasoning_tokens?: number}} Usage
 * @typedef {{queued_seconds?: number, ttft_seconds?: number | null, decode_seconds?: number}} Timings
 * @typedef {{id: string, state: "queued" | "running" | "done" | "failed" | "cancelled", finish_reason: string | null,
 *   error: {code: string, detail: string} | null, usage: Usage | null, timings: Timings | null}} Generation
 * @typedef {{id: string, parent: string | null, role: "user" | "assistant" | "tool", content: string, reasoning: string,
 *   images: string[], tool_calls: any[], created_at: string, model: string | null, generation: Generation | null, calls: ToolCall[]}} Message
 * @typedef {{id: string, server: string, tool: string, arguments: string, state: string, result: string}} ToolCall
 * @typedef {{id: number, name: string, tools: {name: string, description: string}[]}} ToolServer
 * @typedef {{id: string, title: string, updated_at: string, is_pinned: boolean, is_generating: boolean,
 *   snippet?: string}} ConversationRow
 * @typedef {{id: string, title: string, system_prompt: string, model: string | null, active_leaf: string | null,
 *   is_pinned: boolean, tool_servers: number[]}} Conversation
 * @typedef {{name: string, display_name: string, state: "loaded" | "loading" | "cold" | "failed" | "fetching",
 *   fraction?: number | null, context_limit_tokens: number | null, is_default: boolean, supports_thinking: boolean,
 *   supports_tools: boolean, supports_images: boolean}} Model
 * @typedef {{content: string, images: string[]}} Said what a person writes: text, and ids of images
 */

const SIGN_IN = "/accounts/sign-in/";
const KEPT_ALIVE_CHARACTERS = 20_000; // browsers refuse more than 64 KiB of such requests

/** The server refused, or could not be reached (status 0). The message is a sentence for the person. */
export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, message?: string, field?: string | null}} error */
  constructor(status, { code = "unknown", message = "", field = null } = {}) {
    super(message || sentenceFor(status));
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

/** @param {number} status */
function sentenceFor(status) {
  if (status === 0) return "Hearth cannot be reached. Check your connection and try again.";
  if (status === 403) return "You are not allowed to do this. Reload the page if you signed in again elsewhere.";
  if (status === 404) return "This no longer exists.";
  if (status === 503) return "The service is not ready. Try again in a moment.";
  return `The server could not do this (status ${status}).`;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: object, blob?: Blob, keepalive?: boolean}} [options] blob: sent as it is; keepalive: the request outlives
 *   the page, unless it is long
 */
async function send(method, path, { body, blob, keepalive = false } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
  if (body) headers["Content-Type"] = "application/json";
  const text = body && JSON.stringify(body);
  const isShort = !text || text.length <= KEPT_ALIVE_CHARACTERS;
  let response;
  try {
    response = await fetch(path, { method, headers, keepalive: keepalive && isShort, body: blob ?? text });
  } catch {
    throw new ApiError(0);
  }
  if (response.status === 401) goToSignIn();
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, answer?.error ?? {});
  return answer;
}

/** And back here afterwards. */
export function goToSignIn() {
  location.assign(`${SIGN_IN}?next=${encodeURIComponent(location.pathname)}`);
}

function csrfToken() {
  return document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
}

/** @param {string} id */
export const imageAddress = (id) => `/chat/images/${id}`;

export const api = {
  /** @param {{query?: string, before?: string | null}} [page] */
  conversations({ query = "", before = null } = {}) {
    const search = new URLSearchParams();
    if (query) search.set("q", query);
    if (before) search.set("before", before);
    return send("GET", `/chat/conversations?${search}`);
  },
  /** @param {string} id @returns {Promise<{conversation: Conversation, messages: Message[]}>} */
  conversation: (id) => send("GET", `/chat/conversations/${id}`),
  /** @param {string} id @param {Partial<Conversation>} changes */
  changeConversation: (id, changes) => send("PATCH", `/chat/conversations/${id}`, { body: changes, keepalive: true }),
  /** @param {string} id */
  deleteConversation: (id) => send("DELETE", `/chat/conversations/${id}`, { keepalive: true }),
  /** @param {object} message @returns {Promise<{conversation: Conversation, user_message: Message, answer: Message}>} */
  postMessage: (message) => send("POST", "/chat/messages", { body: message }),
  /** @param {Blob} blob @returns {Promise<{image: string}>} */
  storeImage: (blob) => send("POST", "/chat/images", { blob }),
  /** @param {string} id @param {object} choice @returns {Promise<{answer: Message}>} */
  regenerate: (id, choice) => send("POST", `/chat/messages/${id}/regenerate`, { body: choice }),
  /** @param {string} id */
  cancel: (id) => send("POST", `/chat/generations/${id}/cancel`),
  /** @param {string} id of a call @param {string} decision @returns {Promise<{message: Message}>} */
  decide: (id, decision) => send("POST", `/chat/tool-calls/${id}/decide`, { body: { decision } }),
  /** @param {string} id of the message that holds the calls */
  stopCalls: (id) => send("POST", `/chat/messages/${id}/stop`),
  /** @param {string} id of the message that holds the calls @returns {Promise<{answer: Message}>} */
  goOn: (id) => send("POST", `/chat/messages/${id}/go-on`),
  /** @returns {Promise<{servers: ToolServer[]}>} */
  toolServers: () => send("GET", "/chat/tool-servers"),
  /** @returns {Promise<{models: Model[]}>} */
  models: () => send("GET", "/chat/models"),
};
