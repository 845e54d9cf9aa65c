// A new search: a spec that is checked as it is typed, and goes into the queue.

import { clean, copy, fill, h, section, toast } from "/elements.js";
import { get, getText, pathOf, send } from "/server.js";

const PAUSE_MS = 600; // after the last key

export class NewSearch {
  title = "New search";

  // of: nothing, or an experiment and a trial whose config it begins with
  constructor(of) {
    Object.assign(this, copy("new-search"));
    this.text.oninput = () => {
      clearTimeout(this.due);
      this.due = setTimeout(() => this.check(), PAUSE_MS);
    };
    this.add.onclick = () => this.queue();
    this.ask();
    if (of.length === 2) this.begin(...of);
  }

  async begin(name, trial) {
    this.write(await getText(pathOf(name, "trials", trial, "variation")));
  }

  async ask() {
    const { examples, sections } = await get("/api/start");
    const button = (name) => h("button", { onclick: () => this.write(name) }, name);
    fill(this.examples, examples.map(([name, about]) => h("li", {}, button(name), ` ${about}`)));
    fill(this.sections, sections.map(section));
  }

  write(text) {
    this.text.value = text;
    this.check();
    this.text.focus();
  }

  // The plan of what is typed, or its faults beside their lines; one check at a time
  async check() {
    if (!this.root.isConnected || this.isChecking) return;
    const text = this.text.value;
    this.add.disabled = true;
    this.lines.replaceChildren();
    this.state.textContent = text.trim() ? "Checking …" : "";
    if (!text.trim()) return this.plan.replaceChildren();
    this.isChecking = true;
    const { faults, plan } = await send("/api/plans", { text }).catch((error) => ({ faults: [{ line: null, text: error.message }], plan: "" }));
    this.isChecking = false;
    if (text !== this.text.value) return this.check(); // it has changed since
    this.state.textContent = faults.length ? "" : "It can run.";
    fill(this.lines, faults.map(({ line, text: reason }) =>
      h("li", {}, line !== null && h("button", { onclick: () => this.mark(line) }, `line ${line}`), ` ${reason}`)));
    this.plan.textContent = clean(plan);
    this.add.disabled = faults.length > 0;
  }

  // Select a line of the text
  mark(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1);
    this.text.focus();
    this.text.setSelectionRange(start, start + lines[line - 1].length);
  }

  async queue() {
    this.add.disabled = true;
    const { name } = await send("/api/queue", { text: this.text.value }).catch((error) => {
      this.add.disabled = false;
      throw error;
    });
    toast(`${name} is in the queue`);
    await this.ask();
  }
}
