// The page of `tuner serve`. What comes from an experiment reaches the page as text alone: every
// element is made by `h`, and nothing is ever parsed as HTML.

import VERBS from "/verbs.js";

const STOP = VERBS.find((verb) => verb.field === "trial_id");
const STATUSES = ["running", "completed", "interrupted", "failed", "damaged"];
const ROWS = 100; // trials that are shown at a time
const LOADING = "loading …";
const state = {
  experiments: new Map(), // name -> as `ls --json` has it
  toRead: 1,
  problem: "",
  isNew: true, // whether the stream has only begun
  filter: "",
  status: "",
  sort: { by: "started", reverse: true },
  route: { name: null, trial: null, report: false },
  open: null, // the experiment that is open
};

// ---------------------------------------------------------------- elements

// Characters that would move, hide or turn round what stands beside them
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const clean = (value) => String(value).replace(UNSEEN, "\ufffd");

function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : clean(value));
  }
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : clean(child));
  return element;
}
const $ = (selector) => document.querySelector(selector);

// ---------------------------------------------------------------- words

function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const short = Number(value.toPrecision(4));
  const size = Math.abs(short);
  return size && (size < 1e-4 || size >= 1e6) ? short.toExponential() : String(short);
}

// A metric, with the zeros that keep a column aligned
function measured(value) {
  const short = number(value);
  return typeof value === "number" && /^-?\d+\.\d+$/.test(short) ? value.toPrecision(4) : short;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const all = Math.round(Math.max(0, seconds));
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (n) => String(n).padStart(2, "0");
  if (hours) return `${hours}h ${two(minutes)}m`;
  return minutes ? `${minutes}m ${two(rest)}s` : `${rest}s`;
}

// As 2026-11-25 13:05, which is how Sweden writes it
const MOMENT = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short" });
const moment = (time) => (time ? MOMENT.format(time * 1000) : "");

const amount = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const EARLY = {
  time_budget: "out of time",
  target: "target reached",
  patience: "no more progress",
  utility: "little more expected",
};
const standing = (one) => (one.paused ? "paused" : ((one.status === "completed" && EARLY[one.ended_by]) || one.status));
const trialsOf = (counts) => Object.values(counts).reduce((sum, n) => sum + n, 0);
const endedOf = (counts) => counts.completed + counts.stopped + counts.failed;
// Why the values of a trial do not count
const uncounted = (one) =>
  one.beyond_limits ? ", beyond limits" : one.before_epoch ? `, before epoch ${one.before_epoch}` : "";
const status = (name, word = name) => h("span", { class: `status ${name}` }, word);

function flat(config, before = "") {
  return Object.entries(config).flatMap(([name, value]) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${before}${name}.`)
      : [[before + name, value]],
  );
}

// ---------------------------------------------------------------- the server

class Refused extends Error {}

const pathOf = (name, ...rest) =>
  ["/api/experiments", name, ...rest]
    .map((part, n) => (n ? encodeURIComponent(String(part).toWellFormed()) : part))
    .join("/");

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(body.error ?? `the server answers ${answer.status}`);
}
const get = async (path) => (await ask(path)).json();

let events = null;
let listeningTo;

function listen() {
  const name = state.route.name;
  if (events && events.readyState !== EventSource.CLOSED && listeningTo === name) return;
  events?.close();
  listeningTo = name;
  events = new EventSource(`/api/events${name === null ? "" : `?experiment=${encodeURIComponent(name.toWellFormed())}`}`);
  events.addEventListener("open", () => {
    state.isNew = true;
    connected("live", "live");
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) refused();
    else connected("", "reconnecting");
  });
  events.addEventListener("experiments", (event) => learn(JSON.parse(event.data)));
  events.addEventListener("experiment", (event) => stands(JSON.parse(event.data)));
}

function connected(kind, word) {
  const link = $("#link");
  link.className = `link ${kind}`;
  link.textContent = word;
}

function refused() {
  connected("lost", "no access");
  if (state.experiments.size) return;
  $("#main").replaceChildren(
    h("p", { class: "empty" }, h("b", {}, "This page needs the token of its server."),
      "Open the URL that `tuner serve` has printed, or start it again."),
  );
}

function learn({ listed, gone, to_read, problem, place }) {
  if (state.isNew) state.experiments.clear(); // the first of a stream has them all
  state.isNew = false;
  for (const name of gone) state.experiments.delete(name);
  for (const one of listed) state.experiments.set(one.name, one);
  state.toRead = to_read;
  state.problem = problem;
  if (place) $("#place").textContent = clean(place);
  soon();
}

function stands(shown) {
  if (state.open?.name !== shown.name) return;
  state.open.error = shown.error ?? "";
  if (!shown.error) state.open.shown = shown;
  state.open.refresh();
  soon();
}

let isDue = false;
function soon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}

// ---------------------------------------------------------------- the list

const COLUMNS = [
  { by: "name", title: "Name", of: (one) => one.name.toLowerCase() },
  { by: "status", title: "Status", of: (one) => STATUSES.indexOf(one.status) },
  { by: "progress", title: "Progress", of: (one) => progressOf(one) },
  { by: "best", title: "Best", of: (one) => one.best, isNumber: true },
  { by: "metric", title: "Metric", of: (one) => one.metric },
  { by: "time", title: "Time", of: (one) => one.searched_s, isNumber: true },
  { by: "strategy", title: "Strategy", of: (one) => one.strategy },
  { by: "started", title: "Started", of: (one) => one.started, isNumber: true },
];

const progressOf = ({ counts, total }) =>
  endedOf(counts) / Math.max(1, total ?? 0, trialsOf(counts));

const shareOf = ({ counts, total }) =>
  endedOf(counts) + (total && total >= trialsOf(counts) ? ` / ${total}` : "");

function bar({ counts, total }) {
  const all = Math.max(1, total ?? 0, trialsOf(counts));
  const track = h("span", { class: "track" });
  const parts = [["", counts.completed + counts.stopped], ["failed", counts.failed], ["running", counts.running]];
  for (const [kind, amount] of parts) {
    const part = h("i", { class: kind });
    part.style.width = `${(100 * amount) / all}%`;
    track.append(part);
  }
  return h("span", { class: "progress" }, track, h("span", {}, shareOf({ counts, total })));
}

function row(one) {
  const link = h("a", { class: "name", href: `#/${encodeURIComponent(one.name.toWellFormed())}` }, one.name);
  const note = one.problem ?? one.note;
  return h(
    "tr",
    {},
    h("td", {}, link, one.tags.map((tag) => h("span", { class: "tag" }, tag)),
      note && h("span", { class: "note" }, note)),
    h("td", {}, status(one.status, standing(one))),
    h("td", {}, bar(one)),
    h("td", { class: "number" }, measured(one.best)),
    h("td", { class: "faint cut" }, one.metric),
    h("td", { class: "number" }, duration(one.searched_s)),
    h("td", {}, one.strategy),
    h("td", { class: "number" }, moment(one.started)),
  );
}

const compare = (a, b) => Number(a > b) - Number(a < b);

function chosen() {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = (one) => [one.name, one.strategy, one.metric, one.note, standing(one), ...one.tags];
  const matches = (one) => {
    const text = texts(one).join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const { of } = COLUMNS.find(({ by }) => by === state.sort.by);
  const sign = state.sort.reverse ? -1 : 1;
  return [...state.experiments.values()]
    .filter((one) => (!state.status || one.status === state.status) && matches(one))
    .map((one) => [of(one), one])
    .sort(([a, x], [b, y]) =>
      (a === null) - (b === null) || sign * compare(a, b) || compare(x.name, y.name))
    .map(([, one]) => one);
}

const list = {
  root: null,
  rows: new Map(), // name -> [what it shows, its row]

  build() {
    this.rows.clear();
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Status" });
    this.body = h("tbody");
    this.head = h("tr");
    this.note = h("p", { class: "empty" });
    this.problem = h("p", { class: "problem", role: "alert" });
    const search = h("input", {
      type: "search", id: "filter", placeholder: "Filter by name, tag, strategy …",
      "aria-label": "Filter", value: state.filter,
      oninput: (event) => { state.filter = event.target.value; soon(); },
    });
    this.card = h("div", { class: "card experiments scroll" },
      h("table", {}, h("thead", {}, this.head), this.body));
    this.root = h("div", {}, this.problem, h("div", { class: "tools" }, search, this.chips), this.card, this.note);
    $("#main").replaceChildren(this.root);
  },

  draw() {
    if (!this.root?.isConnected) this.build();
    document.title = "tuner";
    this.problem.hidden = !state.problem;
    this.problem.textContent = clean(state.problem);
    this.drawChips();
    this.head.replaceChildren(...COLUMNS.map((column) => this.title(column)));
    const shown = chosen();
    const rows = shown.map((one) => this.rowOf(one));
    if (rows.length !== this.body.children.length || rows.some((r, n) => this.body.children[n] !== r))
      this.body.replaceChildren(...rows);
    this.card.hidden = !shown.length;
    this.note.hidden = shown.length > 0;
    this.note.textContent = this.why();
    if (shown.length && !this.isMarked) {
      performance.mark("list");
      this.isMarked = true;
    }
  },

  why() {
    if (state.toRead) return "Reading the experiments …";
    if (state.experiments.size) return "No experiment matches.";
    return "No experiments yet. Start with: tuner run digits";
  },

  rowOf(one) {
    const known = this.rows.get(one.name);
    if (known?.[0] === one) return known[1];
    const made = row(one);
    this.rows.set(one.name, [one, made]);
    return made;
  },

  title({ by, title, isNumber }) {
    const order = state.sort.reverse ? "descending" : "ascending";
    const sort = () => {
      state.sort = { by, reverse: state.sort.by === by ? !state.sort.reverse : Boolean(isNumber) };
      soon();
    };
    return h("th", { class: by === "metric" ? "beside" : isNumber && "number", "aria-sort": state.sort.by === by && order },
      h("button", { onclick: sort }, title));
  },

  drawChips() {
    const all = [...state.experiments.values()];
    const chips = ["", ...STATUSES].flatMap((name) => {
      const count = all.filter((one) => !name || one.status === name).length;
      if (name && !count && name !== state.status) return [];
      const choose = () => { state.status = name; soon(); };
      return h("button", { "aria-pressed": String(state.status === name), onclick: choose },
        name || "all", h("small", {}, count));
    });
    this.chips.replaceChildren(...chips);
  },
};

// ---------------------------------------------------------------- plots

let library = null;
const plotly = () => (library ??= new Promise((done) => {
  document.head.append(h("script", { src: "/plotly.js", onload: done }));
}));
const DARK = matchMedia("(prefers-color-scheme: dark)");
const CAN_DRAG = matchMedia("(pointer: fine)").matches; // a finger that drags scrolls the page

class Plot {
  constructor({ title, words, choose = () => {} }) {
    this.words = words; // of the point that is near
    this.choose = choose;
    this.select = h("select", { "aria-label": `Metric of ${title}`, hidden: true });
    this.caption = h("div", { class: "told" });
    this.box = h("div", { class: "chart", role: "img", "aria-label": title }, LOADING);
    this.root = h("section", { class: "plot card" },
      h("header", {}, h("h2", {}, title), this.select), this.box, this.caption);
    new ResizeObserver(() => this.box.layout && this.box.clientWidth && Plotly.Plots.resize(this.box)).observe(this.box);
    DARK.addEventListener("change", () => this.shape && this.show(this.shape));
  }

  metrics(names, current, change) {
    this.select.hidden = names.length < 2;
    const options = [...this.select.options].map((option) => option.value);
    if (options.join("\n") !== names.join("\n"))
      this.select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    this.select.selectedIndex = names.indexOf(current);
    this.select.onchange = () => change(names[this.select.selectedIndex]);
  }

  // traces: Plotly's, the last on top; customdata: the trials' ids
  async show({ traces, said = "" }) {
    this.shape = { traces, said };
    this.said = said;
    if (!this.isNear) this.caption.textContent = clean(said);
    await plotly();
    const values = traces.flatMap(({ y }) => y).filter(Number.isFinite);
    if (this.box.layout && !values.length) Plotly.purge(this.box);
    if (!values.length) return this.box.replaceChildren("nothing reported");
    if (!this.box.layout) this.box.replaceChildren();
    const [low, high] = values.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
    const isLog = low > 0 && high / low >= 10;
    const ends = traces.flatMap(({ x }) => [x[0], x.at(-1)]).filter(Number.isFinite);
    const isShort = Math.max(...ends) - Math.min(...ends) < 9;
    const axis = { gridcolor: colour("line"), zeroline: false, fixedrange: !CAN_DRAG };
    const layout = {
      margin: { l: 56, r: 10, t: 10, b: 24 }, showlegend: false, hovermode: "closest", hoverdistance: 40,
      paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: { size: 11, color: colour("faint") },
      xaxis: { ...axis, showgrid: false, tickformat: "d", nticks: 9, dtick: isShort ? 1 : undefined }, yaxis: { ...axis, type: isLog ? "log" : "linear", nticks: 7 },
      uirevision: said, // a zoom stays until something else is shown
    };
    const drawn = traces.map((trace) => ({ mode: trace.y.length > 1 ? "lines" : "markers", hoverinfo: "none", ...trace }));
    const isFirst = !this.box.layout;
    await Plotly.react(this.box, drawn, layout, { displayModeBar: false });
    if (!isFirst) return;
    this.box.on("plotly_hover", ({ points: [near] }) => this.near(near));
    this.box.on("plotly_unhover", () => this.leave());
    this.box.on("plotly_click", ({ points: [near] }) => this.choose(near.customdata));
  }

  near({ x, y, customdata }) {
    this.isNear = true;
    this.caption.textContent = clean(`${this.words({ id: customdata, at: x })}: ${measured(y)}`);
  }

  leave() {
    this.isNear = false;
    this.caption.textContent = clean(this.said);
  }
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

function curve(points, id, { isBest = false, isRunning = false } = {}) {
  const [color, width, opacity] = isBest ? ["accent", 2, 1] : isRunning ? ["running", 1.2, 0.6] : ["faint", 1.2, 0.38];
  const line = { color: colour(color), width };
  const [x, y] = [points.map(([at]) => at), points.map(([, value]) => value)];
  return { x, y, customdata: x.map(() => id), line, opacity, marker: { color: line.color, size: 5 } };
}

// ---------------------------------------------------------------- an experiment

class Open {
  constructor(name) {
    this.name = name;
    this.shown = null;
    this.error = "";
    this.rows = [];
    this.total = 0;
    this.limit = ROWS;
    this.where = "";
    this.sort = { by: null, reverse: false };
    this.metric = null; // of the curves; null: the objective's
    this.build();
  }

  build() {
    const go = (trial) => { location.hash = hashOf(this.name, trial); };
    this.byTrial = new Plot({ title: "Best by trial", words: ({ id }) => `trial ${id}`, choose: go });
    this.curves = new Plot({ title: "Learning curves", words: ({ id, at }) => `trial ${id}, epoch ${at}`, choose: go });
    this.head = h("div", { class: "head" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.tiles = h("div", { class: "tiles" });
    this.steer = h("section", { class: "card steer", hidden: true });
    this.requested = h("ul", { class: "asked" });
    this.steer.append(h("h2", {}, "Steer"), ...VERBS.filter((verb) => verb !== STOP).map((verb) => button(verb, this)), this.requested);
    this.changes = h("section", { class: "card steer changes", hidden: true });
    this.advice = h("section", { class: "card steer changes advice", hidden: true });
    this.table = h("table");
    this.count = h("span", { class: "count" }, LOADING);
    this.wrong = h("span", { class: "wrong", hidden: true });
    this.more = h("div", { class: "more", hidden: true },
      h("button", { onclick: () => { this.limit += ROWS; this.refresh(); } }, "Show more"));
    this.condition = h("input", {
      type: "search", id: "where", "aria-label": "Trials for which this holds",
      onchange: (event) => { this.where = event.target.value.trim(); this.limit = ROWS; this.refresh(); },
    });
    const trials = h("section", { class: "card trials" },
      h("div", { class: "section" }, h("h2", {}, "Trials"), this.condition, this.count, this.wrong),
      h("div", { class: "scroll" }, this.table), this.more);
    this.body = h("div", {}, this.steer, this.changes, this.tiles, h("div", { class: "plots" }, this.byTrial.root, this.curves.root), this.advice, trials);
    this.frame = h("div", { class: "frame", hidden: true });
    this.root = h("div", {}, h("a", { class: "back", href: "#/" }, "← Experiments"), this.head, this.problem, this.body, this.frame);
  }

  // Ask again for what has changed: one round at a time, at most one a second
  async refresh() {
    this.isStale = true;
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.isStale && state.open === this) {
      this.isStale = false;
      const asked = [this.askCurves(), this.askTrials(), this.askControls(), this.askAdvice(), drawer.refresh()];
      const failed = (await Promise.allSettled(asked)).find(({ reason }) => reason);
      if (failed) this.error = failed.reason.message;
      soon();
      await new Promise((done) => setTimeout(done, 1000));
    }
    this.isAsking = false;
  }

  async askCurves() {
    const query = this.metric === null ? "" : `?metric=${encodeURIComponent(this.metric)}`;
    this.drawn = await get(pathOf(this.name, "curves") + query);
    this.drawPlots();
  }

  async askTrials() {
    const query = new URLSearchParams({ limit: this.limit });
    if (this.where) query.set("where", this.where);
    if (this.sort.by) query.set("sort", this.sort.by);
    if (this.sort.reverse) query.set("reverse", "1");
    try {
      const answer = await ask(`${pathOf(this.name, "trials")}?${query}`);
      this.total = Number(answer.headers.get("X-Total-Count"));
      this.rows = await answer.json();
      this.wrong.hidden = true;
      this.drawTrials();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.wrong.textContent = clean(error.message);
      this.wrong.hidden = false;
    }
  }

  async askControls() {
    this.requests = await get(pathOf(this.name, "control"));
    this.drawControls();
  }

  // Of a search that has ended, once
  async askAdvice() {
    if (this.advice.children.length || !this.shown || this.shown.status === "running") return;
    const { findings } = await get(pathOf(this.name, "advice")).catch(() => ({ findings: [] }));
    const lines = findings.map(({ severity, evidence, action }) =>
      h("li", {}, `${severity}: ${evidence.seen} ${evidence.meaning} `, h("code", {}, action.command)));
    this.advice.hidden = !lines.length;
    this.advice.replaceChildren(h("h2", {}, "Advice"), h("ul", { class: "asked" }, lines));
  }

  // The requests, the last first: done, not done and why, or not answered yet
  drawControls() {
    this.requested.replaceChildren(...(this.requests ?? []).slice(-6).reverse().map(requestLine));
    const isPaused = Boolean(this.shown?.paused);
    this.steer.querySelector('[data-verb="pause"]').hidden = isPaused;
    this.steer.querySelector('[data-verb="go-on"]').hidden = !isPaused;
  }

  // What resumes changed of the spec, the last first
  drawChanges() {
    const changes = this.shown?.changes ?? [];
    this.changes.hidden = !changes.length;
    const lines = changes.map((change) => h("li", {}, changeOf(change))).reverse();
    this.changes.replaceChildren(h("h2", {}, "Changed by a resume"), h("ul", { class: "asked" }, lines));
  }

  draw() {
    if (!this.root.isConnected) $("#main").replaceChildren(this.root);
    document.title = clean(`${this.name} – tuner`);
    const one = state.experiments.get(this.name);
    const now = this.shown?.status ?? one?.status;
    const { report } = state.route;
    const isUnreadable = !this.shown && Boolean(this.error);
    this.problem.hidden = !this.error;
    this.problem.textContent = clean(this.error);
    this.head.replaceChildren(
      h("h1", {}, this.name),
      now ? status(now, standing(this.shown ?? one)) : "",
      ...(one?.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: "space" }),
      isUnreadable ? "" : h("a", { href: report ? hashOf(this.name) : `${hashOf(this.name)}/report` }, report ? "Back to the trials" : "Report"),
    );
    if (one?.note) this.head.append(h("span", { class: "noted" }, one.note));
    const isLower = this.drawn?.mode === "min";
    if (one?.metric) this.condition.placeholder = clean(`${one.metric} ${isLower ? "< 0.2" : "> 0.9"}`);
    const isOver = now !== "running";
    this.steer.hidden = isOver && !this.requested.children.length;
    this.steer.firstChild.textContent = isOver ? "Asked while it ran" : "Steer";
    for (const verb of this.steer.querySelectorAll("button")) verb.classList.toggle("over", isOver);
    this.drawControls();
    this.drawChanges();
    this.drawTiles(one);
    this.body.hidden = report || isUnreadable;
    this.frame.hidden = !report;
    if (report && !this.frame.children.length) this.drawReport();
    if (!report) this.frame.replaceChildren();
  }

  // It takes seconds to be made
  drawReport() {
    const wait = h("p", { class: "empty" }, "Making the report …");
    const attributes = { class: "report making", title: "Report", sandbox: "allow-scripts", src: pathOf(this.name, "report") };
    const show = (event) => { wait.remove(); event.target.classList.remove("making"); };
    this.frame.append(wait, h("iframe", { ...attributes, onload: show }));
  }

  drawTiles(one) {
    const shown = this.shown ?? one;
    const best = this.shown?.best;
    const metric = one?.metric ?? "best";
    const value = best ? best.metrics[metric] : one?.best;
    const counts = shown?.counts;
    const isOver = shown?.status !== "running";
    const others = counts ? { ...counts, "not started": isOver ? (one?.total ?? 0) - trialsOf(counts) : 0 } : {};
    const also = ["running", "stopped", "interrupted", "not started"].filter((name) => others[name] > 0)
      .map((name) => `${others[name]} ${name}`).join(", ");
    const tile = (label, big, note) => h("div", { class: "card tile" }, h("span", {}, label), h("b", {}, big), h("span", {}, note));
    this.tiles.replaceChildren(
      tile(metric, measured(value) || "–", best
        ? [h("a", { href: hashOf(this.name, best.trial_id) }, `trial ${best.trial_id}, epoch ${best.epoch}`), ...this.measuredAlso()]
        : this.shown ? `no usable trial${isOver ? "" : " yet"}` : LOADING),
      tile("trials", counts ? shareOf({ counts, total: one?.total }) : "–", counts ? also || "all have ended" : LOADING),
      tile("time", duration(one?.searched_s) || "–", one ? "of searching" : LOADING),
      tile("failed", counts ? String(counts.failed) : "–", counts ? `of ${amount(trialsOf(counts), "trial")}` : LOADING),
    );
  }

  // What retraining the leaders and the test split have shown of the best
  measuredAlso() {
    const { confirmed, test } = this.shown;
    const mean = confirmed && `trial ${confirmed.trial_id} confirmed: ${measured(confirmed.mean)}, mean of ${amount(confirmed.seeds, "seed")}`;
    const tests = Object.entries(test ?? {}).filter(([name]) => name.startsWith("test_"));
    return [mean, ...tests.map(([name, value]) => `${name} ${measured(value)}`)]
      .filter(Boolean)
      .map((text) => h("div", {}, text));
  }

  drawPlots() {
    const { metric, mode, metrics, dots, best_so_far, of, curves } = this.drawn;
    const kinds = dots.map(([, , kind]) => colour(["completed", "running", "failed"].includes(kind) ? kind : "faint"));
    const ids = dots.map(([id]) => id);
    const markers = { x: ids, y: dots.map(([, value]) => value), customdata: ids, mode: "markers", marker: { color: kinds, size: 6, opacity: 0.75 } };
    const last = best_so_far.at(-1);
    const steps = last ? [...best_so_far, [Math.max(last[0], ...ids), last[1]]] : [];
    const best = { ...curve(steps, null, { isBest: true }), line: { color: colour("accent"), width: 2, shape: "hv" }, hoverinfo: "skip" };
    this.byTrial.show({
      said: `${metric}, ${mode === "min" ? "lower" : "higher"} is better; the line is the best so far`,
      traces: [markers, best],
    });
    const hasBest = best_so_far.length > 0; // whose curve comes first
    const traces = curves.map(({ trial_id, status: kind, points }, n) =>
      curve(points, trial_id, { isBest: hasBest && !n, isRunning: kind === "running" }));
    const all = state.experiments.get(this.name)?.counts;
    const some = all && curves.length < trialsOf(all) ? " of the best, the running, the latest" : "";
    const stands = hasBest ? "; the best one stands out" : "";
    this.curves.show({ said: `${of}${some}${stands}`, traces: traces.reverse() });
    this.curves.metrics(metrics, of, (name) => { this.metric = name; this.refresh(); });
  }

  drawTrials() {
    const metric = this.drawn?.metric ?? state.experiments.get(this.name)?.metric ?? "";
    const configs = this.rows.map((one) => new Map(flat(one.config)));
    const names = [...new Set(configs.flatMap((config) => [...config.keys()]))];
    const columns = [
      ["trial_id", "Trial"], ["status", "Status"], [metric, metric, true], ["epoch", "Best epoch", true],
      ["epochs", "Epochs", true], ["time", "Time", true],
    ];
    const heads = [...columns, ...names.map((name) => [name, name, true])].map(([by, title, isNumber]) => {
      const order = this.sort.by === by && (this.sort.reverse ? "descending" : "ascending");
      const sort = () => {
        this.sort = { by, reverse: this.sort.by === by ? !this.sort.reverse : false };
        this.refresh();
      };
      return h("th", { class: isNumber && "number", "aria-sort": order }, h("button", { onclick: sort, title }, title));
    });
    const rows = this.rows.map((one, n) => h("tr", { class: one.trial_id === state.route.trial && "chosen" },
      h("td", {}, h("a", { href: hashOf(this.name, one.trial_id) }, one.trial_id)),
      h("td", {}, status(one.status, one.error ? `failed: ${one.error}` : one.status + uncounted(one))),
      h("td", { class: "number" }, one.epoch === null ? "" : measured(one[metric])),
      h("td", { class: "number" }, number(one.epoch)),
      h("td", { class: "number" }, one.epochs),
      h("td", { class: "number" }, duration(one.time)),
      names.map((name) => h("td", { class: "number cut" }, number(configs[n].get(name)))),
    ));
    this.table.replaceChildren(h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
    this.count.textContent = this.rows.length < this.total ? `${this.rows.length} of ${this.total}` : `${this.total}`;
    this.more.hidden = this.rows.length >= this.total;
    if (rows.length) performance.mark("trials");
  }
}

// ---------------------------------------------------------------- a trial

const drawer = {
  root: $("#drawer"),
  key: null,

  show() {
    const { name, trial } = state.route;
    const key = trial === null ? null : `${name}\n${trial}`;
    if (key === this.key) return;
    this.key = key;
    this.found = null;
    this.root.hidden = key === null;
    if (key === null) return this.root.replaceChildren();
    this.build();
    this.refresh();
  },

  build() {
    this.metric = null;
    this.head = h("div", { class: "head" });
    this.plot = new Plot({ title: "Reports", words: ({ at }) => `epoch ${at}` });
    this.plot.root.classList.remove("card");
    this.failure = h("div", { hidden: true });
    this.config = h("dl", { class: "values" });
    this.log = h("pre", { tabindex: "0" }, "…");
    this.root.replaceChildren(this.head, this.failure, this.plot.root, h("h2", {}, "Config"), this.config, h("h2", {}, "Log"), this.log);
    this.root.scrollTop = 0;
  },

  async refresh() {
    const key = this.key;
    const { name, trial } = state.route;
    if (key === null) return;
    try {
      const found = await get(pathOf(name, "trials", trial));
      const log = await (await ask(pathOf(name, "trials", found.trial_id, "log"))).text();
      if (key === this.key) this.draw(found, log);
    } catch (error) {
      if (key === this.key) this.root.replaceChildren(this.closing(), h("p", { class: "problem" }, error.message));
    }
  },

  closing() {
    const close = () => { location.hash = hashOf(state.route.name); };
    return h("button", { class: "plain close", onclick: close, "aria-label": "Close" }, "✕");
  },

  draw(found, log) {
    this.found = found;
    const metrics = [...new Set(found.reports.flatMap((report) => Object.keys(report)))].filter((name) => name !== "epoch");
    const usual = state.experiments.get(state.route.name)?.metric;
    const metric = this.metric ?? (metrics.includes(usual) ? usual : metrics[0]);
    const stop = button(STOP, state.open, found.trial_id);
    stop.hidden = found.status !== "running";
    this.head.replaceChildren(h("h1", {}, `Trial ${found.trial_id}`), status(found.status),
      h("span", { class: "faint" }, `${amount(found.epochs, "epoch")}, ${duration(found.time)}`),
      stop, this.closing());
    this.failure.hidden = !found.message;
    this.failure.replaceChildren(h("h2", {}, `Failure: ${found.error}`), h("pre", {}, found.message ?? ""));
    const points = found.reports.filter((report) => metric in report).map((report) => [report.epoch, report[metric]]);
    this.plot.show({ traces: [curve(points, null, { isBest: true })], said: metric ?? "" });
    this.plot.metrics(metrics, metric, (name) => { this.metric = name; this.draw(found, log); });
    this.config.replaceChildren(...flat(found.config).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, number(value))]));
    const isAtEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 20;
    this.log.textContent = clean(log) || "nothing was written";
    if (isAtEnd) this.log.scrollTop = this.log.scrollHeight;
  },
};

// ---------------------------------------------------------------- steering

function button(verb, open, value) {
  const asks = verb.is_end || (verb.field && value === undefined);
  const run = () => (asks ? question(verb, open, value) : steer(open, verb).catch((error) => toast(error.message, "failed")));
  const title = asks && value === undefined ? `${verb.title} …` : verb.title;
  return h("button", { class: verb.is_end && "danger", "data-verb": verb.name, onclick: run }, title);
}

// A dialog for a value, or for the end of something; it stays while the server refuses
function question(verb, open, value) {
  const isConfig = verb.field === "config";
  const input = verb.field && value === undefined &&
    h(isConfig ? "textarea" : "input", { "aria-label": verb.title, spellcheck: "false" });
  if (isConfig) input.value = JSON.stringify(open.shown?.best?.config ?? {}, null, 2);
  const wrong = h("p", { class: "wrong", role: "alert", hidden: true });
  const title = value === undefined ? verb.title : `${verb.title} trial ${value}`;
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() });
  const send = async (event) => {
    event.preventDefault();
    try {
      const text = input && input.value.trim();
      if (input) value = isConfig ? JSON.parse(text) : text === "none" ? null : text || null;
      await steer(open, verb, value);
      dialog.close();
    } catch (error) {
      wrong.textContent = clean(error.message);
      wrong.hidden = false;
    }
  };
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const agree = h("button", { class: verb.is_end ? "primary danger" : "primary", "data-agree": true }, verb.title);
  dialog.append(h("form", { onsubmit: send }, h("h2", {}, title),
    h("p", {}, `${verb.does[0].toUpperCase()}${verb.does.slice(1)}.`), input || "", wrong, h("div", { class: "buttons" }, cancel, agree)));
  document.body.append(dialog);
  dialog.showModal();
}

async function steer(open, verb, value) {
  const control = { verb: verb.name, ...(verb.field && { [verb.field]: value }) };
  await ask(pathOf(open.name, "control"), {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(control),
  });
  toast(`asked for: ${verb.name}`);
  open.refresh();
}

const setting = (value) => (value === null ? "none" : number(value));

function changeOf({ time, after_epochs, was, is }) {
  const made = Object.keys(is).map((key) => `${key} ${setting(was[key])} → ${setting(is[key])}`).join(", ");
  return time === null ? made : `${moment(time)}, after ${amount(after_epochs, "epoch")}: ${made}`;
}

function requestLine({ text, by, time, refused }) {
  const what = by ? `${text}, asked by ${by}` : text;
  if (!time) return h("li", { class: "waiting" }, `${what}: the driver has not answered yet`);
  return h("li", { class: refused && "refused" }, `${moment(time)}  ${what}${refused ? `; not done: ${refused}` : ""}`);
}

function toast(text, kind = "") {
  const shown = h("div", { class: `toast ${kind}` }, text);
  $("#toasts").append(shown);
  setTimeout(() => shown.remove(), kind ? 10000 : 5000);
}

// ---------------------------------------------------------------- where one is

const hashOf = (name, trial) =>
  `#/${encodeURIComponent(name.toWellFormed())}${trial === undefined ? "" : `/trials/${encodeURIComponent(trial)}`}`;

function route() {
  const [name, what, trial] = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  state.route = { name: name || null, trial: what === "trials" && trial ? trial : null, report: what === "report" };
  if (state.open?.name !== state.route.name) state.open = null;
  if (state.route.name !== null && !state.open) {
    state.open = new Open(state.route.name);
    state.open.refresh();
  }
  listen();
  draw();
}

function draw() {
  if (state.open) state.open.draw();
  else list.draw();
  drawer.show();
}

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.route.trial !== null && !$("dialog")) location.hash = hashOf(state.route.name);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) events?.close();
  else listen();
});
route();
