// The cache page: tiers with their budgets, models with their hit rates, reasons for misses, and the buttons that clear.
import { byId, element } from "./dom.js";
import { bytes, inUnit, number, percent } from "./format.js";
import { startInstrument } from "./instrument.js";

const root = byId("instrument");
const seconds = inUnit("seconds");
const share = (part) => (part === null ? "–" : percent(100 * part));
const sum = (items, name) => items.reduce((total, item) => total + item[name], 0);

function tile(title, value, note) {
  return element("div", "", element("dt", "", title), element("dd", "", value, element("small", "", note)));
}

function drawTiles({ models, restore_seconds: restore, num_restores: restores, num_late_restores: late }) {
  const lookedUp = sum(models, "looked_up_tokens");
  const hits = sum(models, "hit_memory_tokens") + sum(models, "hit_disk_tokens");
  byId("cache-tiles").replaceChildren(
    tile("Hit rate", share(lookedUp ? hits / lookedUp : null), `${number(sum(models, "num_lookups"))} prompts`),
    tile("Not computed again", number(hits), `of ${number(lookedUp)} prompt tokens`),
    tile("From disk", number(sum(models, "hit_disk_tokens")), `${number(restores)} restores, ${number(late)} too late`),
    tile("A restore takes", seconds(restore), "on average"));
}

function fact(title, value) {
  return element("div", "", element("dt", "", title), element("dd", "", value));
}

function meter(title, used, budget) {
  const part = budget > 0 ? Math.min(1, used / budget) : 0;
  const bar = element("div", "meter");
  bar.setAttribute("role", "meter");
  bar.setAttribute("aria-label", title);
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "100");
  bar.setAttribute("aria-valuenow", String(Math.round(100 * part)));
  const fill = element("span", part > 0.9 ? "meter-fill meter-full" : "meter-fill");
  fill.style.width = `${100 * part}%`;
  bar.append(fill);
  return element("div", "meter-line", element("span", "", title), element("span", "live-quiet", `${bytes(used)} of ${bytes(budget)}`), bar);
}

function drawTier(name, title, tier, models, body) {
  const panel = byId(`cache-${name}`);
  const clearable = models.filter((model) => model[`${name}_bytes`] > 0);
  const head = element("header", "live-head", element("h2", "", title), clearButton(name, clearable, `Clear the ${name} tier`));
  panel.replaceChildren(head, ...(tier === null ? [element("p", "live-empty", offSentence(name))] : body(tier)));
}

const offSentence = (name) => (name === "disk" ? "The disk tier is off, or no engine reports." : "No engine reports.");

function memoryBody(tier) {
  return [
    meter("In use", tier.used_bytes, tier.budget_bytes),
    element("dl", "live-facts",
      fact("Records", number(tier.num_records)),
      fact("Pinned", bytes(tier.pinned_bytes)),
      fact("Evicted since start", number(tier.num_evicted))),
  ];
}

function diskBody(tier) {
  const failures = tier.num_corrupt + tier.num_read_errors + tier.num_write_errors;
  const body = [
    meter("In use", tier.used_bytes, tier.budget_bytes),
    meter("Written today", tier.written_today_bytes, tier.daily_write_bytes),
    element("dl", "live-facts",
      fact("Records", number(tier.num_records)),
      fact("Evicted", number(tier.num_evicted)),
      fact("Saved", number(tier.num_saved)),
      fact("Persisted", number(tier.num_persisted)),
      fact("Dropped", number(tier.num_dropped)),
      fact("Queued", number(tier.num_queued)),
      fact("Slowest restore", seconds(tier.slowest_restore_seconds)),
      fact("Damaged or failed", number(failures))),
  ];
  if (tier.hindrance) body.push(element("p", "live-notice cache-error", `Nothing is written at the moment: ${tier.hindrance}.`));
  else if (tier.last_error) body.push(element("p", "live-notice cache-error", `Last error: ${tier.last_error}`));
  return body;
}

function clearButton(tier, models, label) {
  if (root.dataset.mayClear !== "yes" || models.length === 0) return "";
  const button = element("button", "hearth-button live-stop", "Clear");
  button.type = "button";
  button.setAttribute("aria-label", label);
  button.dataset.clears = label;
  button.addEventListener("click", () => askToClear(tier, models));
  return button;
}

// The question is asked by a page of its own
function askToClear(tier, models) {
  const form = byId("clear-form");
  form.elements.tier.value = tier;
  for (const old of form.querySelectorAll("[name=model]")) old.remove();
  for (const model of models) {
    const field = element("input");
    Object.assign(field, { type: "hidden", name: "model", value: model.name });
    form.append(field);
  }
  form.submit();
}

function cell(label, ...children) {
  const node = element("td", "num", ...children);
  node.dataset.label = label;
  return node;
}

function tierCell(label, tier, model) {
  const held = model[`${tier}_bytes`];
  const clear = held > 0 ? clearButton(tier, [model], `Clear the ${tier} tier of ${model.name}`) : "";
  return cell(label, element("span", "cache-held", bytes(held)), clear);
}

function drawModel(model) {
  return element("tr", "",
    element("td", "", element("strong", "", model.name), model.pk === null ? element("small", "", "not registered") : ""),
    cell("Hit rate", share(model.hit_share)),
    cell("Looked up", number(model.looked_up_tokens)),
    cell("From memory", number(model.hit_memory_tokens)),
    cell("From disk", number(model.hit_disk_tokens)),
    cell("Computed", number(model.computed_tokens)),
    tierCell("In memory", "memory", model),
    tierCell("On disk", "disk", model));
}

function drawMisses(misses) {
  byId("cache-misses").replaceChildren(...misses.map(({ reason, num_lookups: lookups, tokens }) => element("tr", "", element("td", "", reason), cell("Prompts", number(lookups)), cell("Tokens computed", number(tokens)))));
  byId("cache-misses-panel").hidden = misses.length === 0;
}

function draw({ figures, during }) {
  drawTiles(figures);
  drawTier("memory", "Memory tier", figures.tiers.memory, figures.models, memoryBody);
  drawTier("disk", "Disk tier", figures.tiers.disk, figures.models, diskBody);
  // Redrawing moves the focus: put it back on the same button
  const focused = document.activeElement?.dataset?.clears;
  byId("cache-models").replaceChildren(...figures.models.map(drawModel));
  if (focused) document.querySelector(`[data-clears="${CSS.escape(focused)}"]`)?.focus();
  drawMisses(figures.misses);
  for (const node of document.querySelectorAll("[data-during]")) node.textContent = during;
}

startInstrument({ onHistory: draw });
