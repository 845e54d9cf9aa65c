// The page of `tuner serve`: where one is, and what is drawn there.

import { $, clean, toast } from "/elements.js";
import { Comparison } from "/comparison.js";
import { Experiment } from "/experiment.js";
import { List } from "/list.js";
import { NewSearch } from "/new_search.js";
import { hashOf, listen, rest } from "/server.js";
import { Trial } from "/trial.js";

// A part of a hash, which may be no valid encoding
const decoded = (part) => new URLSearchParams(`=${part.replace(/[+&]/g, encodeURIComponent)}`).get("");

const trial = new Trial($("#drawer"));
let view = new List(draw);
let at = read("");

function draw() {
  if (!view.root.isConnected) $("#main").replaceChildren(view.root);
  document.title = clean([view.title, "tuner"].filter(Boolean).join(" – "));
  view.draw?.(at);
}

// #/NAME, #/NAME/trials/ID, #/NAME/report; #new, #compare/NAME/NAME; else the list
function read(hash) {
  const [page, ...names] = hash.slice(1).split("/").map(decoded);
  const [name, what, id] = page ? [] : names;
  return {
    page, name: name || null, names: page ? names : [],
    trial: what === "trials" && id ? id : null, report: what === "report",
  };
}

function viewOf({ page, names, name }) {
  if (page === "new") return new NewSearch(names);
  if (page === "compare") return new Comparison(names);
  return name === null ? new List(draw) : new Experiment(name, draw, () => trial.refresh());
}

function route() {
  const before = at;
  at = read(location.hash);
  const placeOf = ({ page, name, names }) => JSON.stringify([page, name, names]);
  if (placeOf(before) !== placeOf(at)) view = viewOf(at);
  listen(at.name, (shown) => view.stands?.(shown), draw);
  draw();
  trial.show(view, at.trial);
}

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && at.trial !== null && !$("dialog")) location.hash = hashOf(at.name);
});
addEventListener("unhandledrejection", ({ reason }) => toast(reason.message, "failed"));
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : route()));
route();
