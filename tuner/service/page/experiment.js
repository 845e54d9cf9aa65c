// An experiment: its tiles, figures and trials, what was asked of it, and advice.

import { $, clean, copy, h, question, status, toast } from "/elements.js";
import { Gallery, allDrawn, plotly, spanOf } from "/figures.js";
import { Refused, ask, get, hashOf, pathOf, send, state } from "/server.js";
import { OF_SEARCH, TRY, button } from "/steering.js";

const ROWS = 100; // trials that are shown at a time
const TABS = { Progress: ["best", "stopping"], Hyperparameters: ["hyperparameters"] }; // sections
const LAST = ["history", "curves"]; // figures, after which the halves stand in pairs

export class Experiment {
  constructor(name, soon, refreshTrial) {
    Object.assign(this, { name, soon, refreshTrial }, copy("experiment"));
    this.shown = null; // as `show --json` has it, with its texts as `view`
    this.error = "";
    this.chosen = { where: "", status: "", top: "", limit: ROWS };
    this.brushed = new Map(); // axis -> its part of `where`
    this.sort = { by: null, reverse: false };
    this.metric = null; // of the curves; null: the objective's
    this.by = "trial"; // the axis of the best so far
    this.tab = "Progress";
    this.trials = { columns: [], rows: [], total: 0 };
    this.configs = new Map(); // the id of a trial -> its config in words
    this.gallery = new Gallery(this.plots, (name) => ({
      choose: (trial) => { location.hash = hashOf(this.name, trial); },
      describe: (trial) => this.describe(trial),
      brush: name === "parallel" ? (...span) => this.brush(...span) : null,
    }));
    this.verbs.append(...OF_SEARCH.map((verb) =>
      button(verb, this, verb === TRY ? { suggest: () => this.shown?.best?.config ?? {} } : {})));
    this.more.firstElementChild.onclick = () => this.choose({ limit: this.chosen.limit + ROWS });
    for (const name of ["where", "status", "top"])
      this[name].onchange = () => this.choose({ [name]: this[name].value.trim(), limit: ROWS });
    this.drawTabs();
    this.refresh();
  }

  show({ report }) {
    this.isReport = report;
  }

  stands(shown) {
    this.error = shown.error ?? "";
    if (!shown.error) this.shown = shown;
    this.refresh();
    this.soon();
  }

  drawTabs() {
    this.tabs.replaceChildren(...Object.keys(TABS).map((name) => {
      const open = () => { this.tab = name; this.drawTabs(); this.hurry(); };
      return h("button", { "aria-pressed": String(name === this.tab), onclick: open }, name);
    }));
  }

  // Other trials: a part of the settings of `chosen`
  choose(settings) {
    Object.assign(this.chosen, settings);
    this.where.value = this.chosen.where;
    this.hurry();
  }

  query(more) {
    const { where, status, top } = this.chosen;
    const parts = [where, status && `status == '${status}'`].filter(Boolean);
    const query = new URLSearchParams(more);
    if (parts.length) query.set("where", parts.length > 1 ? `(${parts[0]}) and ${parts[1]}` : parts[0]);
    if (top) query.set("top", top);
    return query;
  }

  // A span of an axis becomes a part of the filter
  brush(axis, from, to) {
    const part = spanOf(axis, from, to);
    const others = this.chosen.where.split(" and ").filter((text) => text && text !== this.brushed.get(axis.name));
    this.brushed.set(axis.name, part);
    this.choose({ where: [...others, part].filter(Boolean).join(" and "), limit: ROWS });
  }

  // Ask again for what has changed: one round at a time, at most one a second
  async refresh() {
    this.isStale = true;
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.isStale && (this.root.isConnected || !this.isDrawn)) {
      this.isStale = false;
      const asked = [this.askChosen(), this.askControls(), this.refreshTrial()];
      const failed = (await Promise.allSettled(asked)).find(({ reason }) => reason);
      if (failed) this.error = failed.reason.message;
      this.soon();
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
    const query = this.query({ limit: this.chosen.limit });
    if (this.sort.by) query.set("sort", this.sort.by);
    if (this.sort.reverse) query.set("reverse", "1");
    this.trials = await get(`${pathOf(this.name, "table")}?${query}`);
    this.drawTrials();
  }

  async askFigures() {
    const { tab } = this;
    const query = this.query({ by: this.by });
    for (const name of TABS[tab]) query.append("section", name);
    if (this.metric !== null) query.set("metric", this.metric);
    const { figures, metric, metrics } = await get(`${pathOf(this.name, "figures")}?${query}`);
    if (tab !== this.tab) return;
    figures.sort((a, b) => LAST.includes(b.name) - LAST.includes(a.name));
    this.gallery.show(figures);
    this.gallery.offer("history", "Axis of the best so far", ["trial", "epochs", "time"], this.by, (by) => { this.by = by; this.hurry(); });
    this.gallery.offer("curves", "Metric of the curves", metrics, this.metric ?? metric, (name) => { this.metric = name; this.hurry(); });
  }

  // The config of a trial in words
  async describe(trial) {
    if (!this.configs.has(trial))
      this.configs.set(trial, await (await ask(pathOf(this.name, "trials", trial, "config"))).text());
    return this.configs.get(trial);
  }

  async askControls() {
    const requests = await get(pathOf(this.name, "control"));
    const line = ({ time, refused, line }) => h("li", { class: time ? refused && "refused" : "waiting" }, line);
    this.requested.replaceChildren(...requests.slice(-6).reverse().map(line));
  }

  // Of a search that has ended, once, and last: it takes seconds of many trials
  async askAdvice() {
    if (this.isAdvised || !this.shown || this.shown.status === "running") return;
    this.isAdvised = true;
    await allDrawn();
    const { findings } = await get(pathOf(this.name, "advice")).catch(() => ({ findings: [] }));
    this.advice.hidden = !findings.length;
    this.findings.replaceChildren(...findings.map(({ severity, evidence, action }) =>
      h("li", {}, `${severity}: ${evidence.seen} ${evidence.meaning} `, h("code", {}, action.command),
        action.command.startsWith("tuner run ") && this.queueing(action.command))));
  }

  // A button that adds the search of a finding's command to the queue
  queueing(command) {
    const text = `The queue gets the search of: ${command}. It runs as soon as \`tuner queue run\` has room.`;
    const add = async () => {
      const { name } = await send(pathOf(this.name, "advice"), { command });
      toast(`${name} is in the queue`);
    };
    const open = () => question({ title: "Add this search to the queue", text, action: "Add" }, add);
    return h("button", { onclick: open }, "Add to the queue …");
  }

  draw() {
    this.isDrawn = true;
    if (!this.root.isConnected) $("#main").replaceChildren(this.root);
    document.title = clean(`${this.name} – tuner`);
    const one = state.experiments.get(this.name);
    const view = this.shown?.view;
    const now = this.shown?.status ?? one?.status;
    const isUnreadable = !this.shown && Boolean(this.error);
    this.problem.hidden = !this.error;
    this.problem.textContent = clean(this.error);
    const report = h("a", { href: this.isReport ? hashOf(this.name) : `${hashOf(this.name)}/report` }, this.isReport ? "Back to the trials" : "Report");
    this.head.replaceChildren(
      h("h1", {}, this.name),
      now ? status(now, view?.standing ?? one?.words.standing) : "",
      ...(one?.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: "space" }),
      isUnreadable ? "" : report,
      one?.note ? h("span", { class: "noted" }, one.note) : "",
    );
    if (view) this.where.placeholder = clean(view.example);
    this.drawSteering(now !== "running");
    this.changes.hidden = !view?.changes.length;
    this.changed.replaceChildren(...(view?.changes ?? []).map((line) => h("li", {}, line)));
    if (view) this.drawTiles(view);
    this.body.hidden = this.isReport || isUnreadable;
    this.drawReport();
  }

  drawSteering(isOver) {
    this.steer.hidden = isOver && !this.requested.children.length;
    this.steer.firstElementChild.textContent = isOver ? "Asked while it ran" : "Steer";
    for (const verb of this.verbs.children) {
      verb.classList.toggle("over", isOver);
      if (verb.dataset.verb === "pause") verb.hidden = Boolean(this.shown?.paused);
      if (verb.dataset.verb === "go-on") verb.hidden = !this.shown?.paused;
    }
  }

  drawTiles({ tiles, best }) {
    this.tiles.replaceChildren(...tiles.map(([label, value, note], n) => h("div", { class: "card tile" },
      h("span", {}, label), h("b", {}, value),
      best !== null && n === 0 ? h("a", { href: hashOf(this.name, best) }, note) : h("span", {}, note))));
  }

  // It takes seconds to be made
  drawReport() {
    this.frame.hidden = !this.isReport;
    if (!this.isReport) return this.frame.replaceChildren();
    if (this.frame.children.length) return;
    const wait = h("p", { class: "empty" }, "Making the report …");
    const attributes = { class: "report making", title: "Report", sandbox: "allow-scripts", src: pathOf(this.name, "report") };
    const show = (event) => { wait.remove(); event.target.classList.remove("making"); };
    this.frame.append(wait, h("iframe", { ...attributes, onload: show }));
  }

  drawTrials() {
    const { columns, rows, total } = this.trials;
    const heads = columns.map(({ by, title, number }) => {
      const isChosen = this.sort.by === by;
      const sort = () => {
        this.sort = { by, reverse: isChosen && !this.sort.reverse };
        this.hurry();
      };
      const order = isChosen && (this.sort.reverse ? "descending" : "ascending");
      return h("th", { class: number && "number", "aria-sort": order }, h("button", { onclick: sort, title }, title));
    });
    const cell = (text, n) => h("td", { class: columns[n].number && "number cut" }, text);
    this.titles.replaceChildren(...heads);
    this.rows.replaceChildren(...rows.map(({ trial_id, status: name, cells: [id, words, ...others] }) =>
      h("tr", {}, h("td", {}, h("a", { href: hashOf(this.name, trial_id) }, id)), h("td", {}, status(name, words)),
        others.map((text, n) => cell(text, n + 2)))));
    this.count.textContent = rows.length < total ? `${rows.length} of ${total}` : `${total}`;
    this.more.hidden = rows.length >= total;
    if (rows.length) performance.mark("trials");
  }
}
