// A trial, in the drawer beside its experiment.

import { clean, copy, fill, h, section, status } from "/elements.js";
import { Gallery } from "/figures.js";
import { encode, get, getText, hashOf, pathOf } from "/server.js";
import { STOP, TRY, button } from "/steering.js";

export class Trial {
  constructor(drawer) {
    Object.assign(this, { drawer, id: null });
  }

  // open: the experiment. id: null for no trial
  show(open, id) {
    if (id === this.id && open === this.open) return;
    Object.assign(this, { open, id, metric: null });
    this.drawer.hidden = id === null;
    if (id === null) return;
    Object.assign(this, copy("trial"));
    this.close.onclick = () => { location.hash = hashOf(open.name); };
    this.gallery = new Gallery(this.plots);
    this.drawer.replaceChildren(this.root);
    this.drawer.scrollTop = 0;
    this.refresh();
  }

  async refresh() {
    const { id, open } = this;
    if (id === null) return;
    const turn = (this.turn = {}); // of this answer: an earlier one may come later
    try {
      const view = await get(pathOf(open.name, "trials", id, "view"), { metric: this.metric });
      const log = await getText(pathOf(open.name, "trials", view.trial_id, "log"));
      if (turn === this.turn) this.draw(view, log);
    } catch (error) {
      if (turn === this.turn) fill(this.failed, h("p", { class: "problem" }, error.message));
    }
  }

  draw(view, log) {
    const isOpen = this.open.shown?.status === "running";
    const copied = h("a", { href: `#new/${encode(this.open.name)}/${encode(view.trial_id)}` }, "Try a variation …");
    fill(this.head, h("h1", {}, `Trial ${view.trial_id}`), status(view.status), h("span", { class: "faint" }, view.line),
      view.status === "running" && button(STOP, this.open, { value: view.trial_id }),
      isOpen ? button(TRY, this.open, { title: "Try a variation", suggest: () => view.config }) : copied);
    fill(this.failed, view.failure.map(section));
    const choose = (metric) => { this.metric = metric; this.refresh(); };
    this.gallery.show(view.figures, { reports: ["Metric of the reports", view.metrics, view.metric, choose] });
    fill(this.sections, view.sections.map(section));
    const isAtEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 20;
    this.log.textContent = clean(log) || "nothing was written";
    if (isAtEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}
