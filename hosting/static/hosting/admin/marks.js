// What happened to the memory at one moment: lines in its plot, and the same as a list.
import { element } from "./dom.js";
import { bytes, moment } from "./format.js";

const KINDS = { load: ["Loaded", "▲", 1], unload: ["Unloaded", "▼", 2], preempt: ["Preempted", "◆", 3], refusal: ["Refused", "✕", 5], failure: ["Failed for want of memory", "✖", 5], exhaustion: ["Device had no memory left", "✖", 5], limit: ["Limit changed", "―", 4] };
const MAX_LISTED = 8;

const kindOf = (mark) => KINDS[mark.kind] ?? [mark.kind, "•", 4];

// Draws `chart.marks`, which the figure sets
export function marksPlugin(colour) {
  return { hooks: { draw: [(chart) => (chart.marks ?? []).forEach((mark) => drawMark(chart, mark, colour))] } };
}

function drawMark(chart, mark, colour) {
  if (mark.at < chart.scales.x.min || mark.at > chart.scales.x.max) return;
  const { ctx, bbox } = chart;
  const [, glyph, tone] = kindOf(mark);
  const x = Math.round(chart.valToPos(mark.at, "x", true));
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour(`--plot-${tone}`);
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText(glyph, x, bbox.top - 5 * devicePixelRatio);
  ctx.restore();
}

// The newest first
export function markList(marks, spanSeconds) {
  const newest = [...marks].sort((one, other) => other.at - one.at);
  const items = newest.slice(0, MAX_LISTED).map((mark) => {
    const [label, glyph, tone] = kindOf(mark);
    const sign = element("span", "plot-glyph", glyph);
    sign.setAttribute("aria-hidden", "true");
    sign.style.color = `var(--plot-${tone})`;
    const what = [label, mark.model, mark.num_bytes ? bytes(mark.num_bytes) : ""].filter(Boolean).join(" ");
    return element("li", "", sign, element("time", "", moment(mark.at, spanSeconds)), what);
  });
  const rest = newest.length - items.length;
  return rest > 0 ? [...items, element("li", "", `and ${rest} before`)] : items;
}
