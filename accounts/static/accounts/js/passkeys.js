// A form with data-passkey asks the browser for a passkey when it is sent, puts the answer into its field `credential`,
// and is sent with that. "create" makes one, "get" uses one. The options stand in the page (data-options: an element's id)
// or come from an address (data-options-from).
"use strict";

async function optionsOf(form) {
  if (form.dataset.options) return JSON.parse(document.getElementById(form.dataset.options).textContent);
  const response = await fetch(form.dataset.optionsFrom, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`status ${response.status}`);
  return (await response.json()).request_options;
}

async function answerOf(form) {
  const options = await optionsOf(form);
  if (form.dataset.passkey === "get") return webauthnJSON.get(options);
  // One that the device keeps can open the account by itself; a plain security key is welcome too
  Object.assign(options.publicKey.authenticatorSelection, { residentKey: "preferred", requireResidentKey: false });
  return webauthnJSON.create(options);
}

function tell(reason) {
  const place = document.querySelector("[data-passkey-error]");
  place.textContent = place.dataset[reason];
  place.hidden = false;
}

function reasonOf(error) {
  return error.name === "InvalidStateError" ? "known" : "failed";
}

async function send(event) {
  event.preventDefault();
  const form = event.target;
  if (!window.PublicKeyCredential) return tell("unsupported");
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    form.elements.credential.value = JSON.stringify(await answerOf(form));
    form.submit();
  } catch (error) {
    tell(reasonOf(error));
    button.disabled = false;
  }
}

for (const form of document.querySelectorAll("form[data-passkey]")) form.addEventListener("submit", send);
