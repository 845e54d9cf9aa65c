// What the page knows of the experiments: the server's answers, and the stream of what changes.

import { $, clean, copy } from "/elements.js";

export const state = {
  experiments: new Map(), // name -> as `ls --json` has it, with its texts as `words`
  to_read: 1,
  problem: "",
};

export const encode = (part) => encodeURIComponent(String(part).toWellFormed());
export const pathOf = (name, ...rest) => ["/api/experiments", ...[name, ...rest].map(encode)].join("/");
export const hashOf = (name, trial) => `#/${encode(name)}${trial === undefined ? "" : `/trials/${encode(trial)}`}`;

export async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Error(body.error ?? `the server answers ${answer.status}`);
}
// query: its settings; those that are empty are left out, and a list is a setting for each value
export async function get(path, query = {}) {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value || []].flat().map((one) => [name, one]));
  return (await ask(`${path}?${new URLSearchParams(pairs)}`)).json();
}
export const getText = async (path) => (await ask(path)).text();
export const send = async (path, body) =>
  (await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

let events, listeningTo;

// Follow all experiments, and how the one of this name stands. changed: called after each news
export function listen(name, stands, changed) {
  if (events && events.readyState !== EventSource.CLOSED && listeningTo === name) return;
  events?.close();
  listeningTo = name;
  events = new EventSource(`/api/events${name === null ? "" : `?experiment=${encode(name)}`}`);
  events.addEventListener("open", () => connected("live", "live"));
  events.addEventListener("error", () => {
    if (events.readyState !== EventSource.CLOSED) return connected("", "reconnecting");
    connected("lost", "no access");
    if (!state.experiments.size) $("#main").replaceChildren(copy("refused").root);
  });
  events.addEventListener("experiments", (event) => {
    learn(JSON.parse(event.data));
    changed();
  });
  events.addEventListener("experiment", (event) => stands(JSON.parse(event.data)));
}

export const rest = () => events?.close();

const connected = (kind, word) => Object.assign($("#link"), { className: `link ${kind}`, textContent: word });

function learn({ is_all, listed, gone, place, ...news }) {
  if (is_all) state.experiments.clear();
  for (const name of gone) state.experiments.delete(name);
  for (const one of listed) state.experiments.set(one.name, one);
  Object.assign(state, news);
  if (place) $("#place").textContent = clean(place);
}
