// Two experiments or more, side by side.

import { copy, fill, say, section } from "/elements.js";
import { Gallery } from "/figures.js";
import { get } from "/server.js";

export class Comparison {
  title = "Comparison";

  constructor(names) {
    Object.assign(this, copy("comparison"));
    this.gallery = new Gallery(this.plots);
    this.ask(names);
  }

  async ask(names) {
    try {
      const { headline, figures, sections } = await get("/api/compare", { name: names });
      say(this.headline, headline);
      fill(this.first, section(sections[0]));
      this.gallery.show(figures);
      fill(this.others, sections.slice(1).map(section));
    } catch (error) {
      say(this.headline, "");
      say(this.problem, error.message);
    }
  }
}
