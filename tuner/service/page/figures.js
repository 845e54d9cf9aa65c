// Figures as the server describes them, drawn by plotly.js, which is loaded for the first one.

import { clean, copy, fill, h } from "/elements.js";

let library = null;
export const plotly = () => (library ??= new Promise((done) => {
  document.head.append(h("script", { src: "/plotly.js", onload: done, onerror: done }));
}));
const DARK = matchMedia("(prefers-color-scheme: dark)");
const TALL = 440; // px, above which a figure needs its height
const CAN_DRAG = !matchMedia("(pointer: coarse)").matches; // a finger that drags scrolls the page
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

// A description in the colours of page.css that take the place of its own
function atNight(value) {
  if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(atNight);
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, of]) => [name, atNight(of)]));
  return (/^#[0-9A-F]+$/.test(value) && colour(value.slice(1))) || value;
}

// The trial of each point of lines: where x is null, the line of the next one begins
function trialsOfPoints({ x, meta, customdata }) {
  if (!Array.isArray(meta)) return customdata;
  let line = 0;
  return x.map((at) => meta[at === null ? line++ : line]);
}

// Figures that are to be drawn: those in sight first, one at a time, so that the page stays alive
const waiting = new Set();
let drawing = null;
export const allDrawn = () => drawing;

async function drawWaiting() {
  await plotly();
  while (waiting.size) {
    const next = [...waiting].find((figure) => figure.isSeen) ?? [...waiting][0];
    waiting.delete(next);
    await next.draw().catch((error) => {
      next.near.textContent = clean(`This figure cannot be drawn here: ${error}`);
      console.error(error);
    });
    await new Promise((done) => setTimeout(done));
  }
  performance.mark("figures");
  drawing = null;
}

// Those out of sight are drawn once, and then when they come in sight
const sight = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    target.figure.isSeen = isIntersecting;
    if (isIntersecting && target.figure.isStale) target.figure.ask();
  }
}, { rootMargin: "200px" });
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.layout && target.clientWidth) Plotly.Plots.resize(target);
});

export class Figure {
  // choose, describe: called with the id of a trial; brush: with the part of the filter that an axis
  // gets, and the one it had; has: whether the filter has a part
  constructor({ name, choose = () => {}, describe = async () => "", brush = null, has }) {
    Object.assign(this, { choose, describe, brush, has, spans: new Map() }, copy("figure"));
    this.drawn = 0; // how often
    this.axis.onchange = () => this.showSpan();
    this.from.onchange = this.to.onchange = () =>
      this.limit(this.offered().axis, ...[this.from, this.to].map(({ value, max }) => value / max));
    this.root.classList.add(name);
    this.box.figure = this;
    sight.observe(this.box);
    sizes.observe(this.box);
  }

  // What is drawn can be chosen by these names
  offer(label, names, current, change) {
    this.select.hidden = names.length < 2;
    this.select.ariaLabel = label;
    fill(this.select, names.map((name) => h("option", { value: name }, name)));
    this.select.selectedIndex = names.indexOf(current);
    this.select.onchange = () => change(names[this.select.selectedIndex]);
  }

  show({ title, caption, plot }) {
    this.title.textContent = clean(title);
    this.caption.textContent = clean(caption);
    this.box.ariaLabel = clean(`${title}: ${caption}`);
    this.box.hidden = this.near.hidden = !plot;
    this.span.hidden = !this.brush || !plot;
    if (this.brush && plot) this.offerSpans(plot.layout.meta.axes);
    this.plot = plot;
    this.refresh();
  }

  // Draw again what has changed since, or the colours of another scheme: when the figure is in sight
  refresh() {
    const text = JSON.stringify([this.plot, DARK.matches]);
    if (text === this.text) return;
    this.text = text;
    this.isStale = true;
    if (this.isSeen || !this.box.layout) this.ask();
  }

  ask() {
    waiting.add(this);
    drawing ??= drawWaiting();
  }

  async draw() {
    if (!this.plot || !this.root.isConnected) return;
    this.isStale = false;
    const { data, layout } = DARK.matches ? atNight(this.plot) : this.plot;
    const drawn = data.map((trace) => {
      const customdata = trialsOfPoints(trace);
      return customdata ? { ...trace, customdata, hoverinfo: "none", hovertemplate: undefined } : trace;
    });
    const isFirst = !this.box.layout;
    await Plotly.react(this.box, drawn, this.styled(layout), { displayModeBar: false, doubleClick: "reset" });
    if (!isFirst) return;
    this.box.on("plotly_hover", ({ points: [point] }) => this.tell(point));
    this.box.on("plotly_unhover", () => this.near.replaceChildren());
    this.box.on("plotly_click", ({ points: [{ customdata }] }) => customdata && this.choose(customdata));
    this.box.on("plotly_selected", (event) => event?.range && this.brushed(event.range));
  }

  // The axis in the middle of a box that was drawn over parallel coordinates
  brushed({ x: [left, right], y }) {
    const axis = this.plot.layout.meta.axes[Math.round((left + right) / 2)];
    if (axis) this.limit(axis, Math.min(...y), Math.max(...y));
  }

  limit(axis, from, to) {
    const { text: before } = this.spans.get(axis.value);
    const text = spanOf(axis, from, to);
    this.spans.set(axis.value, { axis, from, to, text });
    this.axis.selectedIndex = [...this.spans.keys()].indexOf(axis.value);
    this.showSpan();
    this.brush(text, before);
  }

  // Sliders do for a keyboard what the box does. An axis of which a part is shown keeps its ends
  offerSpans(axes) {
    for (const axis of axes)
      if (!this.has(this.spans.get(axis.value)?.text)) this.spans.set(axis.value, { axis, from: 0, to: 1, text: "" });
    fill(this.axis, [...this.spans.keys()].map((value) => h("option", {}, value)));
    this.showSpan();
  }

  offered = () => [...this.spans.values()][this.axis.selectedIndex];

  showSpan() {
    const { axis: { value, categories }, from, to, text } = this.offered();
    this.said.textContent = clean(text || `all of ${value}`);
    const max = categories ? Math.max(categories.length - 1, 1) : 100;
    for (const [slider, share] of [[this.from, from], [this.to, to]])
      Object.assign(slider, { max, value: share * max, ariaValueText: this.said.textContent });
  }

  styled({ height, ...layout }) {
    this.box.style.height = `${height > TALL ? height : Math.min(height, 300)}px`;
    const axis = { gridcolor: colour("line"), ...(CAN_DRAG ? {} : { fixedrange: true }) };
    return {
      ...layout, margin: { l: 56, r: 12, t: 12, b: 40 }, font: { size: 11, color: colour("faint") },
      paper_bgcolor: "transparent", plot_bgcolor: "transparent", hoverdistance: 40,
      xaxis: { ...layout.xaxis, ...axis }, yaxis: { ...layout.yaxis, ...axis },
      dragmode: CAN_DRAG && (this.brush ? "select" : "zoom"), selections: [], selectionrevision: this.drawn += 1,
      uirevision: `${this.title.textContent} ${this.select.value}`, // a zoom stays until something else is shown
    };
  }

  // The value of the point that is near, and the config of its trial
  async tell({ y, customdata: trial }) {
    if (!trial) return;
    const text = this.brush ? `trial ${trial}` : `trial ${trial}: ${Number(y.toPrecision(4))}`;
    this.near.textContent = text;
    const config = await this.describe(trial).catch(() => "");
    if (config && this.near.textContent === text) this.near.textContent = clean(`${text}; ${config}`);
  }
}

// The figures of a view by their names: each is made once, and then updated
export class Gallery {
  constructor(root, optionsOf = () => ({})) {
    Object.assign(this, { root, optionsOf, made: {} });
  }

  // choices: the arguments of Figure.offer, by the name of a figure
  show(figures, choices = {}) {
    for (const { name } of figures) this.made[name] ??= new Figure({ name, ...this.optionsOf(name) });
    fill(this.root, figures.map(({ name }) => this.made[name].root));
    for (const figure of figures) {
      this.made[figure.name].show(figure);
      if (choices[figure.name]) this.made[figure.name].offer(...choices[figure.name]);
    }
  }
}

DARK.addEventListener("change", () => document.querySelectorAll(".chart").forEach(({ figure }) => figure.refresh()));

// The part of an axis between two heights, 0 to 1, as an expression; "" for all of it
export function spanOf({ value, categories, low, high, log }, from, to) {
  if (categories) {
    const last = Math.max(categories.length - 1, 1);
    const some = categories.filter((_, n) => from <= n / last && n / last <= to);
    return some.length === categories.length ? "" : `${value} in [${some.join(", ")}]`;
  }
  const at = (share) => Number((log ? low * (high / low) ** share : low + (high - low) * share).toPrecision(4));
  const parts = [from > 0 && at(from), value, to < 1 && at(to)].filter((part) => part !== false);
  return parts.length > 1 ? parts.join(" <= ") : "";
}
