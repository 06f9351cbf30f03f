// The live page: engines, and who is running or waiting. Pushed by the feed every second.
import { byId, element, say } from "./dom.js";
import { bytes, duration, moment, number, percent } from "./format.js";
import { startInstrument } from "./instrument.js";

const root = byId("instrument");
const sum = (items, name) => items.reduce((total, item) => total + item[name], 0);

const PILLS = { decoding: "good", loaded: "good", running: "good", prefilling: "warm", restoring: "warm", loading: "warm", stopping: "bad", stalled: "bad", failed: "bad" };
const pill = (state, fraction = null) => element("span", `live-pill live-pill-${PILLS[state] ?? "plain"}`, fraction === null ? state : `${state} ${percent(100 * fraction)}`);

function tile(title, value, note) {
  return element("div", "", element("dt", "", title), element("dd", "", value, element("small", "", note)));
}

function drawTiles({ engines, num_running: running, num_waiting: waiting }) {
  const beats = engines.map((engine) => engine.beat_age_seconds);
  const state = engines.length === 0 ? "Away" : engines.some((engine) => engine.is_stalled) ? "Stalled" : "Running";
  const oldest = beats.length ? `heartbeat ${duration(Math.max(...beats))} ago` : "no heartbeat";
  byId("live-tiles").replaceChildren(
    tile(engines.length > 1 ? `${engines.length} engines` : "Engine", state, oldest),
    tile("Requests", `${running} running`, `${waiting} waiting`),
    tile("Writing", `${number(sum(engines, "decode_tokens_per_second"))} tok/s`, `reading ${number(sum(engines, "prefill_tokens_per_second"))} tok/s`),
    tile("Memory", bytes(sum(engines, "active_bytes")), `process ${bytes(sum(engines, "process_bytes"))}`),
  );
}

function fact(title, value) {
  return element("div", "", element("dt", "", title), element("dd", "", value));
}

function drawModel(model) {
  const size = [model.weight_bytes ? bytes(model.weight_bytes) : "", model.context_limit_tokens ? `${number(model.context_limit_tokens)} tokens of context` : ""];
  return element("li", "", element("strong", "", model.name), pill(model.state, model.loaded_fraction), element("span", "live-quiet", model.detail || size.filter(Boolean).join(" · ")));
}

function drawEngine(engine) {
  const facts = element("dl", "live-facts",
    fact("Device", engine.device),
    fact("Up for", duration(engine.uptime_seconds)),
    fact("Memory now", bytes(engine.active_bytes)),
    fact("Kept for reuse", bytes(engine.pool_bytes)),
    fact("Peak", bytes(engine.peak_bytes)),
    fact("Process", bytes(engine.process_bytes)),
    fact("Tokens written", number(engine.generated_tokens)));
  const models = engine.models.length
    ? element("ul", "live-models", ...engine.models.map(drawModel))
    : element("p", "live-empty", "No model is loaded. The first request loads one.");
  const head = element("header", "live-head", element("h2", "", engine.name), pill(engine.is_stalled ? "stalled" : "running"), element("p", "live-quiet", `pid ${engine.pid}`));
  return element("section", "live-panel", head, facts, models);
}

function cell(label, className, ...children) {
  const node = element("td", className, ...children);
  if (label) node.dataset.label = label;
  return node;
}

function promptCell(request) {
  if (request.prompt_tokens === null) return cell("Prompt", "num", "–");
  const isReading = request.state === "prefilling" && request.prompt_tokens > 0;
  const note = isReading
    ? `${Math.floor((100 * request.computed_tokens) / request.prompt_tokens)} % read`
    : request.cached_tokens ? `${number(request.cached_tokens)} cached` : "";
  const notes = [note, request.prefix].filter(Boolean).map((text) => element("small", "", text));
  return cell("Prompt", "num live-prompt", number(request.prompt_tokens), ...notes);
}

function drawRequest(request, hasSeveralEngines) {
  const from = request.key || request.kind;
  const written = request.output_tokens === null ? "–" : number(request.output_tokens);
  const row = element("tr", "",
    cell("", "live-state", pill(request.state)),
    cell("", "", request.person),
    cell("", "", from, request.client ? element("small", "", request.client) : ""),
    cell("", "", request.model, hasSeveralEngines && request.engine ? element("small", "", `on ${request.engine}`) : ""),
    promptCell(request),
    cell("Written", "num", written),
    cell("Age", "num", duration(request.age_seconds)),
    cell("", "live-act", root.dataset.mayStop === "yes" && request.state !== "stopping" ? stopButton(request) : ""));
  row.dataset.id = request.id;
  return row;
}

function stopButton(request) {
  const button = element("button", "hearth-button live-stop", "Stop");
  button.type = "button";
  button.setAttribute("aria-label", `Stop the request of ${request.person}`);
  button.addEventListener("click", () => askToStop(request));
  return button;
}

function askToStop(request) {
  const dialog = byId("live-dialog");
  byId("live-dialog-text").textContent = `${request.person}, ${request.key || request.kind}, ${request.model}: ${request.state} for ${duration(request.age_seconds)}.`;
  dialog.returnValue = "";
  dialog.addEventListener("close", () => { if (dialog.returnValue === "stop") stop(request); }, { once: true });
  dialog.showModal();
}

async function stop(request) {
  const url = root.dataset.stopUrl.replace("00000000-0000-0000-0000-000000000000", request.id);
  say(byId("stop-notice"), "");
  const answer = await fetch(url, { method: "POST", headers: { "X-CSRFToken": root.dataset.csrf } }).catch(() => null);
  if (!answer?.ok) say(byId("stop-notice"), `The request could not be stopped (${answer?.status ?? "no connection"}).`);
}

function draw(data) {
  drawTiles(data);
  byId("live-engines").replaceChildren(...data.engines.map(drawEngine));
  // Redrawing moves the focus out of a row: put it back where the same request still is
  const focused = document.activeElement?.closest?.("#live-rows tr")?.dataset.id;
  byId("live-rows").replaceChildren(...data.requests.map((request) => drawRequest(request, data.engines.length > 1)));
  if (focused) document.querySelector(`#live-rows tr[data-id="${focused}"] button`)?.focus();
  byId("live-empty").hidden = data.requests.length > 0;
  byId("live-table").hidden = data.requests.length === 0;
  byId("live-age").textContent = `as of ${moment(Date.now() / 1000, 0)}`;
}

draw(JSON.parse(byId("live-data").textContent));
startInstrument({ onLive: draw });
