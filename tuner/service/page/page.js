// The page of `tuner serve`.

import { $, clean, duration, flat, h, measured, moment, number } from "/elements.js";
import { Figure, allDrawn, plotly, spanOf } from "/figures.js";
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

// ---------------------------------------------------------------- words

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

// ---------------------------------------------------------------- an experiment

const ENDS = ["running", "completed", "stopped", "failed", "interrupted"];
const TABS = { Progress: ["best", "stopping"], Hyperparameters: ["hyperparameters"] }; // sections

class Open {
  constructor(name) {
    this.name = name;
    this.shown = null;
    this.error = "";
    this.rows = [];
    this.total = 0;
    this.limit = ROWS;
    this.where = "";
    this.status = "";
    this.top = "";
    this.brushed = new Map(); // axis -> its part of `where`
    this.sort = { by: null, reverse: false };
    this.metric = null; // of the curves; null: the objective's
    this.by = "trial"; // the axis of the best so far
    this.tab = "Progress";
    this.figures = new Map(); // name -> Figure
    this.configs = new Map(); // the id of a trial -> its config in words
    this.build();
  }

  build() {
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
    this.wrong = h("span", { class: "wrong", role: "alert", hidden: true });
    this.more = h("div", { class: "more", hidden: true },
      h("button", { onclick: () => { this.limit += ROWS; this.hurry(); } }, "Show more"));
    this.condition = h("input", {
      type: "search", id: "where", "aria-label": "Trials for which this holds",
      onchange: (event) => this.choose({ where: event.target.value.trim() }),
    });
    const one = (name, label, options) =>
      h("select", { id: name, "aria-label": label, onchange: (event) => this.choose({ [name]: event.target.value }) },
        options.map(([value, text]) => h("option", { value }, text)));
    const filter = h("section", { class: "card section filter", role: "search", "aria-label": "Trials that are shown" },
      this.condition, one("status", "Status", [["", "any status"], ...ENDS.map((name) => [name, name])]),
      one("top", "How many", [["", "all trials"], ...[10, 50, 200].map((n) => [n, `best ${n}`])]), this.count, this.wrong);
    this.tabs = h("div", { class: "chips", role: "group", "aria-label": "Figures" });
    this.plots = h("div", { class: "plots" }, h("p", { class: "empty" }, LOADING));
    const trials = h("section", { class: "card trials" },
      h("div", { class: "section" }, h("h2", {}, "Trials")), h("div", { class: "scroll" }, this.table), this.more);
    this.body = h("div", {}, this.steer, this.changes, this.tiles, filter, h("div", { class: "tools" }, this.tabs), this.plots, this.advice, trials);
    this.frame = h("div", { class: "frame", hidden: true });
    this.root = h("div", {}, h("a", { class: "back", href: "#/" }, "← Experiments"), this.head, this.problem, this.body, this.frame);
    this.drawTabs();
  }

  drawTabs() {
    this.tabs.replaceChildren(...Object.keys(TABS).map((name) =>
      h("button", { "aria-pressed": String(name === this.tab), onclick: () => { this.tab = name; this.drawTabs(); this.hurry(); } }, name)));
  }

  // Other trials: a part of the settings `where`, `status`, `top`
  choose(settings) {
    Object.assign(this, settings, { limit: ROWS });
    this.condition.value = this.where;
    this.hurry();
  }

  chosen() {
    const parts = [this.where, this.status && `status == '${this.status}'`].filter(Boolean);
    const query = new URLSearchParams();
    if (parts.length) query.set("where", parts.length > 1 ? `(${parts[0]}) and ${parts[1]}` : parts[0]);
    if (this.top) query.set("top", this.top);
    return query;
  }

  // A span of an axis becomes a part of the filter
  brush(axis, from, to) {
    const part = spanOf(axis, from, to);
    const others = this.where.split(" and ").filter((text) => text && text !== this.brushed.get(axis.name));
    this.brushed.set(axis.name, part);
    this.choose({ where: [...others, part].filter(Boolean).join(" and ") });
  }

  // Ask again for what has changed: one round at a time, at most one a second
  async refresh() {
    this.isStale = true;
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.isStale && state.open === this) {
      this.isStale = false;
      const asked = [this.askChosen(), this.askControls(), drawer.refresh()];
      const failed = (await Promise.allSettled(asked)).find(({ reason }) => reason);
      if (failed) this.error = failed.reason.message;
      soon();
      this.askAdvice();
      await new Promise((done) => { this.wake = done; setTimeout(done, 1000); });
    }
    this.isAsking = false;
  }

  // What a person has chosen is asked for at once
  hurry() {
    this.refresh();
    this.wake?.();
  }

  // The table first, and then the figures of the same trials
  async askChosen() {
    try {
      await this.askTrials();
      plotly();
      await this.askFigures();
      this.wrong.hidden = true;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.wrong.textContent = clean(error.message);
      this.wrong.hidden = false;
    }
  }

  async askTrials() {
    const query = this.chosen();
    query.set("limit", this.limit);
    if (this.sort.by) query.set("sort", this.sort.by);
    if (this.sort.reverse) query.set("reverse", "1");
    const answer = await ask(`${pathOf(this.name, "trials")}?${query}`);
    this.total = Number(answer.headers.get("X-Total-Count"));
    this.rows = await answer.json();
    this.drawTrials();
  }

  async askFigures() {
    const { tab } = this;
    const query = this.chosen();
    for (const section of TABS[tab]) query.append("section", section);
    query.set("by", this.by);
    if (this.metric !== null) query.set("metric", this.metric);
    const drawn = await get(`${pathOf(this.name, "figures")}?${query}`);
    if (tab !== this.tab) return;
    this.drawn = drawn;
    this.drawFigures();
  }

  drawFigures() {
    const { figures, metric, metrics } = this.drawn;
    const first = (name) => ["history", "curves"].indexOf(name) < 0;
    figures.sort((a, b) => first(a.name) - first(b.name));
    const cards = figures.map((figure) => this.cardOf(figure.name));
    const roots = cards.map((card) => card.root);
    if (roots.length !== this.plots.children.length || roots.some((root, n) => this.plots.children[n] !== root))
      this.plots.replaceChildren(...roots);
    figures.forEach((figure, n) => cards[n].show(figure));
    this.figures.get("history")?.options("Axis of the best so far", ["trial", "epochs", "time"], this.by, (by) => { this.by = by; this.hurry(); });
    this.figures.get("curves")?.options("Metric of the curves", metrics, this.metric ?? metric, (name) => { this.metric = name; this.hurry(); });
  }

  cardOf(name) {
    const choose = (trial) => { location.hash = hashOf(this.name, trial); };
    const describe = (trial) => this.describe(trial);
    const brush = name === "parallel" ? (...span) => this.brush(...span) : null;
    if (!this.figures.has(name)) this.figures.set(name, new Figure({ name, choose, describe, brush }));
    return this.figures.get(name);
  }

  // The config of a trial in words
  async describe(trial) {
    if (!this.configs.has(trial)) {
      const { config } = await get(pathOf(this.name, "trials", trial));
      this.configs.set(trial, flat(config).map(([name, value]) => `${name} ${number(value)}`).join(", "));
    }
    return this.configs.get(trial);
  }

  async askControls() {
    this.requests = await get(pathOf(this.name, "control"));
    this.drawControls();
  }

  // Of a search that has ended, once, and last: it takes seconds of many trials
  async askAdvice() {
    if (this.isAdvised || !this.shown || this.shown.status === "running") return;
    this.isAdvised = true;
    await allDrawn();
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
    const tests = Object.entries(test ?? {}).filter(([name, value]) => name.startsWith("test_") && typeof value === "number");
    return [mean, ...tests.map(([name, value]) => `${name} ${measured(value)}`)]
      .filter(Boolean)
      .map((text) => h("div", {}, text));
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
        this.hurry();
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
    this.plot = new Figure({ name: "reports" });
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
      const ids = new Set([found.trial_id, state.open?.shown?.best?.trial_id ?? found.trial_id]);
      const where = [...ids].map((id) => `trial_id == '${id}'`).join(" or ");
      const query = new URLSearchParams({ section: "stopping", where });
      if (this.metric !== null) query.set("metric", this.metric);
      const drawn = await get(`${pathOf(name, "figures")}?${query}`);
      if (key === this.key) this.draw(found, log, drawn);
    } catch (error) {
      if (key === this.key) this.root.replaceChildren(this.closing(), h("p", { class: "problem" }, error.message));
    }
  },

  closing() {
    const close = () => { location.hash = hashOf(state.route.name); };
    return h("button", { class: "plain close", onclick: close, "aria-label": "Close" }, "✕");
  },

  draw(found, log, drawn) {
    this.found = found;
    const stop = button(STOP, state.open, found.trial_id);
    stop.hidden = found.status !== "running";
    this.head.replaceChildren(h("h1", {}, `Trial ${found.trial_id}`), status(found.status),
      h("span", { class: "faint" }, `${amount(found.epochs, "epoch")}, ${duration(found.time)}`),
      stop, this.closing());
    this.failure.hidden = !found.message;
    this.failure.replaceChildren(h("h2", {}, `Failure: ${found.error}`), h("pre", {}, found.message ?? ""));
    const [curves] = drawn.figures;
    this.plot.show({ ...curves, title: "Reports", caption: curves.plot ? "" : curves.caption });
    this.plot.options("Metric of the reports", drawn.metrics, this.metric ?? drawn.metric, (name) => { this.metric = name; this.refresh(); });
    const ofBest = new Map(flat(state.open?.shown?.best?.config ?? {}));
    this.config.replaceChildren(...flat(found.config).flatMap(([name, value]) => {
      const best = number(ofBest.get(name));
      const differs = best && best !== number(value);
      return [h("dt", {}, name), h("dd", {}, number(value), differs && h("span", { class: "best" }, `best ${best}`))];
    }));
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
