// The memory page: how full it is, what happened to it, and what each model takes.
import { byId, element } from "./dom.js";
import { bytes, number } from "./format.js";
import { startInstrument } from "./instrument.js";

const LEVELS = { calm: ["Calm", "Nothing is held back.", "good"], tight: ["Tight", "Nothing more is taken in.", "warm"], critical: ["Critical", "Rows give way.", "bad"] };

function tile(title, value, note) {
  return element("div", "", element("dt", "", title), element("dd", "", value, element("small", "", note)));
}

function drawTiles({ now, counts }) {
  const tiles = [];
  if (now) {
    const [level, meaning] = LEVELS[now.level];
    tiles.push(
      tile("Level", level, meaning),
      tile("Used", bytes(now.used_bytes), now.limit_bytes ? `of ${bytes(now.limit_bytes)}, ${Math.round((100 * now.used_bytes) / now.limit_bytes)} %` : "no limit is known"),
      tile("Process", bytes(now.process_bytes), now.is_limit_explicit ? "the limit was set" : "the limit is automatic"));
  }
  tiles.push(
    tile("Loaded, unloaded", `${number(counts.num_loads)}, ${number(counts.num_unloads)}`, "models, in this time"),
    tile("Gave way", number(counts.num_preempted), "rows, and went on later"),
    tile("Refused", number(counts.num_refused), `${number(counts.num_failed)} failed for want of memory`));
  byId("memory-tiles").replaceChildren(...tiles);
}

function drawModels(models) {
  const cell = (label, text) => {
    const node = element("td", "num", text);
    node.dataset.label = label;
    return node;
  };
  byId("memory-models").replaceChildren(...models.map((model) => {
    const state = [model.is_loaded ? "loaded" : "not loaded", model.is_pinned ? "pinned" : ""].filter(Boolean).join(", ");
    return element("tr", "",
      element("td", "", element("strong", "", model.name), element("small", "", state)),
      cell("Weights", bytes(model.weight_bytes)),
      cell("Room for rows", model.room_bytes > 0 ? bytes(model.room_bytes) : "none"),
      cell("Per token", model.token_bytes === null ? "–" : bytes(model.token_bytes)));
  }));
  byId("memory-models-panel").hidden = models.length === 0;
}

const limitForm = byId("memory-limit");

// What somebody is choosing is not overwritten by news
function drawLimit(engine, now) {
  if (!limitForm || !engine || !now || limitForm.dataset.engine === engine) return;
  const isSet = now.set_limit_bytes !== null;
  limitForm.dataset.engine = engine;
  limitForm.engine.value = engine;
  limitForm.kind.value = isSet ? "explicit" : "started";
  limitForm.limit_gb.value = isSet ? Number((now.set_limit_bytes / 2 ** 30).toFixed(3)) : "";
  limitForm.limit_gb.disabled = !isSet;
  byId("memory-limit-engine").textContent = `of ${engine}`;
  limitForm.hidden = false;
}

limitForm?.addEventListener("change", () => {
  const isExplicit = limitForm.kind.value === "explicit";
  limitForm.limit_gb.disabled = !isExplicit;
  limitForm.limit_gb.required = isExplicit;
});

startInstrument({
  onHistory: ({ figures, engine }) => {
    drawLimit(engine, figures.now);
    drawTiles(figures);
    drawModels(figures.models);
  },
});
