// What judges and people said of one trace: their findings as cards, and the passages to mark.
"use strict";

(function () {
  const { h, name } = annotator;
  const TONES = 8;
  let page; // what the cards stand on: {overview, quotes, show, link}

  // A finding's place in the address, and the name of what is marked for it: no blank is in it.
  const keyOf = (one, n) => `${one.run ?? `person-${encodeURIComponent(one.annotator)}`}.${encodeURIComponent(one.rubric)}.${n}`;

  // What is known of a code; a judge may name one that there is not, be it "constructor".
  const own = (values, key) => (Object.hasOwn(values, key) ? values[key] : undefined);
  const codeInfo = (rubric, code) => own(own(page.overview.codes, rubric) ?? {}, code);

  function tone(rubric, code) {
    const n = Object.keys(own(page.overview.codes, rubric) ?? {}).indexOf(code);
    return `tone-${(n < 0 ? 0 : n) % TONES}`;
  }

  function findings(found) {
    const rubrics = [...new Set([...found.annotations, ...found.labels].map((one) => one.rubric))];
    if (!rubrics.length) return h("p.none", "No run here judged this trace.");
    return rubrics.map((rubric) => {
      const cards = [
        ...found.labels.filter((one) => one.rubric === rubric).map(person),
        ...found.annotations.filter((one) => one.rubric === rubric).map(card),
      ];
      return h("section.rubric", { "aria-label": `Findings by ${name(rubric, 64)}` }, h("h2", name(rubric, 64)), h(`div.cards${cards.length > 1 ? ".several" : ""}`, cards));
    });
  }

  const codeTitle = (rubric, code) => {
    const known = codeInfo(rubric, code);
    return h("span.code-name", h(`span.chip.code.${tone(rubric, code)}`, name(code, 64)), known && h("span", name(known.name, 120)));
  };

  function card(one) {
    const many = page.overview.runs.length > 1;
    const element = h("article.card", h("header", h("strong", name(many ? page.overview.runs[one.run].short : one.judge, 120)), one.status !== "labelled" && h(`span.chip.${one.status}`, one.status)));
    if (one.reason) element.append(h("p", `${one.status === "undecided" ? "Undecided" : "Not judged"}: ${name(one.reason, 600)}`));
    if (one.error) element.append(h("p.warning", `Could not be judged: ${name(one.error, 2000)}`));
    if (one.status === "none") element.append(h("p", one.rejected.length || one.refuted.length ? "No finding was accepted." : "No code applies, says the judge."));
    if (one.tie.length && one.status !== "undecided") element.append(h("p", `Half of the votes: ${one.tie.map((code) => name(code, 64)).join(", ")}.`));
    if (one.contradictions.length) element.append(h("p", `The judge contradicts itself: ${one.contradictions.map((words) => name(words, 300)).join("; ")}.`));
    const left = Object.entries(one.truncated);
    if (left.length) element.append(h("details.warning", { open: left.length < 6 }, h("summary", `Not read in full: ${annotator.count(left.length, "source")}${one.read < 1 ? `, ${Math.floor(1000 * one.read) / 10} % was read` : ""}`),
      left.map(([id, n]) => `${name(id, 80)} (${annotator.count(n, "character")} left out)`).join(", ")));
    one.findings.forEach((finding, n) => element.append(shownFinding(one, finding, keyOf(one, n))));
    if (one.refuted.length) element.append(h("div.rejections", h("h3", `Refuted by the critic (${one.refuted.length})`), one.refuted.map((finding, n) => shownFinding(one, finding, keyOf(one, `c${n}`)))));
    if (reviewable(one)) element.append(added(), doneWith(one));
    if (one.votes.length) element.append(votes(one));
    if (one.rejected.length) element.append(rejected(one));
    return element;
  }

  function shownFinding(one, finding, key) {
    const known = codeInfo(one.rubric, finding.code);
    const { critique } = finding;
    const refuted = critique && critique.decision !== "upheld";
    return h(`div.finding${refuted ? ".rejected" : ""}`, { id: `finding-${key}`, "data-key": key, tabindex: "-1" },
      h("h3", codeTitle(one.rubric, finding.code), h("span.legend", refuted ? "not counted" : one.primary === finding.code ? "primary" : one.primary ? "secondary" : ""),
        h("a.link", { href: page.link(key), "aria-label": "Link to this finding" }, "#")),
      known?.definition && h("details", h("summary", "Definition"), h("p", known.definition)),
      finding.rationale && h("p.rationale", annotator.passage(finding.rationale, 10000)),
      critique && h(refuted ? "p.reason" : "p.legend", `Critic: ${critique.decision}${critique.code ? `, ${name(critique.code, 64)}` : ""}. ${name(critique.reason, 2000)}`),
      reviewable(one) && !refuted && verdictOf(Number(key.split(".").at(-1))),
      finding.votes !== null && h("p.legend", annotator.count(finding.votes, "vote")),
      h("ul.quotes", finding.evidence.map((evidence, k) => quote(evidence, `${key}.${k}`))));
  }

  // ---- a person's review of the judge's findings ----
  const reviewable = (one) => page.review && one.rubric === page.overview.review.rubric;

  async function send(path, body) {
    try {
      Object.assign(page.review, await annotator.ask(`api/${path}`, { trace_id: page.trace, ...body }));
      annotator.say("Saved.");
    } catch (error) {
      annotator.say(error.message, "error");
    }
    page.redraw.forEach((one) => one());
  }

  // The buttons of a finding; the keys a, r and c press those of the one in focus.
  function verdictOf(n) {
    const made = h("div.review");
    const draw = () => {
      const now = page.review.verdicts[n] ?? { verdict: null, comment: "" };
      const button = (key, verdict, label) => h("button", { type: "button", "data-review": key, "aria-pressed": String(now.verdict === verdict), click: () => send("review", { finding: n, comment: now.comment, verdict: now.verdict === verdict ? null : verdict }) }, h("kbd", key), label);
      const field = h("input", { type: "text", maxlength: 2000, value: now.comment, "aria-label": "Comment", placeholder: "Comment", "data-review": "c", change: (event) => send("review", { finding: n, comment: event.target.value, verdict: now.verdict }) });
      const focused = made.contains(document.activeElement) && document.activeElement.dataset.review;
      made.replaceChildren(button("a", "accept", "Accept"), button("r", "reject", "Reject: the code does not apply"), field);
      if (focused) annotator.$(`[data-review=${focused}]`, made).focus();
    };
    page.redraw.push(draw);
    draw();
    return made;
  }

  // The codes that the reader adds: each with the passages selected when it was added, if any were.
  function added() {
    const made = h("div.added");
    const { rubric } = page.overview.review;
    const choose = h("select", { "aria-label": "Code to add" }, h("option", { value: "" }, "A code the judge missed"), Object.keys(page.overview.codes[rubric]).map((code) => h("option", { value: code }, name(code, 64))));
    const add = () => {
      const code = choose.value;
      if (!code) return annotator.say("Choose the code first; to add it with a quote, select that in the trace, too.", "error");
      const quote = getSelection().isCollapsed ? null : page.selected();
      if (quote?.error) return annotator.say(quote.error, "error");
      const quotes = (page.review.added[code] ?? []).filter((one) => !quote || one.source !== quote.source || one.start !== quote.start || one.end !== quote.end);
      return send("add", { code, quotes: [...quotes, quote].filter(Boolean) });
    };
    // The button leaves the selection as it is.
    const form = h("div.review", choose, h("button", { type: "button", "data-review": "e", mousedown: (event) => event.preventDefault(), click: add }, h("kbd", "e"), "Add, with the selected text"));
    const draw = () => made.replaceChildren(...Object.entries(page.review.added).map(([code, quotes]) =>
      h("div.finding", h("h3", codeTitle(rubric, code), h("span.legend", "added"), h("button", { type: "button", "aria-label": `Take ${name(code, 64)} back`, click: () => send("add", { code, quotes: null }) }, "×")),
        h("ul.quotes", quotes.map((one) => h("li", h("span.where", name(one.source, 120)), " ", h("q", annotator.passage(one.quote, 500))))))), form);
    page.redraw.push(draw);
    draw();
    return made;
  }

  function doneWith(one) {
    const made = h("div.review.done");
    const draw = () => {
      const { done } = page.review;
      const none = one.findings.length || Object.keys(page.review.added).length ? "" : ": no code applies";
      made.replaceChildren(h("button", { type: "button", "data-review": "d", "aria-pressed": String(done), click: () => send("done", { done: !done }) }, h("kbd", "d"), done ? `Done, as ${name(page.overview.review.annotator, 60)}` : `Done with this trace${none}`),
        h("p.legend", page.overview.review.notice));
    };
    page.redraw.push(draw);
    draw();
    return made;
  }

  function quote(evidence, key) {
    page.quotes.push(key);
    return h("li", h("button.quote", { type: "button", "data-quote": key, click: () => page.show(key) },
      h("span.where", name(evidence.source, 120), evidence.match === "typography" && ", as it stands there: the judge's typography differs", evidence.match === "moved" && ", where it stands: the judge named another source", evidence.places && `, found by its words${evidence.places > 1 ? `, the first of ${evidence.places} places` : ""}`, evidence.stale && ": not there as the trace is now"), h("q", annotator.passage(evidence.quote, 500))));
  }

  // A person's quotes with a place, then those that were given without one.
  const placed = (label) => [...label.spans, ...label.located];

  function person(label) {
    const codes = [label.primary, ...label.secondary].filter(Boolean);
    return h("article.card.human", h("header", h("strong", name(label.annotator, 80)), h("span.chip", "person"), label.confidence !== null && h("span.legend", `confidence ${label.confidence} of 5`)),
      h("p", codes.length ? codes.map((code) => codeTitle(label.rubric, code)) : "No code applies."),
      label.note && h("p.rationale", annotator.passage(label.note, 10000)),
      h("ul.quotes", placed(label).map((span, k) => quote(span, keyOf(label, k))),
        [...label.missing, ...label.unplaced].map((text) => h("li", label.missing.includes(text) && h("span.where", "Not found in the trace: "), h("q", annotator.passage(text, 500))))));
  }

  function votes(one) {
    return h("details", h("summary", `Votes (${one.votes.length})${one.agreement === null ? "" : `, ${Math.round(100 * one.agreement)} % of those counted say so`}`), h("ul", one.votes.map((vote) =>
      h("li", `${name(vote.judge, 80)} ${vote.sample}: ${vote.error || vote.reason ? `${vote.status}: ${name(vote.error || vote.reason, 300)}` : [vote.primary, ...vote.secondary].filter(Boolean).map((code) => name(code, 64)).join(", ") || vote.status}`))));
  }

  function rejected(one) {
    return h("div.rejections", h("h3", `Rejected (${one.rejected.length})`), one.rejected.map((claim, n) =>
      h("div.finding.rejected", { id: `finding-${keyOf(one, `r${n}`)}` }, h("h4", codeTitle(one.rubric, claim.code)),
        h("p.reason", name(claim.reason, 3000)), h("ul.quotes", claim.quotes.map((text) => h("li", h("q", annotator.passage(text, 500))))))));
  }

  annotator.findingKey = keyOf;

  // `show(key)` shows a quote in its place, `link(key)` is the address of a finding, `selected()` the
  // passage selected in the trace. `quotes` are the keys of all quotes in order, `marks` the passages
  // as showTrace takes them; `mark` adds one.
  annotator.showFindings = function showFindings(overview, found, { show, link, selected }) {
    page = { overview, quotes: [], show, link, selected, trace: found.trace.id, review: found.review, redraw: [] };
    const marks = new Map();
    const mark = (evidence, key, tone, title) => {
      says.set(key, title);
      if (evidence.stale) return;
      if (!marks.has(evidence.source)) marks.set(evidence.source, []);
      marks.get(evidence.source).push({ start: evidence.start, end: evidence.end, key, tone, title });
    };
    const says = new Map(); // of each quote: the code, and who gave it
    for (const one of found.annotations) {
      [...one.findings, ...one.refuted].forEach((finding, n) => {
        const key = keyOf(one, n < one.findings.length ? n : `c${n - one.findings.length}`);
        finding.evidence.forEach((evidence, k) => mark(evidence, `${key}.${k}`, tone(one.rubric, finding.code), `${finding.code} (${one.judge}${n < one.findings.length ? "" : "; refuted by the critic"})`));
      });
    }
    for (const label of found.labels) {
      placed(label).forEach((span, k) => mark(span, keyOf(label, k), "person", `${label.annotator}: ${span.code || label.primary || "evidence"}`));
    }
    return { cards: findings(found), quotes: page.quotes, says, marks, mark };
  };
})();
