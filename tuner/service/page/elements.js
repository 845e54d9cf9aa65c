// Elements of the page. What comes from an experiment reaches it as text alone: every element is
// made by `h` or copied from a template of index.html, and nothing is ever parsed as HTML.

// Characters that would move, hide or turn round what stands beside them
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const clean = (value) => String(value).replace(UNSEEN, "\ufffd");

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : clean(value));
  }
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : clean(child));
  return element;
}
export const $ = (selector) => document.querySelector(selector);

// A copy of a template, and its parts by their names
export function copy(id) {
  const root = $(`#${id}`).content.firstElementChild.cloneNode(true);
  const parts = [...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]);
  return { root, ...Object.fromEntries(parts) };
}

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
  dialog.setAttribute("aria-label", clean(title));
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
      wrong.textContent = clean(error.message);
      wrong.hidden = false;
    }
    agree.disabled = false;
  };
  document.body.append(dialog);
  dialog.showModal();
}
