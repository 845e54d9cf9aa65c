// A trial, in the drawer beside its experiment.

import { clean, copy, h, section, status } from "/elements.js";
import { Gallery } from "/figures.js";
import { ask, encode, get, hashOf, pathOf } from "/server.js";
import { STOP, TRY, button } from "/steering.js";

export class Trial {
  constructor(drawer) {
    this.drawer = drawer;
    this.id = null;
  }

  // open: the experiment. id: null for no trial
  show(open, id) {
    if (id === this.id && open === this.open) return;
    Object.assign(this, { open, id, metric: null });
    this.drawer.hidden = id === null;
    this.drawer.replaceChildren();
    if (id === null) return;
    Object.assign(this, copy("trial"));
    this.close.onclick = () => { location.hash = hashOf(open.name); };
    this.gallery = new Gallery(this.plots);
    this.drawer.append(this.root);
    this.drawer.scrollTop = 0;
    this.refresh();
  }

  async refresh() {
    const { id, open, root } = this;
    if (id === null) return;
    try {
      const query = this.metric === null ? "" : `?${new URLSearchParams({ metric: this.metric })}`;
      const view = await get(`${pathOf(open.name, "trials", id, "view")}${query}`);
      const log = await (await ask(pathOf(open.name, "trials", view.trial_id, "log"))).text();
      if (root === this.root) this.draw(view, log);
    } catch (error) {
      if (root === this.root) this.failed.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  }

  draw(view, log) {
    const isRunning = view.status === "running";
    const isOpen = this.open.shown?.status === "running";
    const copied = h("a", { href: `#new/${encode(this.open.name)}/${encode(view.trial_id)}` }, "Try a variation …");
    this.head.replaceChildren(h("h1", {}, `Trial ${view.trial_id}`), status(view.status), h("span", { class: "faint" }, view.line),
      isRunning ? button(STOP, this.open, { value: view.trial_id }) : "",
      isOpen ? button(TRY, this.open, { title: "Try a variation", suggest: () => view.config }) : copied);
    this.failed.replaceChildren(...view.failure.map((part) => section(part)));
    this.gallery.show(view.figures);
    this.gallery.offer("reports", "Metric of the reports", view.metrics, view.metric, (name) => { this.metric = name; this.refresh(); });
    const sections = JSON.stringify(view.sections); // pictures stay while nothing changes
    if (sections !== this.drawn) this.sections.replaceChildren(...view.sections.map(section));
    this.drawn = sections;
    const isAtEnd = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 20;
    this.log.textContent = clean(log) || "nothing was written";
    if (isAtEnd) this.log.scrollTop = this.log.scrollHeight;
  }
}
