/** What the page's text areas have in common: they grow with their text, and Enter sends. */

/** @param {HTMLTextAreaElement} area its largest height comes from the style sheet */
export function autosize(area) {
  const fit = () => {
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight}px`;
  };
  area.addEventListener("input", fit);
  fit();
  return fit;
}

/** Enter without Shift, and not the Enter that ends the composition of a character. @param {KeyboardEvent} event */
export function isSendKey(event) {
  const isComposing = event.isComposing || event.keyCode === 229; // Safari ends the composition before keydown
  return event.key === "Enter" && !event.shiftKey && !isComposing;
}
