/** Conversations by day. Pure functions. */

const DAY_MS = 86_400_000;

/** @param {Date} date */
const startOfDay = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();

/** @param {Date} then @param {Date} now @returns {string} a heading */
function dayHeading(then, now = new Date()) {
  const days = Math.round((startOfDay(now) - startOfDay(then)) / DAY_MS);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  if (days < 31) return "This month";
  return then.toLocaleDateString(undefined, { month: "long", year: "numeric" });
}

/**
 * Pinned first, then by day; the order inside a group is kept.
 * @param {import("./api.js").ConversationRow[]} rows newest first
 * @returns {[string, import("./api.js").ConversationRow[]][]}
 */
export function groupByDay(rows) {
  /** @type {Map<string, any[]>} */
  const groups = new Map([["Pinned", []]]);
  for (const row of rows) {
    const heading = row.is_pinned ? "Pinned" : dayHeading(new Date(row.updated_at));
    if (!groups.has(heading)) groups.set(heading, []);
    groups.get(heading).push(row);
  }
  return [...groups].filter(([, members]) => members.length);
}
