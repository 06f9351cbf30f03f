// A double click sends a form once: two keys would be made, and the secret of one never seen.
"use strict";

const AGAIN_MS = 10_000; // who stopped the page may send it again then
const sent = new WeakMap();

document.addEventListener("submit", (event) => {
  const at = sent.get(event.target);
  if (at !== undefined && event.timeStamp - at < AGAIN_MS) event.preventDefault();
  else sent.set(event.target, event.timeStamp);
});
