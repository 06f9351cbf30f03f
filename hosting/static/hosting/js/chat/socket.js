/**
 * One websocket that follows generations and comes back after any cut. Hands every event on exactly once and in order;
 * knows nothing of what the events mean.
 *
 * Invariants:
 * - a handler sees the events of a generation as seq 0, 1, 2 ... without gap or repetition, whatever the connection does;
 * - every generation followed is asked for again, from the last seq seen, when a connection opens;
 * - every 64th event is acknowledged, so that the server's bounded queue keeps flowing.
 */

const ACK_EVERY = 64;
const FIRST_DELAY_MS = 400;
const LONGEST_DELAY_MS = 15_000;
const SILENCE_MS = 45_000; // a followed generation is silent for so long: the connection may be half open
const SIGNED_OUT = 4401; // close code of the server
const TOO_MANY = 4429; // the same: other tabs have to be closed first
const CROWDED_DELAY_MS = 5_000;
const REFUSAL_MS = 1_000; // who was refused is let in only to be told so again: opened for so long, it is meant
const STABLE_MS = 5_000; // open for so long: the next cut is a new trouble, not the old one
const HIDDEN_MS = 30_000; // the tab slept for so long: do not trust the connection

/** @typedef {"open" | "lost" | "crowded"} ConnectionState crowded: the person has too many tabs open */

/**
 * @typedef {object} SocketHandlers
 * @property {(generation: string, seq: number, event: any) => void} onEvent
 * @property {(generation: string) => void} onLost the server has no such stream (any more)
 * @property {(conversation: string) => void} onHint a conversation changed elsewhere
 * @property {(state: ConnectionState) => void} onConnection
 * @property {() => void} onSignedOut
 */

export class ChatSocket {
  /** @type {Map<string, number>} generation -> the last seq seen */
  #lastSeq = new Map();
  /** @type {WebSocket | null} */
  #socket = null;
  #attempt = 0;
  #retryTimer = 0;
  #lastHeardAt = 0;
  #hiddenAt = 0;
  #openedAt = Infinity;
  #isCrowded = false;
  #openTimer = 0;

  /** @param {string} path @param {SocketHandlers} handlers */
  constructor(path, handlers) {
    this.url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.handlers = handlers;
    addEventListener("online", () => this.#reconnect()); // the old connection may be dead and not know it
    addEventListener("offline", () => this.handlers.onConnection("lost"));
    document.addEventListener("visibilitychange", () => this.#onVisibility());
    setInterval(() => this.#checkSilence(), SILENCE_MS / 3);
    this.#connect();
  }

  /** @param {string} generation */
  follow(generation) {
    if (this.#lastSeq.has(generation)) return;
    this.#lastSeq.set(generation, -1);
    this.#lastHeardAt = Date.now();
    this.#send({ type: "follow", generation, after: -1 });
  }

  /** @param {string} generation */
  unfollow(generation) {
    if (this.#lastSeq.delete(generation)) this.#send({ type: "unfollow", generation });
  }

  #connect() {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#openTimer);
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    socket.onopen = () => this.#onOpen();
    socket.onmessage = (message) => this.#onMessage(JSON.parse(message.data));
    socket.onclose = ({ code }) => {
      if (socket === this.#socket) this.#onClose(code);
    };
  }

  #connectNow() {
    if (this.#socket?.readyState !== WebSocket.OPEN) this.#reconnect();
  }

  /** Leaves the connection as it is to itself and opens another. */
  #reconnect() {
    const old = this.#socket;
    this.#connect();
    old?.close();
  }

  #onOpen() {
    this.#openedAt = this.#lastHeardAt = Date.now();
    this.#openTimer = setTimeout(() => this.#tellOpen(), this.#isCrowded ? REFUSAL_MS : 0);
    for (const [generation, after] of this.#lastSeq) this.#send({ type: "follow", generation, after });
  }

  #tellOpen() {
    this.#isCrowded = false;
    this.handlers.onConnection("open");
  }

  /** @param {number} code */
  #onClose(code) {
    clearTimeout(this.#openTimer);
    this.#socket = null;
    if (code === SIGNED_OUT) return this.handlers.onSignedOut();
    this.#isCrowded = code === TOO_MANY;
    this.handlers.onConnection(this.#isCrowded ? "crowded" : "lost");
    if (Date.now() - this.#openedAt > STABLE_MS) this.#attempt = 0;
    this.#openedAt = Infinity;
    this.#attempt += 1;
    // Full jitter: after a restart of the server the tabs of a whole team must not come back in one moment.
    const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempt);
    this.#retryTimer = setTimeout(() => this.#connect(), Math.random() * (this.#isCrowded ? CROWDED_DELAY_MS : ceiling));
    return undefined;
  }

  /** @param {any} message */
  #onMessage(message) {
    this.#lastHeardAt = Date.now();
    switch (message.type) {
      case "event":
        return this.#onEvent(message);
      case "lost":
        if (this.#lastSeq.delete(message.generation)) this.handlers.onLost(message.generation);
        return undefined;
      case "hint":
        return this.handlers.onHint(message.conversation);
      default:
        return console.warn("The server says:", message.message ?? message.type);
    }
  }

  /** @param {{generation: string, seq: number, event: any}} message */
  #onEvent({ generation, seq, event }) {
    const last = this.#lastSeq.get(generation);
    if (last === undefined || seq <= last) return;
    if (seq > last + 1) {
      this.#send({ type: "unfollow", generation });
      this.#send({ type: "follow", generation, after: last });
      return;
    }
    this.#lastSeq.set(generation, seq);
    if ((seq + 1) % ACK_EVERY === 0) this.#send({ type: "ack", generation, seq });
    this.handlers.onEvent(generation, seq, event);
  }

  #onVisibility() {
    if (document.hidden) {
      this.#hiddenAt = Date.now();
    } else if (Date.now() - this.#hiddenAt > HIDDEN_MS) {
      this.#reconnect();
    } else {
      this.#connectNow();
    }
  }

  #checkSilence() {
    const isSilent = Date.now() - this.#lastHeardAt > SILENCE_MS;
    if (this.#lastSeq.size && isSilent && this.#socket?.readyState === WebSocket.OPEN) this.#reconnect();
  }

  /** @param {object} message what is said while the connection is down is said again by #onOpen */
  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}
