// Puts the pasted key into the texts to copy, and loads the page again for another model. The key leaves this page only by copying.
"use strict";

const keyField = document.getElementById("key");
const places = [...document.querySelectorAll("[data-key]")];
const placeholder = places[0]?.textContent;

function fillIn() {
  for (const place of places) place.textContent = keyField.value.trim() || placeholder;
}

keyField?.addEventListener("input", fillIn);
document.getElementById("model")?.addEventListener("change", (event) => event.target.form.requestSubmit());
if (keyField?.value) fillIn(); // what the browser kept over a reload
