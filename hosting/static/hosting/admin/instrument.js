// What all instrument pages share: the first picture, the choice of window, engine and model, and the feed.
import { byId, element, say } from "./dom.js";
import { Feed } from "./feed.js";
import { Board } from "./plots.js";

const STATES = { live: "Live", polling: "Every 2 seconds", reconnecting: "Reconnecting", lost: "No connection" };

export function startInstrument({ onLive, onHistory } = {}) {
  const root = byId("instrument");
  const board = new Board(byId("plots"));
  const choice = byId("choice");
  const notice = byId("instrument-notice");

  function wishes() {
    return Object.fromEntries([...new FormData(choice)].filter(([, value]) => value !== ""));
  }

  function push({ live, history }) {
    if (live ?? history) say(byId("service-notice"), (live ?? history).notice);
    if (live) onLive?.(live);
    // An answer to an earlier choice comes too late
    if (!history || history.window !== wishes().window) return;
    offer("engine", history.engines.length > 1 ? history.engines : [], history.engine);
    offer("model", history.models, history.model);
    board.draw(history);
    onHistory?.(history);
  }

  function state(name) {
    const label = byId("feed-state");
    label.textContent = STATES[name] ?? "Ended";
    label.className = `live-pill ${name === "live" ? "live-pill-good" : "live-pill-warm"}`;
    say(notice, name in STATES ? (name === "lost" ? "This page has lost its connection to Hearth and shows the last that it knew." : "") : name);
  }

  const history = JSON.parse(byId("history-data").textContent);
  for (const radio of choice.elements.window) radio.checked = radio.value === history.window;
  push({ history });
  const urls = { history: root.dataset.historyUrl, ...(root.dataset.liveUrl ? { live: root.dataset.liveUrl } : {}) };
  const feed = new Feed({ instrument: root.dataset.instrument, wishes: wishes(), urls, onPush: push, onState: state });
  choice.addEventListener("change", () => {
    globalThis.history.replaceState(null, "", `?${new URLSearchParams(wishes())}`);
    feed.watch(wishes());
  });
  return feed;
}

// Fills a select of the choice, which is hidden while there is nothing to choose
function offer(name, values, chosen) {
  const field = byId(`choice-${name}`);
  if (!field) return;
  const select = field.querySelector("select");
  const wanted = name === "model" ? [...new Set(["", ...values, chosen])] : values;
  field.hidden = values.length === 0;
  if (JSON.stringify([...select.options].map((option) => option.value)) !== JSON.stringify(wanted)) {
    select.replaceChildren(...wanted.map((value) => {
      const option = element("option", "", value || "All models");
      option.value = value;
      return option;
    }));
  }
  select.value = chosen;
}
