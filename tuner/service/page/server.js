// What the page knows of the experiments: the server's answers, and the stream of what changes.

import { $, clean, h } from "/elements.js";

export const state = {
  experiments: new Map(), // name -> as `ls --json` has it, with its texts as `words`
  toRead: 1,
  problem: "",
  isNew: true, // whether the stream has only begun
};
export class Refused extends Error {}

export const encode = (part) => encodeURIComponent(String(part).toWellFormed());
export const pathOf = (name, ...rest) => ["/api/experiments", ...[name, ...rest].map(encode)].join("/");
export const hashOf = (name, trial) => `#/${encode(name)}${trial === undefined ? "" : `/trials/${encode(trial)}`}`;

export async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(body.error ?? `the server answers ${answer.status}`);
}
export const get = async (path) => (await ask(path)).json();
export const send = async (path, body) =>
  (await ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();

let events = null;
let listeningTo;

// Follow all experiments, and how the one of this name stands. changed: called after each news
export function listen(name, stands, changed) {
  if (events && events.readyState !== EventSource.CLOSED && listeningTo === name) return;
  events?.close();
  listeningTo = name;
  events = new EventSource(`/api/events${name === null ? "" : `?experiment=${encode(name)}`}`);
  events.addEventListener("open", () => {
    state.isNew = true;
    connected("live", "live");
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) refused();
    else connected("", "reconnecting");
  });
  events.addEventListener("experiments", (event) => {
    learn(JSON.parse(event.data));
    changed();
  });
  events.addEventListener("experiment", (event) => stands(JSON.parse(event.data)));
}

export const rest = () => events?.close();

function connected(kind, word) {
  const link = $("#link");
  link.className = `link ${kind}`;
  link.textContent = word;
}

function refused() {
  connected("lost", "no access");
  if (state.experiments.size) return;
  $("#main").replaceChildren(
    h("p", { class: "empty" }, h("b", {}, "This page needs the token of its server."),
      "Open the URL that `tuner serve` has printed, or start it again."),
  );
}

function learn({ listed, gone, to_read, problem, place }) {
  if (state.isNew) state.experiments.clear(); // the first of a stream has them all
  state.isNew = false;
  for (const name of gone) state.experiments.delete(name);
  for (const one of listed) state.experiments.set(one.name, one);
  state.toRead = to_read;
  state.problem = problem;
  if (place) $("#place").textContent = clean(place);
}
