// Elements of the page, and numbers and times in words. What comes from an experiment reaches the
// page as text alone: every element is made by `h`, and nothing is ever parsed as HTML.

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

export function number(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const short = Number(value.toPrecision(4));
  const size = Math.abs(short);
  return size && (size < 1e-4 || size >= 1e6) ? short.toExponential() : String(short);
}

// A metric, with the zeros that keep a column aligned
export function measured(value) {
  const short = number(value);
  return typeof value === "number" && /^-?\d+\.\d+$/.test(short) ? value.toPrecision(4) : short;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const all = Math.round(Math.max(0, seconds));
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  const two = (n) => String(n).padStart(2, "0");
  if (hours) return `${hours}h ${two(minutes)}m`;
  return minutes ? `${minutes}m ${two(rest)}s` : `${rest}s`;
}

// As 2026-11-25 13:05, which is how Sweden writes it
const MOMENT = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short" });
export const moment = (time) => (time ? MOMENT.format(time * 1000) : "");

export function flat(config, before = "") {
  return Object.entries(config).flatMap(([name, value]) =>
    value && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${before}${name}.`)
      : [[before + name, value]],
  );
}
