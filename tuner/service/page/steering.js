// The verbs of `tuner control` as buttons, each of which asks first if it ends something.

import { h, question, toast } from "/elements.js";
import { pathOf, send } from "/server.js";
import VERBS from "/verbs.js";

export const OF_SEARCH = VERBS.filter((verb) => verb.field !== "trial_id");
export const STOP = VERBS.find((verb) => verb.field === "trial_id");
export const TRY = VERBS.find((verb) => verb.field === "config");

// open: the experiment. value: what a trial gives to it, or undefined. suggest: called for a config
export function button(verb, open, { value, title = verb.title, suggest = () => ({}) } = {}) {
  const isTyped = verb.field && value === undefined;
  const isConfig = verb.field === "config";

  async function steer(given) {
    await send(pathOf(open.name, "control"), { verb: verb.name, ...(verb.field && { [verb.field]: given }) });
    toast(`asked for: ${verb.name}`);
    open.refresh();
  }
  function ask() {
    const input = isTyped ? h(isConfig ? "textarea" : "input", { "aria-label": verb.title, spellcheck: "false" }) : null;
    if (isTyped && isConfig) input.value = JSON.stringify(suggest(), null, 2);
    const typed = (text) => (isConfig ? JSON.parse(text) : text === "none" ? null : text || null);
    const about = `${verb.does[0].toUpperCase()}${verb.does.slice(1)}.`;
    question({ title: value === undefined ? title : `${title} trial ${value}`, text: about, action: verb.title, input, isEnd: verb.is_end },
      (text) => steer(input ? typed(text) : value));
  }
  const run = () => (verb.is_end || isTyped ? ask() : steer());
  return h("button", { class: verb.is_end && "danger", "data-verb": verb.name, onclick: run }, isTyped ? `${title} …` : title);
}
