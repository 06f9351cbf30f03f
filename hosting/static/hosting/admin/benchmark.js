// A benchmark that is under way: says how far it is, and shows the page anew when it has ended.
import { byId, say } from "./dom.js";

const EVERY_MS = 2000;
const progress = byId("progress");

async function look() {
  const answer = await fetch(progress.dataset.url, { headers: { Accept: "application/json" } }).catch(() => null);
  if (answer?.ok) {
    const state = await answer.json();
    if (!state.is_open) return location.reload();
    say(byId("progress-text"), state.text);
    byId("progress-bar").max = state.num_steps || 1;
    byId("progress-bar").value = state.num_done;
  }
  setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
