// Keeps an instrument page fresh: by websocket, and by polling only while there is none.

const RETRY_MS = [500, 1000, 2000, 5000, 10000];
const POLL_MS = 2000;
const SILENCE_MS = 5000; // a push is due every second
const ENDS = { 4401: "You are signed out. Sign in again to see more.", 4403: "You may no longer see this page." };

export class Feed {
  // `onPush` draws a message with `live`, `history`, both or neither. `onState` hears "live", "polling", "reconnecting", "lost" or the sentence of an end.
  constructor({ instrument, wishes, urls, onPush, onState }) {
    Object.assign(this, { instrument, wishes, urls, onPush, onState, attempts: 0, isEnded: false });
    this.connect();
    this.poll();
  }

  watch(wishes) {
    this.wishes = wishes;
    if (this.isOpen) this.sendWatch();
    else this.pollOnce();
  }

  get isOpen() { return this.socket?.readyState === WebSocket.OPEN; }

  sendWatch() { this.send({ type: "watch", instrument: this.instrument, ...this.wishes }); }

  send(message) { if (this.isOpen) this.socket.send(JSON.stringify(message)); }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/ws/admin`);
    this.socket.addEventListener("open", () => { this.heardAt = performance.now(); this.sendWatch(); });
    this.socket.addEventListener("message", (event) => this.receive(JSON.parse(event.data)));
    this.socket.addEventListener("close", (event) => this.closed(event.code));
  }

  receive(message) {
    if (message.type !== "push") return;
    this.attempts = 0;
    this.heardAt = performance.now();
    this.onState("live");
    // A hidden tab paints nothing, so it asks for nothing
    requestAnimationFrame(() => {
      this.onPush(message);
      this.send({ type: "drawn" });
    });
  }

  closed(code) {
    if (code in ENDS) return this.end(ENDS[code]);
    if (this.attempts === 0) this.onState("reconnecting");
    setTimeout(() => this.connect(), RETRY_MS[Math.min(this.attempts, RETRY_MS.length - 1)]);
    this.attempts += 1;
  }

  end(sentence) {
    this.isEnded = true;
    this.onState(sentence);
  }

  async poll() {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    this.hangUpOnSilence();
    if (!this.isOpen && !document.hidden && !this.isEnded) await this.pollOnce();
    if (!this.isEnded) this.poll();
  }

  // A socket that leads nowhere stays open for minutes
  hangUpOnSilence() {
    if (document.hidden) this.heardAt = performance.now();
    else if (this.isOpen && performance.now() - this.heardAt > SILENCE_MS) this.socket.close();
  }

  async pollOnce() {
    const message = {};
    for (const [name, url] of Object.entries(this.urls)) {
      const answer = await fetch(`${url}?${new URLSearchParams(this.wishes)}`, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(SILENCE_MS) }).catch(() => null);
      if (answer?.redirected || answer?.status === 403) return this.end(ENDS[answer.status === 403 ? 4403 : 4401]);
      if (!answer?.ok) return this.onState("lost");
      message[name] = await answer.json();
    }
    if (!this.isOpen) this.onState("polling");
    this.onPush(message);
  }
}
