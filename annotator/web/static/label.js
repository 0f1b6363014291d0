// The page to label with. Every change that makes a decision is saved at once; a quote is what is
// selected in the trace, with its offsets.
"use strict";

(function () {
  const { h, $, all, name, Draft } = annotator;
  let state; // what the server says: the rubric, who labels, the items
  let paper = null; // on the page: {n, item, draft, active, steps, waiting, failed, timer}
  let view = null;
  let kept = null; // the drafts that the server has not got,
  let keeps = true; // and whether the browser can keep them
  let cursor = null; // what is selected by keyboard: [anchor, end] among the units
  let saving = Promise.resolve(); // what the server is asked, one after the other
  let busy = false; // another trace is on its way: nothing is decided meanwhile
  let notices = null; // what is to be known at the start, until it is closed
  let seconds = 0;
  let shownSince = null;
  const marked = new Map(); // number -> the draft of a trace before it was decided
  const numbers = new Map(); // id -> number
  let undone = []; // what redo brings back, the last first: {n, draft}
  const STRIP = 100; // traces shown as squares

  const choice = () => state.rubric.choice;

  // ---- one item ----
  // Leave the trace on the page for the one whose number `where` returns; for none if that is null
  // or anything about the trace on the page is not saved.
  async function leave(where) {
    if (busy) return;
    busy = true;
    const focused = document.activeElement?.dataset?.focus;
    $("#main").inert = true; // what is typed or clicked now would be about the old trace
    try {
      const n = (await settled()) ? await where() : null;
      if (n !== null) show(n, await annotator.ask(`api/item?n=${n}`));
    } catch (error) {
      annotator.say(error.message, "error");
    }
    nameAddress();
    $("#main").inert = false;
    busy = false;
    if (focused) annotator.focusOn(focused);
    else $("h1")?.focus({ preventScroll: true });
  }

  const open = (n) => leave(() => {
    if (n >= 0 && n < state.items.length) return n;
    annotator.say(n < 0 ? "This is the first trace." : "This is the last trace.");
    return null;
  });

  function show(n, item) {
    const entry = kept.get(item.trace.id);
    const fresh = entry && JSON.stringify(entry.base) === JSON.stringify(item.decision);
    const draft = (fresh && entry.draft) || (!item.decision && marked.get(n)?.copy()) || Draft.of(item.decision);
    paper = { n, item, draft, active: draft.codes[0] ?? null, reading: draft.codes[0] ?? null, steps: [], waiting: 0, failed: null, timer: null };
    [cursor, seconds, shownSince] = [null, item.decision?.seconds || 0, document.hidden ? null : performance.now()];
    state.items[n].state = !item.decision ? "open" : item.decision.skipped ? "skipped" : "labelled";
    drawItem();
    if (fresh) drafted(); // if it is a decision, it is saved now
    else if (!draft.decided) keep();
    else if (entry) {
      kept.set(item.trace.id, null);
      if (!entry.draft.same(draft)) annotator.say("This label was changed elsewhere: what was not saved of it here is gone.", "error");
    }
  }

  // The address names the trace by its id: it holds when the server starts again.
  function nameAddress() {
    const hash = `#${encodeURIComponent(state.items[paper?.n]?.id ?? "")}`;
    if (paper && location.hash !== hash) location.replace(hash);
  }

  function openAddressed() {
    const n = numbers.get(idIn(location.hash));
    if (n === undefined) annotator.say("No trace here has this address.", "error");
    if (n !== paper?.n) leave(() => n ?? null);
  }

  function idIn(hash) {
    try { return decodeURIComponent(hash.slice(1)); } catch { return ""; }
  }

  function drawItem() {
    const { n, item } = paper;
    const go = (focus, to, label, last) => h("button", { type: "button", "data-focus": focus, disabled: n === last, click: () => open(to) }, label);
    view = annotator.showTrace(item.trace, allMarks(), (agent, from) => annotator.ask(`api/steps?${new URLSearchParams({ n, agent, from })}`));
    $("#main").replaceChildren(h("div.labelling", h("div", notices,
      h("header.title", h("div.near", go("previous", n - 1, "Previous", 0), go("following", n + 1, "Next", state.items.length - 1),
        h("h1", { tabindex: -1 }, name(item.trace.id, 400)), h("span.legend", `${(n + 1).toLocaleString("en")} of ${state.items.length.toLocaleString("en")}`)), item.error && h("p.warning", { role: "alert" }, name(item.error, 600))),
      strip(), tasks(), view.element), annotator.panel(on)));
    redraw();
    drawProgress();
    $("#main").dataset.item = n;
    scrollTo(0, 0);
  }

  function allMarks() {
    const found = new Map();
    const add = (span, key, tone, title) => {
      if (!span.source) return;
      if (!found.has(span.source)) found.set(span.source, []);
      found.get(span.source).push({ start: span.start, end: span.end, key, tone, title });
    };
    (paper.item.others || []).forEach((one, n) => one.spans.forEach((span, k) => add(span, `other.${n}.${k}`, n ? "second" : "first", one.annotator)));
    paper.draft.evidence.forEach((span, k) => add(span, `own.${k}`, "own", span.code || "evidence"));
    return found;
  }

  function remark() {
    const found = allMarks();
    for (const id of new Set([...view.marks.keys(), ...found.keys()])) {
      const [before, now] = [view.marks.get(id) || [], found.get(id) || []];
      if (JSON.stringify(before) !== JSON.stringify(now)) annotator.remark(view, id, now);
    }
  }

  const tasks = () => paper.item.tasks.length > 0 && h("details", h("summary", "The tasks (their words may tell the condition)"), paper.item.tasks.map((one) => [h("h2", name(one.agent, 60)), h("div.source", annotator.passage(one.text, Infinity))]));

  // The traces around the one on the page; only that one is a stop of the Tab key, arrows go on.
  function strip() {
    const from = Math.floor(paper.n / STRIP) * STRIP;
    return h("ol.items", { "aria-label": "Traces", start: from + 1 }, state.items.slice(from, from + STRIP).map((one, at) => h("li", h("button", {
      type: "button", "data-n": from + at, tabindex: from + at === paper.n ? 0 : -1, "data-focus": from + at === paper.n ? "item" : null, "aria-current": from + at === paper.n ? "true" : null, click: () => open(from + at),
    }))));
  }

  function drawProgress() {
    const done = state.items.filter((one) => one.state === "labelled").length;
    const skipped = state.items.filter((one) => one.state === "skipped").length;
    annotator.set($("#progress"), { max: Math.max(1, state.items.length), value: done });
    $("#count").textContent = `${done} of ${state.items.length} labelled${skipped ? `, ${skipped} skipped` : ""}`;
    drawForecast();
    all(".items button").forEach((button) => {
      const n = Number(button.dataset.n);
      const one = state.items[n];
      button.className = one.state;
      annotator.set(button, { "aria-label": `Trace ${n + 1}: ${one.state}`, title: `${n + 1}: ${name(one.id, 200)}, ${one.state}` });
    });
  }

  function drawForecast() {
    const { code, labels, more, widths } = state.forecast ?? {};
    const points = (width) => `±${Math.round(100 * width)}`;
    const place = $("#forecast");
    place.textContent = code ? `${more} more: ${name(code, 60)} ${points(widths[0])} → ${points(widths[1])}` : "";
    place.title = code ? `Half of the 95 % interval (Wilson) of the share of ${code}, the commonest code of your ${labels} labels, in percentage points: now, and after ${more} more if the share stays. Strata and tasks of the sample are left out.` : "";
  }

  function redraw() {
    remark();
    annotator.drawPanel(state.rubric, paper, on);
    tell();
  }

  // ---- what is decided ----
  // What is not decided is kept here: it comes back with its trace, and when a decision is undone.
  // What the server has not got is kept by the browser, too.
  function keep(saved = false) {
    const { n, draft, item } = paper;
    if (draft.blank) marked.delete(n);
    else if (!draft.decided) marked.set(n, draft.copy());
    keeps = kept.set(item.trace.id, saved || (draft.blank && !item.decision) ? null : { base: item.decision, draft });
  }

  // Change the draft, show it and save it. Steps that nothing is saved of are undone here.
  function change(alter, redone = []) {
    const before = paper.draft.copy();
    alter(paper.draft);
    undone = redone;
    if (before.decided || paper.draft.decided) paper.steps = [];
    else paper.steps.push(before);
    drafted();
  }

  function drafted() {
    if (!paper.draft.codes.includes(paper.active)) paper.active = paper.draft.codes[0] ?? null;
    keep();
    redraw();
    save();
  }

  function pick(id) {
    paper.active = id;
    paper.reading = id;
    change((draft) => draft.pick(id, choice()));
    $(`#choices [data-code="${CSS.escape(id)}"]`).scrollIntoView({ block: "nearest" });
  }

  function read(id) {
    if (paper.reading === id) return;
    paper.reading = id;
    annotator.drawAbout(state.rubric, paper);
  }

  function primary(id) {
    if (choice() !== "many" && paper.draft.codes.includes(id)) change((draft) => draft.makePrimary(id));
  }

  function aim(id) {
    paper.active = id;
    redraw();
  }

  function aimNext() {
    const { draft, active } = paper;
    if (draft.codes.length > 1) aim(draft.codes[(draft.codes.indexOf(active) + 1) % draft.codes.length]);
  }

  // The server is asked first: what the rubric takes no quotes from is refused before it is chosen.
  function add() {
    const found = annotator.selected(view);
    if (found.error) return annotator.say(found.error, "error");
    const passage = { ...found, code: paper.active };
    if (paper.draft.has(passage)) return annotator.say("This passage is there already.");
    getSelection().removeAllRanges();
    return ask(async (one) => {
      try {
        await annotator.ask("api/passage", { n: one.n, ...passage });
      } catch (error) {
        return annotator.say(error.message, "error");
      }
      change((draft) => draft.add(passage));
      return annotator.say(`Added: ${name(passage.quote, 60)}`);
    });
  }

  function take(n) {
    const label = paper.item.others?.[n];
    if (!label) return;
    paper.reading = label.primary ?? label.secondary[0] ?? null;
    change((draft) => draft.take(label));
  }

  function skip() {
    change((draft) => draft.skip());
    next();
  }

  function noteTyped(text) {
    paper.draft.note = text;
    undone = [];
    keep();
    clearTimeout(paper.timer);
    paper.timer = setTimeout(saveNote, 600);
    tell();
  }

  function saveNote() {
    if (!paper || paper.timer === null) return;
    clearTimeout(paper.timer);
    paper.timer = null;
    save();
  }

  // ---- saving ----
  function ask(what) {
    const one = paper;
    one.waiting += 1;
    saving = saving.then(() => what(one)).finally(() => {
      one.waiting -= 1;
      tell();
    });
    tell();
  }

  // What comes to nothing after it was saved is withdrawn, or may have been: an answer can be lost.
  function save() {
    const body = paper.draft.body(choice());
    ask(async (one) => {
      try {
        if (!body.withdrawn || one.item.decision || one.failed) {
          const answer = await annotator.ask("api/decide", { n: one.n, revision: one.item.revision, seconds: spent(), ...body });
          [one.item.decision, one.item.revision, state.items[one.n].state] = [answer.decision, answer.revision, answer.state];
          [one.item.needs, state.forecast] = [answer.needs, answer.forecast];
          drawProgress();
          annotator.drawNeeds(one);
        }
        one.failed = null;
        if (one.waiting === 1 && one.timer === null) keep(one.draft.decided); // the server has it all
      } catch (error) {
        one.failed = error.message;
        annotator.say(`Not saved: ${error.message}`, "error");
      }
    });
  }

  // Wait until the server has answered; false if something could not be saved, at the second try.
  async function settled() {
    if (!paper) return true;
    saveNote();
    while (paper.waiting) await saving;
    if (!paper.failed) return true;
    save();
    while (paper.waiting) await saving;
    return !paper.failed;
  }

  function tell() {
    const { draft, waiting, failed, timer } = paper;
    const [text, kind] = waiting || timer !== null ? ["Saving …", ""]
      : failed ? [`Not saved: ${failed}`, "unsaved"]
      : draft.blank ? ["Not labelled yet: choose a code or none.", ""]
      : !draft.decided ? ["Not saved yet: choose a code or none.", "unsaved"]
      : [draft.skipped ? "Skipped." : "Saved.", "saved"];
    const place = $("#state");
    if (place.textContent !== text) place.textContent = text;
    place.className = `state ${kind}`;
  }

  function spent() {
    if (shownSince !== null) seconds += (performance.now() - shownSince) / 1000;
    shownSince = document.hidden ? null : performance.now();
    return Math.round(10 * seconds) / 10;
  }

  const next = () => leave(() => {
    const from = state.items.findIndex((one, n) => n > paper.n && one.state === "open");
    const found = from >= 0 ? from : state.items.findIndex((one) => one.state === "open");
    if (found >= 0 && found !== paper.n) return found;
    annotator.say(found < 0 ? `Every trace is labelled or skipped. Next: press Ctrl-C in the terminal, then ${state.next}` : "This is the only open trace.");
    return null;
  });

  let undoesEarlier = false; // whether that was asked for, right before
  const undo = () => leave(async () => {
    if (paper.steps.length) {
      undone.push({ n: paper.n, draft: paper.draft.copy() });
      paper.draft = Object.assign(paper.steps.pop(), { note: paper.draft.note });
      drafted();
      annotator.say("Undone; it was not saved yet.");
      return null;
    }
    const answer = await annotator.ask("api/undo", { earlier: undoesEarlier });
    undoesEarlier = answer.n === null && answer.earlier !== null;
    if (answer.n !== null) {
      undone.push({ n: answer.n, draft: answer.was && Draft.of(answer.was), seconds: answer.was?.seconds });
      state.forecast = answer.forecast;
      annotator.say(`Undone: trace ${answer.n + 1} is ${answer.state} now.`);
    } else if (undoesEarlier) annotator.say(`Nothing more to undo of this session. Undo again takes away the label of trace ${answer.earlier + 1}, of an earlier session.`);
    else annotator.say("There is nothing to undo.");
    return answer.n;
  });

  // Make the change again that was undone last; another change in between takes that away.
  async function redo() {
    const [left, again] = [undone, undone.at(-1)];
    if (!again) return annotator.say("There is nothing to redo.");
    if (again.n !== paper.n) await leave(() => again.n);
    if (again.n !== paper.n) return undefined;
    if (again.seconds) seconds = again.seconds;
    change((draft) => (again.draft ? Object.assign(draft, again.draft) : draft.decide([])), left.slice(0, -1));
    return annotator.say("Done again.");
  }

  const on = {
    pick, primary, aim, add, take, next, skip, undo, redo, read, note: noteTyped, noted: saveNote, redoes: () => undone.length > 0,
    none: () => change((draft) => draft.toggleNone()), sure: (n) => change((draft) => draft.sure(n)),
    remove: (k) => change((draft) => draft.evidence.splice(k, 1)), reveal: (key) => annotator.reveal(view, key),
  };

  // ---- keys ----
  function moveLine(by, extend) {
    const units = annotator.units(view);
    if (!units.length) return;
    const bound = (n) => Math.min(units.length - 1, Math.max(0, n));
    if (!extend && (!cursor || !onScreen(units[cursor[1]]))) cursor = [firstOnScreen(units), firstOnScreen(units)];
    else if (extend) cursor = [cursor[0], bound(cursor[1] + by)];
    else cursor = [bound(cursor[1] + by), bound(cursor[1] + by)];
    if (extend && units[cursor[0]].piece.closest(".source") !== units[cursor[1]].piece.closest(".source")) cursor[1] -= by;
    document.activeElement.blur(); // or the browser's keys would not move the selection
    annotator.selectUnits(units[Math.min(...cursor)], units[Math.max(...cursor)]);
  }

  function onScreen(unit) {
    const box = unit && annotator.unitBox(unit);
    return Boolean(box) && box.bottom > 80 && box.top < innerHeight;
  }

  // The first unit below the head of the page, in the first piece that reaches below it.
  function firstOnScreen(units) {
    const at = Math.max(0, units.findIndex((one) => one.piece.getBoundingClientRect().bottom > 80));
    const left = units.slice(at, at + 2000).findIndex((one) => annotator.unitBox(one).bottom > 80);
    return at + Math.max(0, left);
  }

  // The browser's own keys (⇧ and arrows) move one end of a selection: let it be the other one.
  function otherEnd() {
    const { anchorNode, anchorOffset, focusNode, focusOffset, isCollapsed } = getSelection();
    if (!isCollapsed) getSelection().setBaseAndExtent(focusNode, focusOffset, anchorNode, anchorOffset);
  }

  function toPanel() {
    annotator.unfold();
    ($(`#choices [data-focus="code-${CSS.escape(paper.active ?? "")}"]`) ?? $("#choices .pick")).focus();
  }


  // The next code of the list, by arrows.
  function moveCode(by) {
    const codes = all("#choices .pick");
    codes[(codes.indexOf(document.activeElement) + by + codes.length) % codes.length].focus();
  }

  const commands = {
    j: () => moveLine(1, false), k: () => moveLine(-1, false), J: () => moveLine(1, true), K: () => moveLine(-1, true), o: otherEnd,
    e: add, c: aimNext, s: skip, u: undo, Enter: next, m: () => $("#note").focus(), l: toPanel, p: () => primary(paper.active),
    "+": () => on.sure(Math.min(5, (paper.draft.confidence || 0) + 1)), "-": () => on.sure(Math.max(1, (paper.draft.confidence || 6) - 1)),
    a: () => take(0), b: () => take(1), i: () => read(null), "?": () => openHelp(), ArrowRight: () => open(paper.n + 1), ArrowLeft: () => open(paper.n - 1),
  };

  function keys(event) {
    if (event.key === "Escape" && event.target.id === "note") return event.target.blur();
    if (busy || !paper || $("dialog[open]")) return undefined;
    const typed = event.target.closest?.("input, textarea, select"); // the browser undoes typing
    const control = (event.ctrlKey || event.metaKey) && !event.altKey && !typed && event.key.toLowerCase();
    if (control === "z" || control === "y") {
      event.preventDefault();
      return control === "y" || event.shiftKey ? redo() : undo();
    }
    if (annotator.typing(event)) return undefined;
    const button = event.target.closest?.("button, a, summary");
    if (button?.matches("#choices .pick") && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      return moveCode(event.key === "ArrowDown" ? 1 : -1);
    }
    if (button && (event.key === "Enter" || event.key === " ")) return undefined;
    const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code);
    if (digit) {
      event.preventDefault();
      const n = Number(digit[1]);
      if (n === 0) return on.none();
      const chosen = state.rubric.codes[n - 1 + (event.shiftKey ? 9 : 0)];
      return chosen ? pick(chosen.id) : annotator.say("No code has this number.");
    }
    if (!Object.hasOwn(commands, event.key) || (event.shiftKey && event.key.startsWith("Arrow"))) return undefined;
    event.preventDefault();
    return commands[event.key]();
  }

  let openHelp;

  const helpRows = () => [
    ["1 9", "choose a code; again: leave it (⇧ for the tenth and on)"], ["0", "none: no code applies"], ["p", "make the code that evidence is for the primary one"],
    ["j k", "select the next, the previous sentence, or line of code"], ["J K", "select more, less"], ["⇧→ ⇧←", "move the end of what is selected, letter by letter"],
    ["o", "go on with the other end of what is selected"], ["e", "add the selected text as evidence"], ["c", "evidence for the next of the codes chosen"],
    ["m", "note; Escape leaves it"], ["- +", "confidence"], ["l", "to the codes; ↑ ↓ show their definitions"], ["i", "the instructions"],
    ["Enter", "next open trace"], ["← →", "previous, next trace"], ["s", "skip"], ["u Ctrl+Z", "undo"], ["Ctrl+Y Ctrl+⇧+Z", "redo"],
    ...(state.adjudicating ? [["a b", `take ${state.adjudicating.map((one) => name(one, 60)).join("'s, ")}'s label`]] : []), ["?", "these keys"],
  ];

  function closeNotices() {
    notices.remove();
    notices = null;
  }

  const unsaved = () => Boolean(paper) && (paper.waiting > 0 || paper.failed !== null || (!keeps && [...marked.keys()].some((n) => state.items[n].state === "open")));

  addEventListener("DOMContentLoaded", async () => {
    try {
      state = await annotator.ask("api/state");
    } catch (error) {
      $("#main").replaceChildren(h("p.warning", { role: "alert" }, error.message));
      return;
    }
    kept = new annotator.Kept(state.drafts);
    state.items.forEach((one, n) => numbers.set(one.id, n));
    openHelp = annotator.frame(helpRows());
    $("#who").textContent = `${state.rubric.id} v${state.rubric.version} (${state.rubric.sha256.slice(0, 12)}) · ${name(state.annotator, 60)}${state.adjudicating ? ` · ${state.adjudicating.map((one) => name(one, 60)).join(" and ")} differ` : ""}`;
    document.addEventListener("keydown", keys);
    document.addEventListener("visibilitychange", spent);
    addEventListener("hashchange", openAddressed);
    addEventListener("beforeunload", (event) => {
      saveNote();
      if (unsaved()) event.preventDefault();
    });
    if (state.notes.length) notices = h("div.notices", { role: "status" }, h("div", state.notes.map((line) => h("p", name(line, 600)))), h("button", { type: "button", click: closeNotices }, "Close"));
    const asked = numbers.get(idIn(location.hash));
    const first = state.items.findIndex((one) => one.state === "open");
    if (!state.items.length) $("#main").replaceChildren(notices ?? "", h("p.status", state.adjudicating ? "The two agree on every trace: there is nothing to adjudicate." : "There is no trace to label."));
    else await open(asked ?? Math.max(0, first));
    document.documentElement.dataset.started = "yes";
  });
})();
