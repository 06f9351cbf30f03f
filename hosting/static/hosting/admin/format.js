// Numbers as people read them. Knows no page.

// Powers of 1024 under the short names, as memory is sold and as the settings and Django's filter count
export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${count.toFixed(count < 10 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}

export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds > 0 && seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

const SLOTS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// 300 is 5 min: slots of plots are whole in one unit
export function slotLength(seconds) {
  const [length, unit] = SLOTS.find(([length]) => seconds % length === 0);
  return `${seconds / length} ${unit}`;
}

export const number = (value) => Math.round(value).toLocaleString("en");
export const percent = (value) => `${value.toFixed(value > 0 && value < 10 ? 1 : 0)} %`;
const milliseconds = (seconds) => (seconds > 0 && seconds < 1 ? `${(1000 * seconds).toFixed(seconds < 0.01 ? 1 : 0)} ms` : duration(seconds));
// An average of small counts is not whole
const count = (value) => (value < 10 && value % 1 ? value.toFixed(1) : number(value));

const UNITS = { bytes, percent, count, seconds: milliseconds, tokens_per_second: (value) => `${number(value)} tok/s` };

// How values of a plot's unit are written
export const inUnit = (unit) => (value) => (value === null || value === undefined ? "–" : UNITS[unit](value));

// Beside an axis there is no room for more than the number
export const onAxis = (unit) => (unit === "tokens_per_second" ? count : inUnit(unit));

// A point in time, as exact as the stretch that is shown
export function moment(unixSeconds, spanSeconds) {
  const date = new Date(1000 * unixSeconds);
  const clock = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (spanSeconds <= 900) return date.toLocaleTimeString([], { ...clock, second: "2-digit" });
  if (spanSeconds <= 2 * 86400) return date.toLocaleTimeString([], clock);
  return date.toLocaleDateString([], { day: "numeric", month: "short", ...(spanSeconds <= 8 * 86400 ? clock : {}) });
}
