// Two experiments or more, side by side.

import { $, clean, copy, section } from "/elements.js";
import { Gallery } from "/figures.js";
import { get } from "/server.js";

export class Comparison {
  constructor(names) {
    Object.assign(this, { names }, copy("comparison"));
    this.gallery = new Gallery(this.plots);
    this.ask();
  }

  async ask() {
    try {
      const view = await get(`/api/compare?${new URLSearchParams(this.names.map((name) => ["name", name]))}`);
      this.headline.textContent = clean(view.headline);
      this.first.replaceChildren(...view.sections.slice(0, 1).map(section));
      this.gallery.show(view.figures);
      this.others.replaceChildren(...view.sections.slice(1).map(section));
    } catch (error) {
      this.headline.textContent = "";
      this.problem.textContent = clean(error.message);
      this.problem.hidden = false;
    }
  }

  draw() {
    if (!this.root.isConnected) $("#main").replaceChildren(this.root);
    document.title = "Comparison – tuner";
  }
}
