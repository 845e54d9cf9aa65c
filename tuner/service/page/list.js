// The list of experiments.

import { $, clean, copy, h, status } from "/elements.js";
import { encode, hashOf, state } from "/server.js";

const STATUSES = ["running", "completed", "interrupted", "failed", "damaged"];
const MOST_COMPARED = 5;
const ended = ({ counts }) => counts.completed + counts.stopped + counts.failed;
const amount = ({ counts, total }) => Math.max(1, total ?? 0, Object.values(counts).reduce((sum, n) => sum + n, 0));
const COLUMNS = [
  { by: "name", title: "Name", of: (one) => one.name.toLowerCase() },
  { by: "status", title: "Status", of: (one) => STATUSES.indexOf(one.status) },
  { by: "progress", title: "Progress", of: (one) => ended(one) / amount(one) },
  { by: "best", title: "Best", of: (one) => one.best, isNumber: true },
  { by: "goal", title: "Goal", of: (one) => one.words.goal },
  { by: "time", title: "Time", of: (one) => one.searched_s, isNumber: true },
  { by: "strategy", title: "Strategy", of: (one) => one.strategy },
  { by: "started", title: "Started", of: (one) => one.started, isNumber: true },
];
// They stay as they are while other pages are shown
const chosen = { filter: "", status: "", sort: { by: "started", reverse: true }, compared: new Set() };

function bar(one) {
  const { completed, stopped, failed, running } = one.counts;
  const parts = [["", completed + stopped], ["failed", failed], ["running", running]].map(([kind, count]) => {
    const part = h("i", { class: kind });
    part.style.width = `${(100 * count) / amount(one)}%`;
    return part;
  });
  return h("span", { class: "progress" }, h("span", { class: "track" }, parts), h("span", {}, one.words.share));
}

const compare = (a, b) => Number(a > b) - Number(a < b);

function choose() {
  const words = chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (one) => [one.name, one.strategy, one.metric, one.note, one.words.standing, ...one.tags].join(" ").toLowerCase();
  const { of } = COLUMNS.find(({ by }) => by === chosen.sort.by);
  const sign = chosen.sort.reverse ? -1 : 1;
  return [...state.experiments.values()]
    .filter((one) => (!chosen.status || one.status === chosen.status) && words.every((word) => text(one).includes(word)))
    .map((one) => [of(one), one])
    .sort(([a, x], [b, y]) => (a === null) - (b === null) || sign * compare(a, b) || compare(x.name, y.name))
    .map(([, one]) => one);
}

export class List {
  constructor(soon) {
    this.soon = soon;
    this.rows = new Map(); // name -> [what it shows, its row]
    Object.assign(this, copy("list"));
    this.filter.value = chosen.filter;
    this.filter.oninput = () => this.change({ filter: this.filter.value });
    this.compare.onclick = () => {
      if (chosen.compared.size > 1) location.hash = ["#compare", ...[...chosen.compared].map(encode)].join("/");
    };
  }

  change(settings) {
    Object.assign(chosen, settings);
    this.soon();
  }

  draw() {
    if (!this.root.isConnected) $("#main").replaceChildren(this.root);
    document.title = "tuner";
    this.problem.hidden = !state.problem;
    this.problem.textContent = clean(state.problem);
    this.drawChips();
    this.drawCompare();
    this.head.replaceChildren(h("th", {}, h("span", { class: "unseen" }, "Compare")), ...COLUMNS.map((column) => this.title(column)));
    const shown = choose();
    const rows = shown.map((one) => this.rowOf(one));
    if (rows.length !== this.body.children.length || rows.some((row, n) => this.body.children[n] !== row))
      this.body.replaceChildren(...rows);
    this.card.hidden = !shown.length;
    this.note.hidden = shown.length > 0;
    const isEmpty = !state.toRead && !state.experiments.size;
    this.start.hidden = !isEmpty;
    this.note.firstChild.data = state.toRead ? "Reading the experiments …" : isEmpty ? "No experiments yet." : "No experiment matches.";
    if (shown.length && !this.isMarked) performance.mark("list");
    this.isMarked ||= shown.length > 0;
  }

  rowOf(one) {
    const known = this.rows.get(one.name);
    if (known?.[0] === one) return known[1];
    const { words } = one;
    const note = one.problem ?? one.note;
    const mark = h("input", {
      type: "checkbox", "aria-label": `Compare ${one.name}`, checked: chosen.compared.has(one.name),
      onchange: (event) => {
        chosen.compared[event.target.checked ? "add" : "delete"](one.name);
        this.soon();
      },
    });
    const row = h("tr", {},
      h("td", { class: "mark" }, mark),
      h("td", {}, h("a", { class: "name", href: hashOf(one.name) }, one.name), one.tags.map((tag) => h("span", { class: "tag" }, tag)),
        note && h("span", { class: "note" }, note)),
      h("td", {}, status(one.status, words.standing)),
      h("td", {}, bar(one)),
      h("td", { class: "number" }, words.best),
      h("td", { class: "faint cut" }, words.goal),
      h("td", { class: "number" }, words.time),
      h("td", {}, one.strategy),
      h("td", { class: "number" }, words.started),
    );
    this.rows.set(one.name, [one, row]);
    return row;
  }

  title({ by, title, isNumber }) {
    const order = chosen.sort.reverse ? "descending" : "ascending";
    const isChosen = chosen.sort.by === by;
    const sort = () => this.change({ sort: { by, reverse: isChosen ? !chosen.sort.reverse : Boolean(isNumber) } });
    return h("th", { class: by === "goal" ? "beside" : isNumber && "number", "aria-sort": isChosen && order },
      h("button", { onclick: sort }, title));
  }

  drawChips() {
    const all = [...state.experiments.values()];
    const chips = ["", ...STATUSES].flatMap((name) => {
      const count = all.filter((one) => !name || one.status === name).length;
      if (name && !count && name !== chosen.status) return [];
      return h("button", { "aria-pressed": String(chosen.status === name), onclick: () => this.change({ status: name }) },
        name || "all", h("small", {}, count));
    });
    this.chips.replaceChildren(...chips);
  }

  drawCompare() {
    for (const name of chosen.compared) if (!state.experiments.has(name) && !state.toRead) chosen.compared.delete(name);
    const { size } = chosen.compared;
    this.compare.disabled = size < 2 || size > MOST_COMPARED;
    this.compare.textContent = this.compare.disabled ? `Compare: mark 2 to ${MOST_COMPARED}` : `Compare ${size}`;
  }
}
