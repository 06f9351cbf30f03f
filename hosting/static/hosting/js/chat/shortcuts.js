/** Keys that work everywhere on the page. Knows the keys; what they do is handed in. */

/**
 * @typedef {"stop" | "newChat" | "search" | "write" | "sidebar" | "help"} Action
 * @param {Record<Action, () => void>} actions
 */
export function listenToShortcuts(actions) {
  addEventListener("keydown", (event) => {
    const action = actionFor(event);
    if (!action) return;
    if (action !== "stop") event.preventDefault();
    actions[action]();
  });
}

/** @param {KeyboardEvent} event @returns {Action | null} */
function actionFor(event) {
  if (event.isComposing || event.defaultPrevented) return null;
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (key === "k") return "search";
    if (key === "b" && !event.shiftKey) return "sidebar";
    if (key === "o" && event.shiftKey) return "newChat";
    return null;
  }
  if (key === "escape" && !document.querySelector(":popover-open, dialog[open]")) return "stop";
  if (event.altKey || isWriting(event.target)) return null;
  if (key === "/") return "write";
  if (key === "?") return "help";
  return null;
}

/** @param {any} target */
function isWriting(target) {
  return target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
}
