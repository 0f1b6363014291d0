// What every page uses. Text from traces only ever becomes text nodes: nothing is parsed as HTML.
"use strict";

const annotator = {};

// Make an element: h("p.note", {title: "..."}, "text", child, null). Functions are event handlers.
annotator.h = function h(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const one of rest.flat(Infinity)) {
    if (one === null || one === undefined || one === false) continue;
    if (one instanceof Node) element.append(one);
    else if (typeof one === "object") annotator.set(element, one);
    else element.append(String(one));
  }
  return element;
};

annotator.set = function set(element, values) {
  for (const [name, value] of Object.entries(values)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
};

annotator.$ = (selector, within = document) => within.querySelector(selector);
annotator.all = (selector, within = document) => [...within.querySelectorAll(selector)];

// A name or id from a stranger on one line; what would reorder or hide text is shown as a mark.
annotator.HIDDEN = String.raw`\u007f-\u009f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}`;
const UNSEEN = new RegExp(String.raw`[\u0000-\u001f${annotator.HIDDEN}]`, "gu");
annotator.name = function name(text, limit = 200) {
  const line = String(text).replace(/[\t\n\r ]+/g, " ").replace(UNSEEN, "\ufffd");
  const letters = [...line];
  return letters.length > limit ? letters.slice(0, limit - 1).join("") + "…" : line;
};

// A longer text from a stranger: its lines are kept.
annotator.passage = function passage(text, limit = 500) {
  const letters = [...String(text).replaceAll("\r\n", "\n")];
  const shown = letters.slice(0, limit).join("").replace(UNSEEN, (one) => (one === "\n" || one === "\t" ? one : "\ufffd"));
  return letters.length > limit ? `${shown} … (${annotator.count(letters.length, "character")})` : shown;
};

annotator.count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// What a rubric says of a code.
annotator.clauses = function clauses(one) {
  const { h } = annotator;
  const text = (clause) => annotator.passage(clause, 20000); // all that a text of a rubric may have
  return [h("p", text(one.definition)), h("p", h("strong", "Evidence: "), text(one.evidence), one.wants && ` (quotes: ${one.wants})`),
    ...(one.not_ ?? one.not ? [h("p", h("strong", "Not: "), text(one.not_ ?? one.not))] : []),
    ...(one.example ? [h("details", { open: Boolean(one.wants) }, h("summary", "Example"), one.example.quotes.map((quote) => h("blockquote", text(quote))), h("p", text(one.example.why)))] : [])];
};

// A list with the first `most` items, and a button for the next.
annotator.page = function page(items, make, list, most) {
  let at = 0;
  const more = annotator.h("button", { type: "button", click: () => load().querySelector("a, button, input")?.focus() });
  function load() {
    const made = items.slice(at, at + most).map(make);
    list.append(...made);
    at += made.length;
    more.textContent = `Show ${Math.min(most, items.length - at)} more`;
    more.hidden = at >= items.length;
    return made[0];
  }
  load();
  return [list, more];
};

// Say something to those who hear the page, and show it for a moment.
annotator.say = function say(text, kind = "") {
  const place = annotator.$("#said");
  place.textContent = text;
  place.className = `toast ${kind}`;
  clearTimeout(annotator.say.timer);
  if (kind !== "error") annotator.say.timer = setTimeout(() => (place.className = "toast gone"), 2500);
};

// Whether keys are typed into a field, and so are no commands.
annotator.typing = (event) =>
  event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select") !== null;

annotator.ask = async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, { ...options, cache: "no-store" });
  } catch {
    throw new Error("The server does not answer. Is it still running? Nothing was lost that it had confirmed.");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.error || `The server says ${answer.status}.`);
  return value;
};

// Dark or light, as it was chosen before, else as the system has it. Returns what turns it.
annotator.turnTheme = (function theme() {
  const key = "annotator-theme";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem(key); } catch { return null; }
  };
  const apply = () => (root.dataset.theme = stored() || (dark.matches ? "dark" : "light"));
  apply();
  dark.addEventListener("change", apply);
  return () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem(key, next); } catch { /* a file may have no storage */ }
    root.dataset.theme = next;
  };
})();

// Keys shown in a dialog, by "?".
annotator.help = function help(rows) {
  const { h } = annotator;
  const list = h("dl.keys", rows.map(([key, what]) => [h("dt", key.split(" ").map((one) => h("kbd", one))), h("dd", what)]));
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", "Keys"), list,
    h("form", { method: "dialog" }, h("button", "Close")));
  document.body.append(dialog);
  return () => (dialog.open ? dialog.close() : dialog.showModal());
};

// The head of a page: light or dark, the keys, the link past it. Returns what opens the keys.
annotator.frame = function frame(rows) {
  const { $ } = annotator;
  const open = annotator.help(rows);
  $("#theme").addEventListener("click", annotator.turnTheme);
  $("#help").addEventListener("click", open);
  $(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names what is on the page, not a place on it
    $("#main").focus();
  });
  return open;
};
