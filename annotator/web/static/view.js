// The pages of a run: the tables, the list of traces, one trace with its findings, the search.
// What they show comes from `annotator.source`: data in this file, or the local server.
"use strict";

(function () {
  const { h, $, all, name } = annotator;
  const PAGE = 100;
  const TONES = 8;
  let source;
  let overview;
  let view = null; // the trace on the page
  let place = {}; // what the address says
  let drawn = 0; // the latest drawing: a slower one before it is dropped

  const main = () => $("#main");

  // ---- addresses: #/traces?status=failed, #/trace/ID?finding=0.symptoms.0 ----
  function parse() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [page, ...rest] = path.split("/");
    const given = [...new URLSearchParams(query)];
    const asked = Object.fromEntries(given);
    const id = rest.length ? decoded(rest.join("/")) : null;
    return { page: page || "overview", id, asked, filter: filterOf(given) };
  }

  function decoded(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  const FIELDS = ["run", "rubric", "status", "code", "agreement", "rejected", "text"];
  function filterOf(given) {
    const filter = { attributes: {} };
    for (const [key, value] of given) {
      if (FIELDS.includes(key)) filter[key] = value;
      else if (key.startsWith("a.")) filter.attributes[key.slice(2)] = value;
    }
    return filter;
  }

  function query(filter, more = {}) {
    const made = new URLSearchParams();
    for (const key of FIELDS) if (filter[key] !== undefined && filter[key] !== "") made.set(key, filter[key]);
    for (const [key, value] of Object.entries(filter.attributes || {})) if (value !== "") made.set(`a.${key}`, value);
    for (const [key, value] of Object.entries(more)) if (value !== undefined && value !== null) made.set(key, value);
    const text = made.toString();
    return text ? `?${text}` : "";
  }

  const toTraces = (filter) => `#/traces${query(filter)}`;
  const toTrace = (id, filter, more) => `#/trace/${encodeURIComponent(id)}${query(filter, more)}`;

  // ---- drawing ----
  async function draw() {
    const mine = ++drawn;
    place = parse();
    for (const one of all("nav a")) {
      if (one.dataset.page === place.page) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
    const pages = { overview: overviewPage, traces: tracesPage, trace: tracePage, search: searchPage };
    try {
      const content = await (pages[place.page] || overviewPage)(mine);
      if (mine !== drawn) return;
      main().replaceChildren(...[content].flat(Infinity).filter(Boolean));
      main().dataset.ready = place.page;
      if (place.page === "trace") arrive();
      else scrollTo(0, 0);
    } catch (error) {
      if (mine === drawn) main().replaceChildren(h("p.warning", { role: "alert" }, error.message));
    }
  }

  // ---- the tables ----
  async function overviewPage(mine) {
    const parts = [h("h1", overview.title)];
    if (overview.problem) parts.push(h("p.warning", { role: "alert" }, overview.problem));
    if (!overview.ready) parts.push(h("p.status", { role: "status" }, waiting()));
    parts.push(overview.tables.map(table), overview.together.map(together), overview.runs.map(about));
    if (!overview.ready) setTimeout(() => mine === drawn && refresh(), 500);
    return parts;
  }

  function waiting() {
    const { annotations, read, bytes } = overview.progress;
    const share = bytes ? Math.floor((100 * read) / bytes) : 0;
    return `Reading: ${annotations.toLocaleString("en")} annotations so far (${share} %).`;
  }

  async function refresh() {
    overview = await source.overview();
    if (place.page === "overview") draw();
  }

  function table(one) {
    const plotted = one.rows.some((row) => row.share);
    const top = plotted ? ceiling(one) : 1;
    const head = h("tr", one.header.map((cell, n) => h("th", { scope: "col" }, n === 0 ? "code" : cell)),
      plotted && h("th.plot", { scope: "col" }, h("span.said", "interval"), h("span.axis", { "aria-hidden": "true" }, h("span", "0"), h("span", `${Math.round(100 * top)} %`))));
    const filter = { rubric: one.rubric, run: one.run, attributes: one.group ? { [one.group[0]]: one.group[1] } : {} };
    const body = one.rows.map((row) => {
      const [first, ...rest] = row.cells;
      return h(`tr${row.code === "none" ? ".last" : ""}`,
        h("th", { scope: "row" }, h("a", { href: toTraces({ ...filter, code: row.code }), title: row.name }, name(first, 64)), h("span.name", name(row.name, 80))),
        rest.map((cell) => h("td", cell)), plotted && h("td.plot", interval(row, top)));
    });
    return h("section.table", { "aria-label": `Table of ${one.rubric}` },
      h("h2", one.title), h("p.heading", one.heading),
      h("div.scroll", h("table.counts", h("thead", head), h("tbody", body))),
      plotted && h("p.legend", h("span.dot.judged"), " judged, Wilson 95 % interval", one.corrected && [" · ", h("span.dot.corrected"), " corrected by people's labels"]),
      one.votes.length > 0 && h("details", h("summary", "Votes"), h("ul", one.votes.map((line) => h("li", line)))),
      h("ul.notes", one.notes.map((note) => h("li", name(note, 2000)))));
  }

  function ceiling(one) {
    const ends = one.rows.flatMap((row) => [row.share?.[2], row.corrected?.[2]]).filter((end) => end !== undefined && end !== null);
    return Math.min(1, Math.max(0.05, Math.ceil(20 * Math.max(...ends, 0)) / 20));
  }

  // The interval drawn; the numbers stand in the cells beside it.
  function interval(row, top) {
    const NS = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(NS, "svg");
    annotator.set(svg, { viewBox: "0 0 200 20", preserveAspectRatio: "none", "aria-hidden": "true", class: "interval" });
    const draw = (share, kind, y) => {
      if (!share) return;
      const [low, value, high] = share;
      const x = (one) => 2 + (196 * one) / top;
      const make = (tag, values) => {
        const element = document.createElementNS(NS, tag);
        annotator.set(element, values);
        svg.append(element);
      };
      if (low !== null && high !== null) make("line", { class: kind, x1: x(low), x2: x(high), y1: y, y2: y });
      if (value !== null) make("rect", { class: kind, x: x(value) - 1.5, y: y - 4, width: 3, height: 8 });
    };
    draw(row.share, "judged", row.corrected ? 6 : 10);
    draw(row.corrected, "corrected", 14);
    return svg;
  }

  function together(one) {
    const most = Math.max(1, ...one.counts.flat().filter((count) => count !== null));
    return h("details.together", h("summary", `Codes in one trace: ${one.title}`),
      h("div.scroll", h("table.matrix", h("thead", h("tr", h("th"), one.codes.map((code) => h("th", { scope: "col" }, h("span", name(code, 64)))))),
        h("tbody", one.codes.map((code, n) => h("tr", h("th", { scope: "row" }, name(code, 64)),
          one.counts[n].map((count) => {
            const cell = h("td", count === null ? "-" : count);
            if (count) cell.style.setProperty("--share", `${Math.round((70 * count) / most) + 8}%`);
            return cell;
          })))))),
      h("p.legend", `n = ${one.judged} judged traces; on the diagonal: traces with the code; "-": the judge has no rule for it.`));
  }

  function about(run) {
    const row = ([term, text]) => [h("dt", term), h("dd", name(text, 600))];
    return h("details.run", h("summary", `Run ${name(run.name, 120)}`), h("dl.facts", run.facts.map(row)));
  }

  // ---- the list ----
  async function tracesPage(mine) {
    const filter = place.filter;
    const found = await source.rows(filter, 0, PAGE);
    const list = h("ol.traces", found.rows.map((row) => item(row, filter)));
    const status = h("p.status", { role: "status" }, counted(found));
    const more = h("button", { type: "button" }, `Show ${PAGE} more`);
    let at = found.rows.length;
    more.hidden = at >= found.total;
    more.addEventListener("click", async () => {
      more.disabled = true;
      const next = await source.rows(filter, at, PAGE);
      list.append(...next.rows.map((row) => item(row, filter)));
      at += next.rows.length;
      more.hidden = at >= next.total || !next.rows.length;
      more.disabled = false;
    });
    if (found.complete === false) setTimeout(() => mine === drawn && at <= PAGE && document.activeElement?.closest(".filters") === null && draw(), 1500);
    return [h("h1", "Traces"), await filters(filter), status, list, more];
  }

  const counted = (found) =>
    `${annotator.count(found.total, "annotation")}${found.complete === false ? " so far; still reading" : ""}`;

  const SAID = {
    agreement: { agrees: "agrees with the person", differs: "differs from the person", unlabelled: "not labelled" },
    rejected: { true: "with rejected findings", false: "without rejected findings" },
  };
  const shownValue = (key, value) => {
    if (key === "run") return overview.runs[Number(value)]?.short ?? value;
    return SAID[key]?.[value] ?? name(value, 60);
  };

  async function filters(filter) {
    const facets = await source.facets(filter);
    const form = h("form.filters", { "aria-label": "Filters", submit: (event) => event.preventDefault() });
    const change = (key, value) => {
      const next = { ...filter, attributes: { ...filter.attributes } };
      if (key.startsWith("a.")) next.attributes[key.slice(2)] = value;
      else next[key] = value;
      location.hash = toTraces(next);
    };
    const choose = (key, label, values, now) =>
      h("label", label, h("select", { name: key, change: (event) => change(key, event.target.value) },
        h("option", { value: "" }, "any"), values.map(([value, count]) =>
          h("option", { value, selected: String(value) === String(now ?? "") && now !== undefined }, `${shownValue(key, value)} (${count})`))));
    const text = h("input", { type: "search", name: "text", value: filter.text || "", placeholder: "in ids and quotes", change: (event) => change("text", event.target.value) });
    const several = (values, now) => values.length > 1 || now !== undefined;
    form.append(...[
      several(facets.run || [], filter.run) && choose("run", "Run", facets.run, filter.run),
      several(facets.rubric || [], filter.rubric) && choose("rubric", "Rubric", facets.rubric, filter.rubric),
      choose("status", "Status", facets.status || [], filter.status),
      choose("code", "Code", facets.code || [], filter.code),
      overview.labelled && choose("agreement", "Label", facets.agreement || [], filter.agreement),
      choose("rejected", "Rejected", facets.rejected || [], filter.rejected),
      ...Object.entries(facets.attributes || {}).filter(([key, values]) => several(values, filter.attributes[key]))
        .map(([key, values]) => choose(`a.${key}`, name(key, 40), values, filter.attributes[key])),
      h("label", "Text", text),
      h("a.button", { href: "#/traces" }, "Clear"),
    ].filter(Boolean));
    const omitted = facets.omitted || [];
    return [form, omitted.length > 0 && h("p.legend", `Too many values to choose from: ${omitted.map(([key, count]) => `${name(key, 40)} (${count})`).join(", ")}.`)];
  }

  const codesOf = (row) => [row.primary, ...row.secondary].filter(Boolean);

  function item(row, filter) {
    const chips = row.status === "labelled"
      ? codesOf(row).map((code) => h(`span.chip.code${code === row.primary || !row.primary ? "" : ".second"}`, name(code, 64)))
      : h(`span.chip.${row.status}`, row.status);
    const { passed, merge, model } = row.attributes;
    return h("li", h("a", { href: toTrace(row.trace_id, filter, { row: row.number }), "data-number": row.number },
      h("span.id", name(row.trace_id, 300)),
      h("span.what", overview.runs.length > 1 && h("span.run", overview.runs[row.run].short), h("span.rubric", name(row.rubric, 64)), chips,
        row.rejected > 0 && h("span.chip.rejected", `${row.rejected} rejected`),
        row.agreement && row.agreement !== "unlabelled" && h(`span.chip.${row.agreement}`, row.agreement === "agrees" ? "person agrees" : `person: ${row.human.map((one) => name(one, 64)).join(", ")}`),
        h("span.facts", [passed === true && "passed", passed === false && "failed", merge && name(merge, 40), model && name(model, 60)].filter(Boolean).join(" · ")))));
  }

  // ---- one trace ----
  async function tracePage() {
    const found = await source.trace(place.id);
    if (found.error) return h("p.warning", { role: "alert" }, name(found.error, 600));
    const marks = new Map();
    const add = (evidence, key, tone, title) => {
      if (evidence.stale) return;
      if (!marks.has(evidence.source)) marks.set(evidence.source, []);
      marks.get(evidence.source).push({ start: evidence.start, end: evidence.end, key, tone, title });
    };
    for (const one of found.annotations) {
      one.findings.forEach((finding, n) => {
        const key = `${one.run}.${one.rubric}.${n}`;
        finding.evidence.forEach((evidence, k) => add(evidence, `${key}.${k}`, tone(one.rubric, finding.code), `${finding.code} (${one.judge})`));
      });
    }
    for (const label of found.labels) {
      label.spans.forEach((span, k) => add(span, `person.${label.rubric}.${k}`, "person", `${label.annotator}: ${span.code || label.primary || "evidence"}`));
    }
    const { source: id, start, end } = place.asked; // what the search found
    if (id && Number(start) < Number(end)) add({ source: id, start: Number(start), end: Number(end) }, "found", "found", "found");
    view = annotator.showTrace(found.trace, marks, source.steps ? (agent, from) => source.steps(place.id, agent, from) : null);
    view.quotes = [];
    const row = place.asked.row ?? found.row;
    const near = row === undefined || row === null ? null : await source.neighbours(row, place.filter);
    return [
      h("header.title", h("div.near", h("a.button", { href: toTraces(place.filter), "data-go": "list" }, "List"), step(near?.previous, "Previous", "previous"), step(near?.next, "Next", "next"),
        near?.total > 0 && h("span.legend", `${near.position} of ${near.total}`)), h("h1", name(place.id, 400)), h("p.facts", attributes(found.trace))),
      h("div.reading", h("aside", { "aria-label": "Findings" }, findings(found)), view.element),
    ];
  }

  function step(to, label, go) {
    return to ? h("a.button", { href: toTrace(to.trace_id, place.filter, { row: to.number }), "data-go": go }, label) : h("span.button", { "aria-disabled": "true" }, label);
  }

  const attributes = (trace) =>
    Object.entries(trace.attributes).filter(([, value]) => value !== null).map(([key, value]) => h("span.chip", `${name(key, 40)} ${name(typeof value === "object" ? JSON.stringify(value) : value, 80)}`));

  function tone(rubric, code) {
    const codes = overview.codes[rubric] || {};
    const n = Object.keys(codes).indexOf(code);
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
    const known = overview.codes[rubric]?.[code];
    return h("span.code-name", h(`span.chip.code.${tone(rubric, code)}`, name(code, 64)), known && h("span", name(known.name, 120)));
  };

  function card(one) {
    const many = overview.runs.length > 1;
    const element = h("article.card", h("header", h("strong", name(one.judge, 80)), many && h("span.legend", overview.runs[one.run].short), h(`span.chip.${one.status}`, one.status)));
    if (one.reason) element.append(h("p", `Not judged: ${name(one.reason, 600)}`));
    if (one.error) element.append(h("p.warning", `Could not be judged: ${name(one.error, 2000)}`));
    if (one.status === "none") element.append(h("p", one.rejected.length ? "No finding was accepted." : "No code applies, says the judge."));
    if (one.tie.length) element.append(h("p", `No majority: ${one.tie.map((code) => name(code, 64)).join(", ")}.`));
    const left = Object.entries(one.truncated);
    if (left.length) element.append(h("p.warning", "Not read in full: ", left.map(([id, n]) => `${name(id, 80)} (${annotator.count(n, "character")})`).join(", ")));
    one.findings.forEach((finding, n) => element.append(shownFinding(one, finding, `${one.run}.${one.rubric}.${n}`)));
    if (one.votes.length) element.append(votes(one));
    if (one.rejected.length) element.append(rejected(one));
    return element;
  }

  function shownFinding(one, finding, key) {
    const known = overview.codes[one.rubric]?.[finding.code];
    return h("div.finding", { id: `finding-${key}`, "data-key": key, tabindex: "-1" },
      h("h3", codeTitle(one.rubric, finding.code), h("span.legend", one.primary === finding.code ? "primary" : one.primary ? "secondary" : ""),
        h("a.link", { href: toTrace(place.id, place.filter, { ...place.asked, finding: key, quote: null }), "aria-label": "Link to this finding" }, "#")),
      known?.definition && h("details", h("summary", "Definition"), h("p", known.definition)),
      finding.rationale && h("p.rationale", finding.rationale),
      finding.votes !== null && h("p.legend", `${finding.votes} votes`),
      h("ul.quotes", finding.evidence.map((evidence, k) => quote(evidence, `${key}.${k}`))));
  }

  function quote(evidence, key) {
    view.quotes.push(key);
    return h("li", h("button.quote", { type: "button", "data-quote": key, click: () => show(key) },
      h("span.where", `${name(evidence.source, 120)}${evidence.stale ? ": not there as the trace is now" : ""}`), h("q", annotator.passage(evidence.quote, 500))));
  }

  function person(label) {
    const codes = [label.primary, ...label.secondary].filter(Boolean);
    return h("article.card.human", h("header", h("strong", name(label.annotator, 80)), h("span.chip", "person"), label.confidence !== null && h("span.legend", `confidence ${label.confidence} of 5`)),
      h("p", codes.length ? codes.map((code) => codeTitle(label.rubric, code)) : "No code applies."),
      label.note && h("p.rationale", label.note),
      h("ul.quotes", label.spans.length ? label.spans.map((span, k) => quote(span, `person.${label.rubric}.${k}`)) : label.evidence.map((text) => h("li", h("q", annotator.passage(text, 500))))));
  }

  function votes(one) {
    return h("details", h("summary", `Votes (${one.votes.length})`), h("ul", one.votes.map((vote) =>
      h("li", `${name(vote.judge, 80)} ${vote.sample}: ${vote.status === "failed" ? `failed: ${name(vote.error, 300)}` : vote.codes.map((code) => name(code, 64)).join(", ") || "none"}`))));
  }

  function rejected(one) {
    return h("div.rejections", h("h3", `Rejected (${one.rejected.length})`), one.rejected.map((claim, n) =>
      h("div.finding.rejected", { id: `finding-${one.run}.${one.rubric}.r${n}` }, h("h4", codeTitle(one.rubric, claim.code)),
        h("p.reason", name(claim.reason, 3000)), h("ul.quotes", claim.quotes.map((text) => h("li", h("q", annotator.passage(text, 500))))))));
  }

  // Show a quote in its place, and which finding it belongs to.
  function show(key) {
    view.now = view.quotes.indexOf(key);
    for (const one of all("button.quote")) one.classList.toggle("current", one.dataset.quote === key);
    if (!annotator.reveal(view, key)) annotator.say("This quote cannot be shown in its place.", "error");
  }

  function arrive() {
    const { finding, quote: asked, source: id } = place.asked;
    const first = finding && (view.quotes.find((key) => key === `${finding}.${asked ?? 0}`) || view.quotes.find((key) => key.startsWith(`${finding}.`)));
    if (first) return show(first);
    const element = finding && document.getElementById(`finding-${finding}`);
    if (element) return element.scrollIntoView({ block: "center" });
    if (id && annotator.reveal(view, "found")) return undefined;
    return scrollTo(0, 0);
  }

  // ---- the search ----
  async function searchPage(mine) {
    const asked = place.asked.q || "";
    if (!asked) return [h("h1", "Search"), h("p", "Type what to look for into the field above: words of messages, patches, outcomes and quotes.")];
    const list = h("ol.hits");
    const status = h("p.status", { role: "status" }, "Searching …");
    const more = h("button", { type: "button", hidden: true }, "Search on");
    let cursor = null;
    let shown = 0;
    const go = async () => {
      more.hidden = true;
      const until = shown + 50;
      try {
        do {
          const found = await source.search(asked, cursor);
          if (mine !== drawn) return;
          list.append(...found.hits.map(hit));
          shown += found.hits.length;
          cursor = found.cursor;
          status.textContent = `${annotator.count(shown, "passage")} in ${annotator.count(found.searched, "trace")} searched${cursor === null ? "" : " so far"}${found.unread ? `; ${annotator.count(found.unread, "trace")} could not be read` : ""}.`;
        } while (cursor !== null && shown < until);
      } catch (error) {
        status.textContent = error.message;
      }
      more.hidden = cursor === null;
    };
    more.addEventListener("click", go);
    go();
    return [h("h1", "Search: ", h("q", annotator.passage(asked, 120))), status, list, more];
  }

  function hit(one) {
    const [from, to] = one.match;
    const letters = [...one.excerpt];
    return h("li", h("a", { href: toTrace(one.trace_id, {}, { source: one.source, start: one.start, end: one.end }) },
      h("span.id", name(one.trace_id, 300)), h("span.where", name(one.source, 120)),
      h("span.excerpt", name(letters.slice(0, from).join(""), 1000), h("mark.found", name(letters.slice(from, to).join(""), 1000)), name(letters.slice(to).join(""), 1000))));
  }

  // ---- keys ----
  function keys(event) {
    if (event.key === "Escape" && event.target.closest?.("input")) return event.target.blur();
    if (annotator.typing(event)) return undefined;
    const go = (selector) => $(selector)?.click();
    const move = (by) => {
      const links = all(".traces a, .hits a");
      if (!links.length) return;
      const now = links.indexOf(document.activeElement);
      links[Math.min(links.length - 1, Math.max(0, now + by))].focus();
    };
    const turn = (by) => {
      if (!view?.quotes.length) return annotator.say("No quotes in this trace.");
      const n = view.quotes.length;
      return show(view.quotes[view.now === undefined ? (by > 0 ? 0 : n - 1) : (view.now + by + n) % n]);
    };
    const trace = place.page === "trace";
    const commands = {
      "/": () => $("#search").focus(),
      "?": openHelp,
      o: () => (location.hash = "#/"),
      t: () => (location.hash = toTraces(place.filter)),
      u: () => trace && go("[data-go=list]"),
      j: () => (trace ? go("[data-go=next]") : move(1)),
      k: () => (trace ? go("[data-go=previous]") : move(-1)),
      n: () => trace && turn(1),
      p: () => trace && turn(-1),
    };
    const command = Object.hasOwn(commands, event.key) && commands[event.key];
    if (command) {
      event.preventDefault();
      command();
    }
    return undefined;
  }

  let openHelp;

  annotator.start = async function start(from) {
    source = from;
    const turnTheme = annotator.theme();
    $("#theme").addEventListener("click", turnTheme);
    openHelp = annotator.help([["j k", "next, previous trace"], ["n p", "next, previous quote"], ["u", "back to the list"], ["o", "the tables"], ["t", "the traces"], ["/", "search"], ["?", "these keys"]]);
    $("#help").addEventListener("click", openHelp);
    $("#search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      location.hash = `#/search?${new URLSearchParams({ q: $("#search").value })}`;
    });
    document.addEventListener("keydown", keys);
    addEventListener("hashchange", draw);
    overview = await source.overview();
    await draw();
  };
})();
