// Elements of the page. What comes from an experiment reaches it as text alone: every element is
// made by `h` or copied from a template of index.html, and nothing is ever parsed as HTML.

// Characters that would move, hide or turn round what stands beside them
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const clean = (value) => String(value).replace(UNSEEN, "\ufffd");

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (isSaid(value)) element.setAttribute(name, value === true ? "" : clean(value));
  }
  for (const child of children.flat().filter(isSaid))
    element.append(child instanceof Node ? child : clean(child));
  return element;
}
const isSaid = (value) => (value ?? false) !== false;
export const $ = (selector) => document.querySelector(selector);

// A copy of a template, and its parts by their names
export function copy(id) {
  const root = $(`#${id}`).content.firstElementChild.cloneNode(true);
  const parts = [...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]);
  return { root, ...Object.fromEntries(parts) };
}

// Show a text, or hide its element
export function say(element, text = "") {
  element.textContent = clean(text);
  element.hidden = !text;
}

// Give an element these children. What is the same stays, and a click on it counts; the focus stays
export function fill(parent, ...children) {
  const controls = () => [...parent.querySelectorAll("a, button, input")];
  const focused = controls().indexOf(document.activeElement);
  const wanted = children.flat().filter(Boolean);
  for (const [n, child] of wanted.entries()) {
    const old = parent.childNodes[n];
    if (!old) parent.append(child);
    else if (old !== child && !old.isEqualNode(child)) old.replaceWith(child);
  }
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
  if (focused >= 0 && document.activeElement === document.body) controls()[focused]?.focus();
}

// The heads of a table. sort: the column that it is sorted by, and whether in `reverse`; change:
// called with another one
export const heads = (columns, sort, change) => columns.map(({ by, title, kind, isDown = false }) => {
  const isChosen = sort.by === by;
  const order = isChosen && (sort.reverse ? "descending" : "ascending");
  const choose = () => change({ by, reverse: isChosen ? !sort.reverse : isDown });
  return h("th", { class: kind, "aria-sort": order }, h("button", { onclick: choose, title }, title));
});

export const status = (name, word = name) => h("span", { class: `status ${name}` }, word);

// A table of texts, the head first. compares: rows whose values differ are marked
function table([head, ...rows], compares) {
  const line = ([first, ...values]) =>
    h("tr", { class: compares && new Set(values).size > 1 && "differs" },
      h("th", { scope: "row" }, first), values.map((value) => h("td", {}, value)));
  const heads = head.map((title) => h("th", { scope: "col" }, title));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows.map(line))));
}

// A part of a view as the server describes it
export function section({ title, lines = [], rows, compares, pictures = [] }) {
  const picture = ({ url, text }) => h("figure", {}, h("img", { src: url, alt: "", loading: "lazy" }), h("figcaption", {}, text));
  return h("section", { class: "part" }, h("h2", {}, title), lines.map((text) => h("p", {}, text)),
    rows && table(rows, compares), pictures.length > 0 && h("div", { class: "pictures" }, pictures.map(picture)));
}

export function toast(text, kind = "") {
  const shown = h("div", { class: `toast ${kind}` }, clean(text));
  $("#toasts").append(shown);
  setTimeout(() => shown.remove(), kind ? 10000 : 5000);
}

// A dialog that asks first; it stays while the server refuses. act: called with what was typed
export function question({ title, text, action, input = null, isEnd = false }, act) {
  const { root: dialog, form, head, about, wrong, cancel, agree } = copy("question");
  head.textContent = clean(title);
  about.textContent = clean(text);
  agree.textContent = action;
  agree.classList.toggle("danger", isEnd);
  if (input) form.insertBefore(input, wrong);
  cancel.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  form.onsubmit = async (event) => {
    event.preventDefault();
    agree.disabled = true;
    try {
      await act(input?.value.trim());
      dialog.close();
    } catch (error) {
      say(wrong, error.message);
    }
    agree.disabled = false;
  };
  document.body.append(dialog);
  dialog.showModal();
}
