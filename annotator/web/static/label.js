// The page to label with. Every change that makes a decision is saved at once; a quote is what is
// selected in the trace, with its offsets.
"use strict";

(function () {
  const { h, $, all, name } = annotator;
  let state; // what the server says: the rubric, who labels, the items
  let at = -1; // the item on the page
  let view = null;
  let item = null; // the trace, the saved decision, and in adjudication what two people said
  let draft = null; // what is being decided
  let active = null; // the code that evidence is added to
  let cursor = null; // the lines selected by keyboard: [anchor, end] among the units
  let saving = Promise.resolve();
  let seconds = 0;
  let shownSince = null;

  const blank = () => ({ none: false, skipped: false, codes: [], evidence: [], note: "", confidence: null });
  const decided = (one) => one.none || one.skipped || one.codes.length > 0;
  const many = () => state.rubric.choice === "many";
  const code = (id) => state.rubric.codes.find((one) => one.id === id);

  // ---- one item ----
  async function open(n) {
    await saving;
    if (n < 0 || n >= state.items.length) return annotator.say(n < 0 ? "This is the first trace." : "This is the last trace.");
    try {
      item = await annotator.ask(`api/item?n=${n}`);
    } catch (error) {
      return annotator.say(error.message, "error");
    }
    at = n;
    [draft, active, cursor, seconds, shownSince] = [draftOf(item.decision), null, null, item.decision?.seconds || 0, performance.now()];
    active = draft.codes[0] || null;
    location.replace(`#${at + 1}`);
    drawItem();
    return undefined;
  }

  function draftOf(one) {
    if (!one) return blank();
    const codes = [one.primary, ...one.secondary].filter(Boolean);
    return { none: !one.skipped && !codes.length, skipped: one.skipped, codes, evidence: [...one.evidence], note: one.note, confidence: one.confidence };
  }

  function drawItem() {
    const marks = new Map();
    for (const one of item.trace.messages) marks.set(`message:${one.n}`, []);
    for (const [id, list] of allMarks()) marks.set(id, list);
    view = annotator.showTrace(item.trace, marks, (agent, from) => annotator.ask(`api/steps?${new URLSearchParams({ n: at, agent, from })}`));
    $("#main").replaceChildren(
      h("header.title", h("div.near", h("button", { type: "button", "data-go": "previous", disabled: at === 0, click: () => open(at - 1) }, "Previous"),
        h("button", { type: "button", "data-go": "next", disabled: at === state.items.length - 1, click: () => open(at + 1) }, "Next"),
        h("span.legend", `${at + 1} of ${state.items.length}`)), h("h1", name(item.trace.id, 400)), item.error && h("p.warning", { role: "alert" }, name(item.error, 600))),
      h("div.labelling", h("div", strip(), tasks(), view.element), h("aside", { id: "panel", "aria-label": "Label" })));
    drawPanel();
    drawProgress();
    $("#main").dataset.item = at;
    scrollTo(0, 0);
  }

  function allMarks() {
    const found = new Map();
    const add = (span, key, tone, title) => {
      if (!span.source) return;
      if (!found.has(span.source)) found.set(span.source, []);
      found.get(span.source).push({ start: span.start, end: span.end, key, tone, title });
    };
    (item.others || []).forEach((one, n) => one.spans.forEach((span, k) => add(span, `other.${n}.${k}`, n ? "second" : "first", one.annotator)));
    draft.evidence.forEach((span, k) => add(span, `own.${k}`, "own", span.code || "evidence"));
    return found;
  }

  function remark() {
    const found = allMarks();
    for (const [id, before] of view.marks) {
      const now = found.get(id) || [];
      if (JSON.stringify(before) !== JSON.stringify(now)) annotator.remark(view, id, now);
    }
    for (const [id, now] of found) if (!view.marks.has(id)) annotator.remark(view, id, now);
  }

  const tasks = () => item.tasks.length > 0 && h("details", h("summary", "The tasks"), item.tasks.map((one) => [h("h3", name(one.agent, 60)), h("div.source", one.text)]));

  function strip() {
    return h("ol.items", { "aria-label": "Traces" }, state.items.map((one, n) => h("li", h(`button.${one.state}`, {
      type: "button", "aria-current": n === at ? "true" : null, "aria-label": `Trace ${n + 1}: ${one.state}`, title: `${n + 1}: ${name(one.id, 200)}, ${one.state}`, click: () => open(n),
    }))));
  }

  function drawProgress() {
    const done = state.items.filter((one) => one.state === "labelled").length;
    const skipped = state.items.filter((one) => one.state === "skipped").length;
    annotator.set($("#progress"), { max: Math.max(1, state.items.length), value: done });
    $("#count").textContent = `${done} of ${state.items.length} labelled${skipped ? `, ${skipped} skipped` : ""}`;
    all(".items button").forEach((button, n) => {
      button.className = state.items[n].state;
      button.setAttribute("aria-label", `Trace ${n + 1}: ${state.items[n].state}`);
    });
  }

  // ---- the panel ----
  function drawPanel() {
    const focused = document.activeElement?.dataset?.focus;
    const open = new Set(all("#panel details[open]").map((one) => one.dataset.of));
    const top = $("#panel").scrollTop;
    $("#panel").replaceChildren(...[
      item.others && two(),
      h("h2", state.rubric.title),
      h("details", { "data-of": "instructions", open: open.has("instructions") }, h("summary", "Instructions"), h("p.rationale", state.rubric.instructions)),
      h("ol.codes", state.rubric.codes.map((one, n) => shownCode(one, n, open)), h(`li${draft.none ? ".primary" : ""}`,
        h("button.pick", { type: "button", "data-focus": "none", "aria-pressed": String(draft.none), click: (event) => act(event, none) }, h("kbd", "0"), "none: no code applies"))),
      evidence(), note(), confidence(), actions(),
    ].filter(Boolean));
    $("#panel").scrollTop = top;
    if (focused) $(`#panel [data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  // What a click does; focus goes back to the page, so that keys are commands again.
  function act(event, what) {
    if (event.detail > 0) event.target.closest("button").blur();
    what();
  }

  const keyOf = (n) => (n < 9 ? String(n + 1) : n < 18 ? `⇧${n - 8}` : "");

  function shownCode(one, n, open) {
    const place = draft.codes.indexOf(one.id);
    const role = place < 0 ? "" : many() ? "chosen" : place === 0 ? "primary" : "secondary";
    return h(`li${role ? `.${role === "chosen" ? "primary" : role}` : ""}`,
      h("button.pick", { type: "button", "data-focus": `code-${one.id}`, "aria-pressed": String(place >= 0), click: (event) => act(event, () => pick(one.id)) },
        keyOf(n) && h("kbd", keyOf(n)), `${one.id === one.name ? "" : `${one.id}: `}${one.name}`, h("span.role", role)),
      role === "secondary" && h("button", { type: "button", "data-focus": `first-${one.id}`, click: (event) => act(event, () => makePrimary(one.id)) }, "Make primary"),
      h("p", one.definition),
      h("details", { "data-of": one.id, open: open.has(one.id) }, h("summary", "Evidence, near misses, example"),
        h("p", h("strong", "Evidence: "), one.evidence, ` (${annotator.count(one.quotes, "quote")} at least)`),
        one.not && h("p", h("strong", "Not: "), one.not),
        one.example && [one.example.quotes.map((text) => h("blockquote", text)), h("p", one.example.why)]));
  }

  function evidence() {
    const rows = draft.evidence.map((one, k) => h("li",
      h("button.quote", { type: "button", "data-focus": `quote-${k}`, click: () => annotator.reveal(view, `own.${k}`) },
        h("span.where", `${one.source ? name(one.source, 120) : "quoted without its place"}${one.code ? ` · ${one.code}` : ""}`), h("q", annotator.passage(one.quote, 300))),
      h("button", { type: "button", "aria-label": `Remove the quote ${k + 1}`, "data-focus": `remove-${k}`, click: (event) => act(event, () => removeQuote(k)) }, "×")));
    const lacking = draft.codes.filter((id) => draft.evidence.filter((one) => one.code === id || one.code === null).length < code(id).quotes);
    return h("section", { "aria-label": "Evidence" }, h("h3", "Evidence", active && draft.codes.length > 1 ? ` (for ${active})` : ""),
      h("button", { type: "button", "data-focus": "add", mousedown: (event) => event.preventDefault(), click: addSelected }, h("kbd", "e"), " Add the selected text"),
      h("ul.evidence", rows),
      lacking.length > 0 && h("p.legend", `The rubric wants ${lacking.map((id) => `${annotator.count(code(id).quotes, "quote")} for ${id}`).join(", ")}.`));
  }

  function note() {
    const field = h("textarea", { id: "note", "data-focus": "note" });
    field.value = draft.note;
    let wait;
    const keep = () => {
      clearTimeout(wait);
      if (draft.note !== field.value) {
        draft.note = field.value;
        save();
      }
    };
    field.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(keep, 600);
    });
    field.addEventListener("blur", keep);
    note.keep = keep;
    return h("label.field", h("span", h("kbd", "m"), " Note"), field);
  }

  function confidence() {
    return h("fieldset.confidence", h("legend.said", "Confidence"), h("span", h("kbd", "-"), h("kbd", "+"), " Confidence"),
      [1, 2, 3, 4, 5].map((n) => h("button", { type: "button", "data-focus": `confidence-${n}`, "aria-pressed": String(draft.confidence === n), "aria-label": `Confidence ${n} of 5`,
        click: (event) => act(event, () => sure(draft.confidence === n ? null : n)) }, n)));
  }

  function actions() {
    const button = (key, label, what, more = "") => h(`button${more}`, { type: "button", "data-focus": label, click: (event) => act(event, what) }, h("kbd", key), ` ${label}`);
    return h("div.foot", h("p.state", { id: "state", role: "status" }, shownState()),
      h("div.actions", button("Enter", "Next open", next, ".main"), button("s", "Skip", skip), button("u", "Undo", undo)));
  }

  function shownState() {
    if (draft.skipped) return "Skipped.";
    if (!decided(draft)) return item.decision ? "Nothing chosen: choose a code, none or skip; the saved label is withdrawn." : "Not labelled yet: choose a code or none.";
    return "";
  }

  function tell(text, kind) {
    const place = $("#state");
    if (place) [place.textContent, place.className] = [text, `state ${kind}`];
  }

  // ---- adjudication ----
  function two() {
    const side = (one, n) => {
      const codes = [one.primary, ...one.secondary].filter(Boolean);
      const spans = one.spans.length ? one.spans : one.evidence.map((quote) => ({ quote }));
      return h(`article.card.${n ? "second" : "first"}`, h("header", h("strong", name(one.annotator, 60)), one.confidence && h("span.legend", `confidence ${one.confidence}`)),
        h("p", codes.length ? codes.map((id, place) => h(`span.chip.code${place && !many() ? ".second" : ""}`, id)) : "none"),
        one.note && h("p.rationale", one.note),
        h("ul.quotes", spans.map((span, k) => h("li", span.source
          ? h("button.quote", { type: "button", click: () => annotator.reveal(view, `other.${n}.${k}`) }, h("span.where", name(span.source, 120)), h("q", annotator.passage(span.quote, 300)))
          : h("q", annotator.passage(span.quote, 300))))),
        h("button", { type: "button", "data-focus": `take-${n}`, click: (event) => act(event, () => take(n)) }, h("kbd", n ? "b" : "a"), ` Take ${name(one.annotator, 30)}'s`));
    };
    return h("section", { "aria-label": "What two people said" }, h("h2", "They differ"), h("div.two", item.others.map(side)));
  }

  function take(n) {
    const one = item.others?.[n];
    if (!one) return;
    const codes = [one.primary, ...one.secondary].filter(Boolean);
    const placed = one.spans.map((span) => ({ quote: span.quote, source: span.source, start: span.start, end: span.end, code: codes.includes(span.code) ? span.code : null }));
    const evidence = [...placed, ...one.evidence.filter((text) => !one.spans.some((span) => span.quote === text)).map((quote) => ({ quote, source: null, code: null }))];
    draft = { none: !codes.length, skipped: false, codes, evidence, note: draft.note, confidence: draft.confidence };
    active = codes[0] || null;
    changed();
  }

  // ---- decisions ----
  function pick(id) {
    const place = draft.codes.indexOf(id);
    if (place >= 0) draft.codes.splice(place, 1);
    else if (state.rubric.choice === "one") draft.codes = [id];
    else draft.codes.push(id);
    [draft.none, draft.skipped] = [false, false];
    active = place >= 0 ? draft.codes[0] || null : id;
    draft.evidence = draft.evidence.map((one) => (one.code === null || draft.codes.includes(one.code) ? one : { ...one, code: null }));
    changed();
  }

  function makePrimary(id) {
    if (many() || !draft.codes.includes(id)) return;
    draft.codes = [id, ...draft.codes.filter((one) => one !== id)];
    changed();
  }

  function none() {
    const now = !draft.none;
    [draft.none, draft.skipped, draft.codes, active] = [now, false, [], null];
    draft.evidence = draft.evidence.map((one) => ({ ...one, code: null }));
    changed();
  }

  function sure(n) {
    draft.confidence = n;
    changed();
  }

  function addSelected() {
    const found = annotator.selected(view);
    if (found.error) return annotator.say(found.error, "error");
    if (draft.evidence.some((one) => one.source === found.source && one.start === found.start && one.end === found.end && one.code === active)) {
      return annotator.say("This passage is there already.");
    }
    draft.evidence.push({ ...found, code: active });
    getSelection().removeAllRanges();
    changed();
    return annotator.say(`Added: ${name(found.quote, 60)}`);
  }

  function removeQuote(k) {
    draft.evidence.splice(k, 1);
    changed();
  }

  function skip() {
    [draft.skipped, draft.none, draft.codes, draft.evidence] = [true, false, [], []];
    changed();
    saving.then((done) => done && next());
  }

  function changed() {
    remark();
    drawPanel();
    save();
  }

  function spent() {
    if (shownSince !== null) seconds += (performance.now() - shownSince) / 1000;
    shownSince = document.hidden ? null : performance.now();
    return Math.round(10 * seconds) / 10;
  }

  // Saves wait for each other; each sends what is decided then. What comes to nothing after it was
  // saved is withdrawn.
  function save() {
    const [n, one, was] = [at, structuredClone(draft), item];
    if (!decided(one) && !was.decision) return tell(one.evidence.length || one.note ? "Not saved yet: choose a code or none." : "", "unsaved");
    tell("Saving …", "");
    saving = saving.then(async () => {
      try {
        const [primary, ...rest] = one.codes;
        const body = decided(one)
          ? { n, skipped: one.skipped, primary: many() ? null : (primary ?? null), secondary: many() ? one.codes : rest, evidence: one.evidence, note: one.note, confidence: one.confidence, seconds: spent() }
          : { n, withdrawn: true };
        const answer = await annotator.ask("api/decide", body);
        state.items[n].state = answer.state;
        was.decision = answer.decision;
        drawProgress();
        if (n === at) tell(answer.state === "open" ? "Withdrawn: not labelled." : one.skipped ? "Skipped." : "Saved.", "saved");
        return true;
      } catch (error) {
        if (n === at) tell(`Not saved: ${error.message}`, "unsaved");
        annotator.say(`Not saved: ${error.message}`, "error");
        return false;
      }
    });
    return undefined;
  }

  async function next() {
    note.keep?.();
    if (!(await saved())) return;
    const from = state.items.findIndex((one, n) => n > at && one.state === "open");
    const found = from >= 0 ? from : state.items.findIndex((one) => one.state === "open");
    if (found >= 0 && found !== at) await open(found);
    else annotator.say(found < 0 ? "Every trace is labelled or skipped." : "This is the only open trace.");
  }

  async function saved() {
    if ((await saving) === false) {
      save();
      if ((await saving) === false) return false;
    }
    return true;
  }

  async function undo() {
    note.keep?.();
    await saving;
    try {
      const answer = await annotator.ask("api/undo", {});
      if (answer.n === null) return annotator.say("There is nothing to undo.");
      state.items[answer.n].state = answer.state;
      await open(answer.n);
      return annotator.say("Undone.");
    } catch (error) {
      return annotator.say(error.message, "error");
    }
  }

  // ---- keys ----
  function moveLine(by, extend) {
    const units = annotator.units(view);
    if (!units.length) return;
    const last = units.length - 1;
    const bound = (n) => Math.min(last, Math.max(0, n));
    const start = nearest(units);
    if (!cursor) cursor = [start, start];
    else if (extend) cursor = [cursor[0], bound(cursor[1] + by)];
    else cursor = [bound(cursor[1] + by), bound(cursor[1] + by)];
    if (extend && units[cursor[0]].piece.closest(".source") !== units[cursor[1]].piece.closest(".source")) cursor[1] -= by;
    annotator.selectUnits(units[Math.min(...cursor)], units[Math.max(...cursor)]);
  }

  const nearest = (units) => Math.max(0, units.findIndex((one) => one.piece.getBoundingClientRect().bottom > 80));

  function turnItem(by) {
    note.keep?.();
    saved().then((good) => good && open(at + by));
  }

  function keys(event) {
    if (event.key === "Escape" && event.target.id === "note") return event.target.blur();
    if (annotator.typing(event) || $("dialog[open]")) return undefined;
    const button = event.target.closest?.("button, a, summary");
    if (button && (event.key === "Enter" || event.key === " ")) return undefined;
    const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code);
    if (digit) {
      event.preventDefault();
      const n = Number(digit[1]);
      if (n === 0) return none();
      const chosen = state.rubric.codes[n - 1 + (event.shiftKey ? 9 : 0)];
      return chosen ? pick(chosen.id) : annotator.say("No code has this number.");
    }
    const commands = {
      j: () => moveLine(1, false), k: () => moveLine(-1, false), J: () => moveLine(1, true), K: () => moveLine(-1, true),
      e: addSelected, s: skip, u: undo, Enter: next, m: () => $("#note").focus(), p: () => active && makePrimary(active),
      "+": () => sure(Math.min(5, (draft.confidence || 0) + 1)), "-": () => sure(Math.max(1, (draft.confidence || 6) - 1)),
      a: () => take(0), b: () => take(1), "?": openHelp,
      ArrowRight: () => event.shiftKey || turnItem(1), ArrowLeft: () => event.shiftKey || turnItem(-1),
    };
    if (Object.hasOwn(commands, event.key)) {
      if (!event.key.startsWith("Arrow") || !event.shiftKey) event.preventDefault();
      commands[event.key]();
    }
    return undefined;
  }

  let openHelp;

  addEventListener("DOMContentLoaded", async () => {
    $("#theme").addEventListener("click", annotator.theme());
    try {
      state = await annotator.ask("api/state");
    } catch (error) {
      $("#main").replaceChildren(h("p.warning", { role: "alert" }, error.message));
      return;
    }
    openHelp = annotator.help([
      ["1 9", "choose a code; again: leave it (⇧ for the tenth and on)"], ["0", "none: no code applies"], ["p", "make the last code the primary one"],
      ["j k", "select the next, the previous line"], ["J K", "select more, fewer lines (⇧ and arrows: letters)"], ["e", "add the selected text as evidence"],
      ["m", "note; Escape leaves it"], ["- +", "confidence"], ["Enter", "next open trace"], ["← →", "previous, next trace"], ["s", "skip"], ["u", "undo"],
      ...(state.adjudicating ? [["a b", `take ${state.adjudicating.join("'s, ")}'s label`]] : []), ["?", "these keys"],
    ]);
    $("#help").addEventListener("click", openHelp);
    $("#who").textContent = `${state.rubric.id} · ${state.annotator}${state.adjudicating ? ` · ${state.adjudicating.join(" and ")} differ` : ""}`;
    document.addEventListener("keydown", keys);
    document.addEventListener("visibilitychange", spent);
    addEventListener("beforeunload", (event) => {
      if (item && draft && !decided(draft) && (draft.evidence.length || draft.note)) event.preventDefault();
    });
    for (const line of state.notes) annotator.say(line);
    const asked = Number(location.hash.slice(1)) - 1;
    const first = state.items.findIndex((one) => one.state === "open");
    if (!state.items.length) $("#main").replaceChildren(h("p.status", state.adjudicating ? "The two agree on every trace: there is nothing to adjudicate." : "There is no trace to label."));
    else await open(asked >= 0 && asked < state.items.length ? asked : Math.max(0, first));
    document.documentElement.dataset.started = "yes";
  });
})();
