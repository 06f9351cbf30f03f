// Elements without HTML text: whatever a name contains stays a name.

export const byId = (id) => document.getElementById(id);

export function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

// Text that is read out when it changes must not be set again unchanged
export function say(node, text) {
  node.hidden = !text;
  if (node.textContent !== text) node.textContent = text;
}
