// Draws plots: a figure each, with a sentence, a legend that shows values, and a table. Data comes from hosting/plots.py.
/* global uPlot */
import { element } from "./dom.js";
import { inUnit, moment, onAxis, slotLength } from "./format.js";
import { markList, marksPlugin } from "./marks.js";

const HEIGHT = 208;
const TABLE_ROWS = 12;
// Seconds between two labels of the time axis; uPlot's own have nothing between one minute and five
const TIME_STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600, 43200, 86400, 172800, 432000, 604800, 1209600, 2592000, 5184000, 7776000, 15552000];
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const BYTE_STEPS = Array.from({ length: 5 }, (_, power) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((digits) => digits * 1024 ** power)).flat();
const VALUE_STEPS = { count: WHOLE_STEPS, bytes: BYTE_STEPS };
const known = (values) => values.filter((value) => value !== null);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Draws all plots of a history into `root`, and again in place when it grows
export class Board {
  constructor(root) {
    this.root = root;
    this.figures = new Map();
    new MutationObserver(() => this.repaint()).observe(document.documentElement, { attributes: true, attributeFilter: ["class"] });
  }

  draw(history) {
    this.history = history;
    for (const plot of history.plots) {
      if (!this.figures.has(plot.id)) {
        const figure = new PlotFigure(plot);
        this.figures.set(plot.id, figure);
        this.root.append(figure.node);
      }
      this.figures.get(plot.id).draw(plot, history);
    }
  }

  repaint() {
    for (const figure of this.figures.values()) figure.forget();
    if (this.history) this.draw(this.history);
  }
}

class PlotFigure {
  constructor({ id, title }) {
    this.summary = element("p", "plot-summary");
    this.legend = element("ul", "plot-legend");
    this.canvas = element("div", "plot-canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", `Plot: ${title}. Its values are in the sentence above and in the table below.`);
    this.empty = element("p", "plot-empty", "Nothing was recorded in this time.");
    this.table = element("div", "plot-table");
    this.details = element("details", "plot-details", element("summary", "", "As a table"), this.table);
    this.details.addEventListener("toggle", () => this.drawTable());
    this.marks = element("ul", "plot-marks");
    const heading = element("h3", "", title);
    heading.id = `plot-${id}`;
    this.node = element("figure", "plot", element("figcaption", "", heading, this.summary), this.legend, this.canvas, this.empty, this.marks, this.details);
    this.node.dataset.plot = id;
    this.node.setAttribute("aria-labelledby", heading.id);
    this.isObserved = false;
  }

  draw(plot, history) {
    Object.assign(this, { plot, history, span: history.times.length * history.step_seconds, write: inUnit(plot.unit) });
    this.series = plot.series.filter((series) => known(series.values).some((value) => value !== 0) || series.tone === 1);
    this.limits = plot.limits.filter((limit) => known(limit.values).length > 0);
    const isEmpty = this.series.every((series) => known(series.values).length === 0);
    this.empty.hidden = !isEmpty;
    this.canvas.hidden = this.legend.hidden = this.details.hidden = isEmpty;
    this.summary.textContent = isEmpty ? "" : summary(plot.kind, this.series, this.limits, this.write, history.step_seconds);
    if (isEmpty) return this.forget();
    this.node.dataset.until = history.times.at(-1);
    this.drawLegend();
    this.drawCanvas();
    this.drawTable();
    this.marks.replaceChildren(...(plot.has_marks ? markList(history.marks, this.span) : []));
  }

  drawLegend() {
    const items = [...this.series.map((series) => [series, "line"]), ...this.limits.map((limit) => [limit, "limit"])];
    this.values = items.map(() => element("span", "plot-value"));
    this.legend.replaceChildren(...items.map(([series, kind], index) => {
      const swatch = element("span", `plot-swatch plot-swatch-${kind}`);
      swatch.style.setProperty("--tone", kind === "limit" ? `var(--plot-limit-${series.tone})` : `var(--plot-${series.tone})`);
      return element("li", "", swatch, series.label, this.values[index]);
    }));
    this.showValues(null);
  }

  // Of the slot under the pointer, else the last that is known
  showValues(index) {
    [...this.series, ...this.limits].forEach((series, position) => {
      const value = index === null ? known(series.values).at(-1) : series.values[index];
      this.values[position].textContent = this.write(value);
    });
  }

  drawCanvas() {
    const shape = JSON.stringify([this.plot.kind, this.series.map((one) => one.label), this.limits.map((one) => one.label), this.history.window]);
    const data = dataOf(this.plot.kind, this.history.times, this.series, this.limits);
    if (this.chart && this.shape === shape) {
      this.chart.marks = this.history.marks;
      return this.chart.setData(data);
    }
    this.forget();
    this.shape = shape;
    this.chart = new uPlot(this.options(), data, this.canvas);
    this.chart.marks = this.history.marks;
    if (!this.isObserved) new ResizeObserver(() => this.fit()).observe(this.canvas);
    this.isObserved = true;
  }

  options() {
    const { plot, span } = this;
    const axis = { stroke: colour("--hearth-muted"), font: "12px system-ui, sans-serif", grid: { stroke: colour("--hearth-line"), width: 1 }, ticks: { show: false } };
    return {
      width: this.canvas.clientWidth || 320,
      height: HEIGHT,
      legend: { show: false },
      padding: [plot.has_marks ? 18 : 8, 26, 0, 0],
      cursor: { sync: { key: "hearth" }, drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: true, range: (_, first, last) => [first, last + (plot.kind === "bars" ? this.history.step_seconds : 0)] }, y: { range: (_, low, high) => rangeOf(plot, high, this.limits) } },
      axes: [
        { ...axis, size: 30, space: 72, incrs: TIME_STEPS, values: (_, splits) => splits.map((at) => moment(at, span)) },
        { ...axis, size: 64, space: 36, values: (_, splits) => splits.map(onAxis(plot.unit)), ...(plot.unit in VALUE_STEPS ? { incrs: VALUE_STEPS[plot.unit] } : {}) },
      ],
      series: [{}, ...seriesOf(plot.kind, this.series, this.history.step_seconds), ...this.limits.map(limitLine)],
      bands: plot.kind === "stack" ? bandsOf(this.series.length) : [],
      hooks: { setCursor: [(chart) => this.showValues(chart.cursor.idx ?? null)] },
      plugins: plot.has_marks ? [marksPlugin(colour)] : [],
    };
  }

  drawTable() {
    if (!this.details.open || !this.series) return;
    const groups = grouped(this.history.times, this.series, this.plot.kind);
    const head = element("tr", "", ...["From", ...this.series.map((series) => series.label)].map((text) => element("th", "", text)));
    const rows = groups.map(({ at, values }) => element("tr", "", element("th", "", moment(at, this.span)), ...values.map((value) => element("td", "", this.write(value)))));
    for (const cell of head.children) cell.scope = "col";
    for (const row of rows) row.firstChild.scope = "row";
    this.table.replaceChildren(element("table", "", element("thead", "", head), element("tbody", "", ...rows)));
    this.table.tabIndex = 0;
    this.table.setAttribute("role", "region");
    this.table.setAttribute("aria-label", `${this.plot.title}, as a table`);
  }

  fit() {
    if (this.chart && this.canvas.clientWidth) this.chart.setSize({ width: this.canvas.clientWidth, height: HEIGHT });
  }

  forget() {
    this.chart?.destroy();
    this.chart = null;
  }
}

function summary(kind, series, limits, write, stepSeconds) {
  const parts = series.map(({ label, values, highest }) => {
    const read = known(values);
    if (read.length === 0) return `${label}: nothing`;
    if (kind === "bars") return `${label} ${write(read.reduce((sum, value) => sum + value, 0))} in all`;
    // A share or a mean of a slot has no highest but that of slots
    const most = highest === null ? `highest in ${slotLength(stepSeconds)} ${write(Math.max(...read))}` : `highest ${write(highest)}`;
    return `${label} ${write(read.at(-1))}, ${most}`;
  });
  const limit = limits.map(({ label, values }) => `${label} ${write(known(values).at(-1))}`);
  return `${[...parts, ...limit].join("; ")}.`;
}

// A limit far above everything is told, not drawn: it would press the rest to the floor
function rangeOf(plot, high, limits) {
  if (plot.unit === "percent") return [0, 100];
  const columns = plot.series.map((series) => series.values);
  const tops = columns[0].map((_, index) => {
    const values = columns.map((column) => column[index] ?? 0);
    return plot.kind === "lines" ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0);
  });
  const top = Math.max(0, ...tops);
  const limit = Math.max(0, ...limits.flatMap((one) => known(one.values)));
  const reach = top * 4 >= limit ? Math.max(top, limit) : top;
  return [0, reach > 0 ? reach * 1.08 : 1];
}

// Stacks are drawn from the top down: each line is the sum of itself and all below
function dataOf(kind, times, series, limits) {
  const columns = kind === "lines" ? series.map((one) => one.values) : cumulated(series).reverse();
  return [times, ...columns, ...limits.map((limit) => limit.values)];
}

function cumulated(series) {
  let below = null;
  return series.map(({ values }) => {
    below = values.map((value, index) => (value === null && (below?.[index] ?? null) === null ? null : (value ?? 0) + (below?.[index] ?? 0)));
    return below;
  });
}

function seriesOf(kind, series, stepSeconds) {
  const ordered = kind === "lines" ? series : [...series].reverse();
  return ordered.map(({ label, tone }) => {
    const stroke = colour(`--plot-${tone}`);
    if (kind === "bars") return { label, stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.82, 40], align: 1 }), points: { show: false } };
    const line = { label, stroke, width: kind === "stack" ? 1 : 1.75, points: { show: true, size: 4, fill: stroke, filter: loners }, gaps: wideGaps(stepSeconds) };
    return kind === "stack" ? { ...line, fill: `color-mix(in srgb, ${stroke} 55%, ${colour("--hearth-surface")})` } : line;
  });
}

const limitLine = ({ label, tone }) => ({ label, stroke: colour(`--plot-limit-${tone}`), width: 1.5, dash: [6, 4], points: { show: false } });

const bandsOf = (count) => Array.from({ length: count - 1 }, (_, index) => ({ series: [index + 1, index + 2] }));

// A value between two gaps is no line, but must be seen
function loners(chart, position) {
  const values = chart.data[position];
  const isKnown = (index) => (values[index] ?? null) !== null;
  return values.map((_, index) => index).filter((index) => isKnown(index) && !isKnown(index - 1) && !isKnown(index + 1));
}

// A reading that came a little late is no gap
function wideGaps(stepSeconds) {
  return (chart, _series, _first, _last, gaps) => {
    const slot = chart.valToPos(chart.data[0][0] + stepSeconds, "x", true) - chart.valToPos(chart.data[0][0], "x", true);
    return gaps.filter(([from, to]) => to - from > 2.5 * slot);
  };
}

function grouped(times, series, kind) {
  const size = Math.ceil(times.length / TABLE_ROWS);
  const groups = [];
  for (let start = 0; start < times.length; start += size) {
    const values = series.map((one) => {
      const read = known(one.values.slice(start, start + size));
      if (read.length === 0) return null;
      if (one.is_peak) return Math.max(...read);
      const total = read.reduce((sum, value) => sum + value, 0);
      return kind === "bars" ? total : total / read.length;
    });
    groups.push({ at: times[start], values });
  }
  return groups;
}
