// The settings of a model: what they would take is asked of the server while one types, and what cannot be saved is said at its field.
import { byId, element, say } from "./dom.js";

const PAUSE_MS = 250;
const panel = byId("memory-panel");
const body = byId("memory-panel-body");
const form = byId("hostedmodel_form");
let timer;
let asking;

function showMayWait(isWanted) {
  form.querySelector(".field-may_wait").hidden = !isWanted;
  if (!isWanted) form.querySelector("[name=may_wait]").checked = false;
}

function showErrors(errors) {
  for (const node of form.querySelectorAll(".hearth-live-error, .errorlist")) node.remove();
  for (const field of form.querySelectorAll("[data-live-error]")) {
    field.removeAttribute("aria-invalid");
    field.setAttribute("aria-describedby", field.dataset.liveError);
    field.removeAttribute("data-live-error");
  }
  for (const [name, message] of Object.entries(errors)) {
    const field = form.querySelector(`[name="${CSS.escape(name)}"]`);
    if (!field) continue;
    const note = element("p", "hearth-live-error", message);
    note.id = `live-error-${name}`;
    field.setAttribute("aria-invalid", "true");
    field.dataset.liveError = field.getAttribute("aria-describedby") ?? "";
    field.setAttribute("aria-describedby", `${field.dataset.liveError} ${note.id}`.trim());
    field.closest(".field-line").append(note);
  }
}

async function ask() {
  asking?.abort();
  asking = new AbortController();
  try {
    const answer = await fetch(panel.dataset.url, { method: "POST", body: new FormData(form), signal: asking.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    const { panel: html, errors, may_wait: mayWait } = await answer.json();
    // Written by the server's template, which escapes
    body.innerHTML = html;
    showErrors(errors);
    showMayWait(mayWait);
    say(byId("memory-panel-state"), "");
  } catch (error) {
    if (error.name !== "AbortError") say(byId("memory-panel-state"), "The server does not answer; what is shown may be old.");
  }
}

function askSoon() {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE_MS);
}

showMayWait(panel.dataset.mayWait === "yes");
form.addEventListener("input", askSoon);
form.addEventListener("change", askSoon);
// What was typed before this script was there, or restored by the browser; the server's own errors stay
if (!form.querySelector(".errorlist")) askSoon();
