// A button with data-copy="id" copies that element's text and says so. Without the clipboard it selects the text instead.
"use strict";

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Over plain http there is no clipboard: leave the text selected, one keystroke from copied
    getSelection().selectAllChildren(source);
    return;
  }
  const label = button.textContent;
  button.textContent = button.dataset.done;
  setTimeout(() => { button.textContent = label; }, 1800);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(button));
}
