// An experiment: its tiles, figures, trials, controls and advice.

import { clean, copy, fill, h, heads, question, say, status, toast } from "/elements.js";
import { Gallery, allDrawn, plotly } from "/figures.js";
import { get, getText, hashOf, pathOf, send, state } from "/server.js";
import { OF_SEARCH, TRY, button } from "/steering.js";

const ROWS = 100; // trials that are shown at a time
const ADVICE_MS = 30_000; // between two requests for it

export class Experiment {
  constructor(name, redraw, refreshTrial) {
    // shown: as `show --json` has it, with its texts as `view`
    Object.assign(this, { name, redraw, refreshTrial, title: name, shown: null, error: "" }, copy("experiment"));
    this.chosen = {
      where: "", status: "", top: "", limit: ROWS, sort: {},
      sections: "best stopping", // of figures
      by: "trial", // the axis of the best so far
      metric: null, // of the curves; null: the objective's
    };
    this.gallery = new Gallery(this.plots, (name) => ({
      choose: (trial) => { location.hash = hashOf(this.name, trial); },
      describe: (trial) => getText(pathOf(this.name, "trials", trial, "config")),
      brush: name === "parallel" ? (part, before) => this.brush(part, before) : null,
      has: (part) => part && this.chosen.where.includes(part),
    }));
    this.verbs.append(...OF_SEARCH.map((verb) =>
      button(verb, this, verb === TRY ? { suggest: () => this.shown?.best?.config ?? {} } : {})));
    this.more.firstElementChild.onclick = () => this.choose({ limit: this.chosen.limit + ROWS });
    for (const name of ["where", "status", "top"])
      this[name].onchange = () => this.choose({ [name]: this[name].value.trim(), limit: ROWS });
    for (const tab of this.tabs.children)
      tab.onclick = () => this.choose({ sections: tab.dataset.sections });
    this.refresh();
  }

  stands(shown) {
    this.error = shown.error ?? "";
    if (!shown.error) this.shown = shown;
    this.refresh();
    this.redraw();
  }

  // Other trials or figures, at once: a part of the settings of `chosen`
  choose(settings) {
    Object.assign(this.chosen, settings);
    this.where.value = this.chosen.where;
    for (const tab of this.tabs.children) tab.ariaPressed = String(tab.dataset.sections === this.chosen.sections);
    this.refresh();
    this.wake?.();
  }

  query(more) {
    const { where, status, top } = this.chosen;
    const both = [where && `(${where})`, `status == '${status}'`].filter(Boolean).join(" and ");
    return { where: status ? both : where, top, ...more };
  }

  // A span of an axis becomes a part of the filter, in place of the one before
  brush(part, before) {
    const others = this.chosen.where.split(" and ").filter((text) => text !== before).join(" and ");
    const isLoose = others.replace(/\([^()]*\)/g, "").includes(" or "); // binds less than `and`
    this.choose({ where: [isLoose && part ? `(${others})` : others, part].filter(Boolean).join(" and "), limit: ROWS });
  }

  // Ask again for what has changed: one round at a time, at most one a second
  async refresh() {
    this.isStale = true;
    if (this.isAsking) return;
    this.isAsking = true;
    do {
      this.isStale = false;
      const answers = [this.askChosen(), this.askControls(), this.refreshTrial()];
      const [chosen, controls] = await Promise.allSettled(answers);
      say(this.wrong, chosen.reason?.message);
      if (controls.reason) this.error = controls.reason.message;
      this.redraw();
      this.askAdvice();
      await new Promise((done) => { this.wake = done; setTimeout(done, 1000); });
    } while (this.isStale && this.root.isConnected);
    this.isAsking = false;
  }

  // The table first, and then the figures of the same trials
  async askChosen() {
    const { limit, sort } = this.chosen;
    const query = this.query({ limit, sort: sort.by, reverse: sort.reverse });
    this.drawTrials(await get(pathOf(this.name, "table"), query));
    plotly();
    await this.askFigures();
  }

  async askFigures() {
    const { sections, by, metric } = this.chosen;
    const query = this.query({ section: sections.split(" "), by, metric });
    const view = await get(pathOf(this.name, "figures"), query);
    if (sections !== this.chosen.sections) return;
    this.gallery.show(view.figures, {
      history: ["Axis of the best so far", ["trial", "epochs", "time"], by, (name) => this.choose({ by: name })],
      curves: ["Metric of the curves", view.metrics, metric ?? view.metric, (name) => this.choose({ metric: name })],
    });
  }

  async askControls() {
    const requests = await get(pathOf(this.name, "control"));
    const line = ({ time, refused, line }) => h("li", { class: time ? refused && "refused" : "waiting" }, line);
    fill(this.requested, requests.slice(-6).reverse().map(line));
  }

  // Last, for it takes seconds of many trials; of a search that has ended, once
  async askAdvice() {
    const now = this.shown?.status;
    if (!now || (now === this.advised && Date.now() < this.due)) return;
    Object.assign(this, { advised: now, due: now === "running" ? Date.now() + ADVICE_MS : Infinity });
    await allDrawn();
    if (!this.root.isConnected) return;
    const findings = await get(pathOf(this.name, "findings")).catch(() => []);
    fill(this.findings, findings.map(({ line, command, offer }) =>
      h("li", {}, `${line} `, h("code", {}, command), 
        offer && h("button", { onclick: () => this.follow(command, offer) }, `${offer.title} …`))));
  }

  follow(command, { title, text }) {
    question({ title, text, action: "Do it" }, async () => toast((await send(pathOf(this.name, "advice"), { command })).done));
  }

  draw({ report: isReport }) {
    const one = state.experiments.get(this.name);
    const now = this.shown?.status ?? one?.status;
    const isUnreadable = !this.shown && Boolean(this.error);
    say(this.problem, this.error);
    fill(this.head,
      h("h1", {}, this.name),
      now && status(now, this.shown?.view.standing ?? one?.words.standing),
      one?.tags.map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: "space" }),
      !isUnreadable && h("a", { href: `${hashOf(this.name)}${isReport ? "" : "/report"}` }, isReport ? "Back to the trials" : "Report"),
      one?.note && h("span", { class: "noted" }, one.note),
    );
    this.steer.classList.toggle("over", now !== "running");
    this.steer.classList.toggle("paused", Boolean(this.shown?.paused));
    if (this.shown) this.drawView(this.shown.view);
    this.body.hidden = isReport || isUnreadable;
    if (!isReport) this.frame.replaceChildren();
    else if (!this.frame.children.length) this.drawReport();
  }

  drawView({ tiles, best, changes, example }) {
    this.where.placeholder = clean(example);
    fill(this.changed, changes.map((line) => h("li", {}, line)));
    fill(this.tiles, tiles.map(([label, value, note], n) => h("div", { class: "card tile" },
      h("span", {}, label), h("b", {}, value),
      best !== null && n === 0 ? h("a", { href: hashOf(this.name, best) }, note) : h("span", {}, note))));
  }

  // It takes seconds to be made
  drawReport() {
    const { root, report } = copy("report");
    report.src = pathOf(this.name, "report");
    report.onload = () => root.classList.remove("making");
    this.frame.append(root);
  }

  drawTrials({ columns, rows, total }) {
    fill(this.titles, heads(columns, this.chosen.sort, (sort) => this.choose({ sort })));
    fill(this.rows, rows.map(({ trial_id, status: name, cells: [id, words, ...others] }) =>
      h("tr", {}, h("td", {}, h("a", { href: hashOf(this.name, trial_id) }, id)), h("td", {}, status(name, words)),
        others.map((text) => h("td", { class: "number cut" }, text)))));
    this.count.textContent = rows.length < total ? `${rows.length} of ${total}` : `${total}`;
    this.more.hidden = rows.length >= total;
    if (rows.length) performance.mark("trials");
  }
}
