// A list in which something is under way: its rows are read again until nothing is. What is chosen in it stays.
const EVERY_MS = 2000;
const CHOICE = "[name=_selected_action]";

const keyOf = (row) => row.querySelector(CHOICE)?.value ?? row.querySelector("a")?.href;
const rowsOf = (page) => new Map([...page.querySelectorAll("#result_list .data-row")].map((row) => [keyOf(row), row]));

function showRow(shown, read) {
  [...shown.cells].forEach((cell, index) => {
    const now = read.cells[index];
    const isHeld = cell.querySelector(CHOICE) || cell.contains(document.activeElement);
    if (now && !isHeld && cell.innerHTML !== now.innerHTML) cell.replaceChildren(...now.childNodes);
  });
}

async function look() {
  const answer = document.hidden ? null : await fetch(location.href, { signal: AbortSignal.timeout(5 * EVERY_MS) }).catch(() => null);
  if (answer?.redirected) return; // signed out
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  if (page) {
    const read = rowsOf(page);
    for (const [key, row] of rowsOf(document)) if (read.has(key)) showRow(row, read.get(key));
  }
  if (!page || page.getElementById("under-way")) setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
