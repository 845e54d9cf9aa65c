// The list of experiments.

import { copy, fill, h, heads, say, status } from "/elements.js";
import { encode, hashOf, state } from "/server.js";

const STATUSES = ["running", "completed", "interrupted", "failed", "damaged"];
const MOST_COMPARED = 5;
const ended = ({ counts }) => counts.completed + counts.stopped + counts.failed;
const amount = ({ counts, total }) => Math.max(1, total ?? 0, Object.values(counts).reduce((sum, n) => sum + n, 0));
// of: what is sorted; cell: what is shown, by default the word of this name
const COLUMNS = [
  { by: "name", title: "Name", of: (one) => one.name.toLowerCase(), cell: nameCell },
  { by: "status", title: "Status", of: (one) => STATUSES.indexOf(one.status), cell: (one) => status(one.status, one.words.standing) },
  { by: "progress", title: "Progress", of: (one) => ended(one) / amount(one), cell: progressCell },
  { by: "best", title: "Best", of: (one) => one.best, kind: "number", isDown: true },
  { by: "goal", title: "Goal", of: (one) => one.words.goal, kind: "beside cut" },
  { by: "time", title: "Time", of: (one) => one.searched_s, kind: "number", isDown: true },
  { by: "strategy", title: "Strategy", of: (one) => one.strategy, cell: (one) => one.strategy },
  { by: "started", title: "Started", of: (one) => one.started, kind: "number", isDown: true },
];
// They stay as they are while other pages are shown
const chosen = { filter: "", status: "", sort: { by: "started", reverse: true }, compared: new Set() };

function nameCell(one) {
  const note = one.problem ?? one.note;
  return [
    h("a", { class: "name", href: hashOf(one.name) }, one.name),
    ...one.tags.map((tag) => h("span", { class: "tag" }, tag)),
    note && h("span", { class: "note" }, note),
  ];
}

function progressCell(one) {
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
  constructor(redraw) {
    Object.assign(this, { redraw }, copy("list"));
    this.filter.value = chosen.filter;
    this.filter.oninput = () => this.change({ filter: this.filter.value });
  }

  change(settings) {
    Object.assign(chosen, settings);
    this.redraw();
  }

  draw() {
    say(this.problem, state.problem);
    this.drawChips();
    this.drawCompare();
    fill(this.head, h("th", {}, h("span", { class: "unseen" }, "Compare")),
      heads(COLUMNS, chosen.sort, (sort) => this.change({ sort })));
    const shown = choose();
    fill(this.body, shown.map((one) => this.rowOf(one)));
    const isEmpty = !state.to_read && !state.experiments.size;
    this.start.hidden = !isEmpty;
    this.note.firstChild.data = state.to_read ? "Reading the experiments …" : isEmpty ? "No experiments yet." : "No experiment matches.";
    if (shown.length) performance.mark("list");
  }

  rowOf(one) {
    const mark = h("input", {
      type: "checkbox", "aria-label": `Compare ${one.name}`, checked: chosen.compared.has(one.name),
      onchange: (event) => {
        chosen.compared[event.target.checked ? "add" : "delete"](one.name);
        event.target.toggleAttribute("checked"); // so that its row stays
        this.redraw();
      },
    });
    const cells = COLUMNS.map(({ by, kind, cell }) => h("td", { class: kind }, cell ? cell(one) : one.words[by]));
    return h("tr", {}, h("td", { class: "mark" }, mark), cells);
  }

  drawChips() {
    const all = [...state.experiments.values()];
    fill(this.chips, ["", ...STATUSES].map((name) => {
      const count = all.filter((one) => !name || one.status === name).length;
      const isChosen = name === chosen.status;
      const choose = () => this.change({ status: name });
      return (!name || count > 0 || isChosen) && h("button", { "aria-pressed": String(isChosen), onclick: choose }, name || "all", h("small", {}, count));
    }));
  }

  drawCompare() {
    const names = [...chosen.compared].filter((name) => state.experiments.has(name));
    this.compare.disabled = names.length < 2 || names.length > MOST_COMPARED;
    this.compare.textContent = this.compare.disabled ? `Compare: mark 2 to ${MOST_COMPARED}` : `Compare ${names.length}`;
    this.compare.onclick = () => { location.hash = ["#compare", ...names.map(encode)].join("/"); };
  }
}
