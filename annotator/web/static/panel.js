// The panel to label with: the codes, the definition of one, the evidence, and what can be done.
"use strict";

(function () {
  const { h, $, all, name } = annotator;
  const said = (text) => annotator.passage(text, 20000); // all that a text of a rubric may have
  const keyOf = (n) => (n < 9 ? String(n + 1) : n < 18 ? `⇧${n - 8}` : "");
  let folded = true; // on a narrow screen the trace comes first
  let drawing = false; // focus that comes back is no wish to read
  let resting = null; // what shows a definition when the pointer stays on a code

  // What a click does; focus goes back to the page, so that keys are commands again.
  function act(event, what) {
    if (event.detail > 0) event.target.closest("button").blur();
    what();
  }

  const button = (focus, what, ...content) => h("button", { type: "button", "data-focus": focus, click: (event) => act(event, what) }, content);

  // Make the panel. `on`: what its buttons do. The foot stays as it is, so that its state is heard.
  annotator.panel = function panel(on) {
    const foot = h("div.foot", h("div", { id: "needs", role: "status" }), h("p.state", { id: "state", role: "status" }),
      h("div.actions", h("button.fold", { type: "button", "data-focus": "fold", "aria-controls": "choices about given", click: () => fold(!folded) }, "Codes"),
        h("button", { type: "button", "data-focus": "add", mousedown: (event) => event.preventDefault(), click: (event) => act(event, on.add) }, h("kbd", "e"), "Add quote"),
        button("next", on.next, h("kbd", "Enter"), "Next open"), button("skip", on.skip, h("kbd", "s"), "Skip"), button("undo", on.undo, h("kbd", "u"), "Undo"), button("redo", on.redo, h("span.said", "Redo"), h("span", { "aria-hidden": "true", title: "Redo" }, "↷"))));
    const about = h("section", { id: "about", tabindex: 0, "aria-label": "Definition" });
    const panel = h("aside", { id: "panel", "aria-label": "Label" }, h("div.sheet", h("div.read-of-it", h("div", { id: "choices" }), about), h("div", { id: "given" })), foot);
    fold(folded, panel);
    return panel;
  };

  function fold(shut, panel = $("#panel")) {
    folded = shut;
    panel.classList.toggle("folded", shut);
    annotator.set($(".fold", panel), { "aria-expanded": String(!shut) });
  }

  annotator.unfold = () => fold(false);

  // Show a draft: `paper` is {item, draft, active, reading}. What is focused or scrolled stays so.
  annotator.drawPanel = function drawPanel(rubric, paper, on) {
    drawing = true;
    clearTimeout(resting);
    const focused = document.activeElement?.dataset?.focus;
    const [choices, given] = [$("#choices"), $("#given")];
    const [top, quotes] = [choices.scrollTop, all(".evidence li", given).length];
    choices.replaceChildren(...[
      paper.item.others && two(rubric, paper, on),
      h("header.rubric", h("h2", name(rubric.title)), h("button", { type: "button", "data-focus": "instructions", click: (event) => act(event, () => on.read(null)) }, h("kbd", "i"), "Instructions")),
      h("ol.codes", { "aria-label": "Codes" }, rubric.codes.map((one, n) => shownCode(rubric, paper, on, one, n)), h(`li${paper.draft.none ? ".primary" : ""}`,
        h("button.pick", { type: "button", "data-focus": "none", "aria-pressed": String(paper.draft.none), click: (event) => act(event, on.none) }, h("kbd", "0"), "none: no code applies"))),
    ].filter(Boolean));
    given.replaceChildren(...evidence(paper, on), h("div.said-of-it", note(paper, on), confidence(paper, on)));
    annotator.drawAbout(rubric, paper);
    annotator.drawNeeds(paper);
    $('[data-focus="redo"]').hidden = !on.redoes();
    choices.scrollTop = top;
    const list = $(".evidence", given);
    if (paper.draft.evidence.length > quotes) list.scrollTop = list.scrollHeight;
    if (focused && !document.activeElement?.dataset?.focus) annotator.focusOn(focused);
    drawing = false;
  };

  // Give focus back to what has the same name now, or if it is gone to what adds evidence.
  annotator.focusOn = (focused) => ($(`[data-focus="${CSS.escape(focused)}"]`) ?? $('[data-focus="add"]'))?.focus({ preventScroll: true });

  // A code is read when it gets focus, or when the pointer rests on it: on its way to the definition
  // it passes over others.
  function shownCode(rubric, { draft }, on, one, n) {
    const place = draft.codes.indexOf(one.id);
    const role = place < 0 ? "" : rubric.choice === "many" ? "chosen" : place === 0 ? "primary" : "secondary";
    const read = () => on.read(one.id);
    const rest = (event) => {
      clearTimeout(resting);
      if (event.pointerType === "mouse") resting = setTimeout(read, 250);
    };
    const same = one.id.replaceAll("_", " ").toLowerCase() === one.name.toLowerCase();
    return h(`li${role ? `.${role === "secondary" ? role : "primary"}` : ""}`, { "data-code": one.id, pointerenter: rest, pointerleave: () => clearTimeout(resting) },
      h("button.pick", { type: "button", "data-focus": `code-${one.id}`, "aria-pressed": String(place >= 0), focus: () => drawing || read(), click: (event) => act(event, () => on.pick(one.id)) },
        h("kbd", keyOf(n)), h("span.code-name", same ? null : h("span.id", one.id), name(one.name)), h("span.role", role)),
      role === "secondary" && button(`first-${one.id}`, () => on.primary(one.id), "Make primary", h("span.said", one.id)),
      h("button.read", { type: "button", tabindex: -1, "aria-label": `Definition of ${one.id}`, click: read }, "i"));
  }

  // Show the definition of the code that is read now, or the instructions.
  annotator.drawAbout = function drawAbout(rubric, { reading }) {
    const one = rubric.codes.find((code) => code.id === reading);
    for (const row of all(".codes > li")) row.classList.toggle("read", row.dataset.code === reading);
    $('[data-focus="instructions"]').setAttribute("aria-pressed", String(!one));
    const about = $("#about");
    about.setAttribute("aria-label", one ? `Definition of ${one.id}` : "Instructions");
    about.replaceChildren(...(one ? [
      h("h3", one.id === one.name ? "" : `${one.id}: `, name(one.name)), ...annotator.clauses(one),
    ] : [
      h("p.rationale", said(rubric.instructions)),
      ...(rubric.precedence.length ? [h("p.rationale", h("strong", "Precedence: "), rubric.precedence.join(" > "))] : []),
    ]));
    about.scrollTop = 0;
  };

  // What the rubric still wants for the codes chosen, as the server has them: a hint, no bar.
  annotator.drawNeeds = function drawNeeds({ item, draft }) {
    const needs = (draft.decided && item.needs) || [];
    $("#needs").replaceChildren(...needs.filter((one) => draft.codes.includes(one.code)).map((one) => h("p.legend", h("strong", one.code), ` needs ${name(one.gap, 600)}.`)));
  };

  function evidence({ draft, active }, on) {
    const rows = draft.evidence.map((one, k) => h("li",
      h("button.quote", { type: "button", "data-focus": `quote-${k}`, click: () => on.reveal(`own.${k}`) },
        h("span.where", `${one.source ? name(one.source, 120) : "quoted without its place"}${one.code ? ` · ${one.code}` : ""}`), h("q", annotator.passage(one.quote, 300))),
      h("button", { type: "button", "aria-label": `Remove the quote ${k + 1}`, "data-focus": `remove-${k}`, click: (event) => act(event, () => on.remove(k)) }, "×")));
    return [
      h("h3", "Evidence", rows.length ? "" : h("span.legend", " select text of the trace, then e")),
      draft.codes.length > 1 && h("div.aim", { role: "group", "aria-label": "The next evidence is for" }, h("span", h("kbd", "c"), "for"),
        draft.codes.map((id) => h("button", { type: "button", "data-focus": `aim-${id}`, "aria-pressed": String(id === active), click: (event) => act(event, () => on.aim(id)) }, id))),
      h("ul.evidence", { "aria-label": "Evidence" }, rows),
    ].filter(Boolean);
  }

  function note({ draft }, on) {
    const field = h("textarea", { id: "note", rows: 1, maxlength: 10000, "data-focus": "note", placeholder: " ", input: () => on.note(field.value), blur: on.noted });
    field.value = draft.note;
    return h("label.field", h("span", h("kbd", "m"), "Note"), field);
  }

  function confidence({ draft }, on) {
    return h("fieldset.confidence", h("legend.said", "Confidence"), h("span", h("kbd", "-"), h("kbd", "+"), "Confidence"),
      [1, 2, 3, 4, 5].map((n) => h("button", { type: "button", "data-focus": `confidence-${n}`, "aria-pressed": String(draft.confidence === n), "aria-label": `Confidence ${n} of 5`,
        click: (event) => act(event, () => on.sure(draft.confidence === n ? null : n)) }, n)));
  }

  // Adjudication: what two people said, whole, for what is taken from them is what is written.
  function two(rubric, { item }, on) {
    const side = (one, n) => {
      const codes = [one.primary, ...one.secondary].filter(Boolean);
      const quotes = annotator.Draft.quotesOf(one);
      return h(`article.card.${n ? "second" : "first"}`, { "aria-label": name(one.annotator, 60) }, h("header", h("strong", name(one.annotator, 60)), one.confidence && h("span.legend", `confidence ${one.confidence}`)),
        h("p", codes.length ? codes.map((id, place) => h(`span.chip.code${place && rubric.choice !== "many" ? ".second" : ""}`, id)) : "none"),
        button(`take-${n}`, () => on.take(n), h("kbd", n ? "b" : "a"), `Take ${name(one.annotator, 30)}'s`),
        one.note && h("p.rationale", said(one.note)),
        h("ul.quotes", quotes.map((span, k) => h("li", span.source
          ? h("button.quote", { type: "button", "data-focus": `other-${n}-${k}`, click: () => on.reveal(`other.${n}.${k}`) },
            h("span.where", `${name(span.source, 120)}${span.code ? ` · ${span.code}` : ""}`), h("q", annotator.passage(span.quote, 300)))
          : [h("span.where", "quoted without its place "), h("q", annotator.passage(span.quote, 300))]))));
    };
    return h("section", { "aria-label": "What two people said" }, h("h2", "They differ"), h("div.two", item.others.map(side)));
  }
})();
