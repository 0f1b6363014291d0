// The pages of a run: the tables, the list of traces, one trace with its findings, the search.
// The annotations come from an `annotator.List`.
"use strict";

(function () {
  const { h, $, all, name } = annotator;
  const PAGE = 100;
  const PROOFS = 2; // quotes of a code on the first page
  let source;
  let overview;
  let view = null; // the trace on the page
  let place = {}; // what the address says
  let left = null; // the row of the trace that was on the page last
  let drawn = 0; // the latest drawing: a slower one before it is dropped

  const main = () => $("#main");

  // ---- addresses: #/traces?status=failed, #/trace/ID?finding=0.symptoms.0 ----
  function parse() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [page, ...rest] = path.split("/");
    const given = [...new URLSearchParams(query)];
    const asked = Object.fromEntries(given);
    const id = rest.length ? decoded(rest.join("/")) : null;
    return { page: page || (overview.comparisons.length && overview.runs.length > 1 ? "compare" : "overview"), id, asked, filter: filterOf(given) };
  }

  function decoded(text) {
    try { return decodeURIComponent(text); } catch { return text; }
  }

  const FIELDS = ["run", "rubric", "status", "code", "primary", "agreement", "rejected", "differ", "text"];
  function filterOf(given) {
    const filter = { attributes: new Map(), sides: new Map() };
    for (const [key, value] of given) {
      if (FIELDS.includes(key)) filter[key] = value;
      else if (key.startsWith("a.")) filter.attributes.set(key.slice(2), value);
      else if (key.startsWith("s.")) filter.sides.set(key.slice(2), value);
    }
    return filter;
  }

  function query(filter, more = {}) {
    const made = new URLSearchParams();
    for (const key of FIELDS) if (filter[key] !== undefined && filter[key] !== "") made.set(key, filter[key]);
    for (const [key, value] of filter.attributes ?? []) if (value !== "") made.set(`a.${key}`, value);
    for (const [key, value] of filter.sides ?? []) made.set(`s.${key}`, value);
    for (const [key, value] of Object.entries(more)) if (value !== undefined && value !== null) made.set(key, value);
    const text = made.toString();
    return text ? `?${text}` : "";
  }

  const toTraces = (filter) => `#/traces${query(filter)}`;
  const toCompare = (asked) => `#/compare?${new URLSearchParams(asked)}`;
  const toTrace = (id, filter, more) => `#/trace/${encodeURIComponent(id)}${query(filter, more)}`;

  // ---- drawing ----
  async function draw() {
    const mine = ++drawn;
    place = parse();
    for (const one of all("nav a")) {
      if (one.dataset.page === place.page) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
    const pages = { overview: overviewPage, compare: comparePage, traces: tracesPage, trace: tracePage, search: searchPage };
    const page = Object.hasOwn(pages, place.page) ? pages[place.page] : overviewPage;
    try {
      const content = await page(mine);
      if (mine !== drawn) return;
      main().replaceChildren(...[content].flat(Infinity).filter(Boolean));
      turned(main().dataset.ready);
    } catch (error) {
      if (mine === drawn) main().replaceChildren(warning(error.message));
    }
  }

  const warning = (text) => h("p.warning", { role: "alert" }, text);

  // A new page is drawn: its title, and where those who read by keyboard or ear go on.
  function turned(before) {
    main().dataset.ready = place.page;
    $("#said").className = "toast gone"; // what it says is of the page before
    const heading = $("h1", main()).textContent;
    document.title = heading === overview.title ? heading : `${heading} - ${overview.title}`;
    if (before && document.activeElement === document.body) main().focus({ preventScroll: true });
    if (place.page === "trace") return arrive();
    scrollTo(0, 0);
    return before === "trace" && left !== null ? $(`.traces a[data-number="${Number(left)}"]`)?.focus() : undefined;
  }

  // ---- the tables ----
  const overviewPage = () => [h("h1", overview.title), annotator.showTables(overview, toTraces, proof)];

  // The first quotes of a code, with their places: two clicks lead to any other.
  const proof = (filter, code) => source.examples(filter, code, PROOFS).map(({ row, n }) => {
    const [[id, quote] = ["", ""]] = row.findings[n].quotes;
    return { href: toFinding(row, n, filter), quote, id, trace: row.trace_id };
  });
  const toFinding = (row, n, filter) => toTrace(row.trace_id, filter, { row: row.number, finding: row.findings[n] && annotator.findingKey(row, n) });

  const comparePage = () => [h("h1", "Comparison"), annotator.showComparison(overview, source, place.asked, toTraces, toCompare)];

  // ---- the list ----
  function tracesPage() {
    const { filter } = place;
    const rows = source.rows(filter);
    return [h("h1", "Traces"), h("div", filters(filter)), h("p.status", { role: "status" }, annotator.count(rows.length, "annotation")),
      annotator.page(rows, (row) => item(row, filter), h("ol.traces"), PAGE)];
  }

  const SAID = {
    agreement: { agrees: "agrees with the person", differs: "differs from the person", unlabelled: "not labelled" },
    rejected: { true: "with rejected findings", false: "without rejected findings" },
  };
  const sideName = (key) => name(overview.runs[Number(key)]?.short ?? key.replace(/^p\./, ""), 60);
  const shownValue = (key, value) => {
    if (key === "differ") return value.split("~").map(sideName).join(" and ");
    if (key === "run") return name(overview.runs[Number(value)]?.short ?? value);
    return SAID[key]?.[value] ?? name(value, 60);
  };

  function filters(filter) {
    const facets = source.facets(filter);
    const form = h("form.filters", { "aria-label": "Filters", submit: (event) => event.preventDefault() });
    const change = (key, value) => {
      const next = { ...filter, attributes: new Map(filter.attributes) };
      if (key.startsWith("a.")) next.attributes.set(key.slice(2), value);
      else next[key] = value;
      location.hash = toTraces(next);
    };
    const choose = (key, label, values, now) => {
      const options = values.map(([value, count]) => [value, `${shownValue(key, value)} (${count})`]);
      const known = !now || options.some(([value]) => value === now);
      if (!known) options.push([now, shownValue(key, now)]); // what is asked for is shown, found or not
      return h("label", label, h("select", { name: key, change: (event) => change(key, event.target.value) },
        h("option", { value: "" }, "any"), options.map(([value, said]) => h("option", { value, selected: value === now }, said))));
    };
    const text = h("input", { type: "search", name: "text", value: filter.text || "", placeholder: "in ids, quotes, reasons", change: (event) => change("text", event.target.value) });
    const several = (values, now) => values.filter(([value]) => value !== "-").length > 1 || now !== undefined;
    const attributes = new Map([...[...filter.attributes.keys()].map((key) => [key, []]), ...Object.entries(facets.attributes)]);
    form.append(...[
      several(facets.run || [], filter.run) && choose("run", "Run", facets.run, filter.run),
      several(facets.rubric || [], filter.rubric) && choose("rubric", "Rubric", facets.rubric, filter.rubric),
      choose("status", "Status", facets.status || [], filter.status),
      choose("code", "Code", facets.code || [], filter.code),
      filter.primary !== undefined && choose("primary", "Primary code", facets.primary || [], filter.primary),
      overview.labelled && choose("agreement", "Label", facets.agreement || [], filter.agreement),
      several(facets.differ || [], filter.differ) && choose("differ", "Differ", (facets.differ || []).filter(([value]) => inOrder(value)), filter.differ),
      choose("rejected", "Rejected", facets.rejected || [], filter.rejected),
      ...[...attributes].filter(([key, values]) => several(values, filter.attributes.get(key)))
        .map(([key, values]) => choose(`a.${key}`, name(key, 40), values, filter.attributes.get(key))),
      h("label", "Text", text),
      h("a.button", { href: "#/traces" }, "Clear"),
    ].filter(Boolean));
    const { omitted } = facets;
    const narrow = matchMedia("(max-width: 900px)").matches; // there they would fill the screen
    return [
      h("details.filtering", { open: !narrow }, h("summary", ["Filter", ...wanted(filter)].join(" · ")), form),
      filter.sides.size > 0 && h("p.legend", "Only traces where ", [...filter.sides].map(([side, label], n) => [n > 0 && " and ", `${sideName(side)} says `, h("strong", name(label, 64))]), "."),
      ...(omitted.length ? [h("p.legend", `Too many values to choose from: ${omitted.map(([key, count]) => `${name(key, 40)} (${count})`).join(", ")}.`)] : []),
    ];
  }

  // Each pair of sides once: the runs by number, then people.
  const inOrder = (pair) => {
    const [one, other] = pair.split("~").map((key) => (/^\d+$/.test(key) ? key.padStart(6, "0") : `~${key}`));
    return one < other;
  };

  // What is filtered by now, in words.
  const wanted = (filter) => [...Object.entries(filter).filter(([key]) => !["attributes", "sides"].includes(key)), ...filter.attributes]
    .filter(([, value]) => value !== "").map(([key, value]) => `${name(key, 40)} ${shownValue(key, value)}`);

  const codesOf = (row) => [row.primary, ...row.secondary].filter(Boolean);

  function item(row, filter) {
    const chips = row.status === "labelled"
      ? codesOf(row).map((code) => h(`span.chip.code${code === row.primary || !row.primary ? "" : ".second"}`, name(code, 64)))
      : h(`span.chip.${row.status}`, row.status);
    const others = [...new Set([...(filter.differ ?? "").split("~"), ...filter.sides.keys()])].filter((key) => key !== String(row.run) && row.sides[key]);
    const { passed, merge, model } = row.values;
    const n = Math.max(0, row.findings.findIndex((one) => one.code === (filter.primary || filter.code || row.primary)));
    const [[, quote] = []] = row.findings[n]?.quotes ?? [];
    const [why] = (row.why ?? row.findings[n]?.rationale ?? "").trim().split("\n");
    return h("li", h("a", { href: toFinding(row, n, filter), "data-number": row.number },
      h("span.id", name(row.trace_id, 300)),
      h("span.what", overview.runs.length > 1 && h("span.run", name(overview.runs[row.run].short)), Object.keys(overview.codes).length > 1 && h("span.rubric", name(row.rubric, 64)), chips,
        others.map((key) => h("span.chip.other", `${sideName(key)}: `, h("strong", row.sides[key].map((label) => name(label, 64)).join(", ")))),
        row.rejected > 0 && h("span.chip.rejected", `${row.rejected} rejected`),
        row.refuted > 0 && h("span.chip.rejected", `${row.refuted} refuted by the critic`),
        row.agreement && row.agreement !== "unlabelled" && !others.length && h(`span.chip.${row.agreement}`, row.agreement === "agrees" ? "person agrees" : `person: ${row.human.map((one) => name(one, 64)).join(", ")}`),
        h("span.facts", [passed === "true" && "task passed", passed === "false" && "task failed", merge && name(merge, 40), model && name(model, 60)].filter(Boolean).join(" · "))),
      quote && h("q", annotator.passage(quote, 300)), why && h("span.why", name(why, 400))));
  }

  // ---- one trace ----
  async function tracePage(mine) {
    const { id, asked, filter } = place;
    const found = await source.trace(id);
    view = found.error ? null : view;
    if (found.error) return [h("h1", name(id ?? "", 400)), warning(name(found.error, 600))];
    const row = asked.row ?? found.row ?? null;
    const near = row === null ? null : source.neighbours(row, filter);
    if (mine !== drawn) return null; // another page was asked for meanwhile: it has `view` and `place`
    left = row;
    const [start, end] = [Number(asked.start), Number(asked.end)]; // what the search found
    const shown = annotator.showFindings(overview, found, { show, link: (finding) => toTrace(id, filter, { ...asked, finding, quote: null }), selected: () => annotator.selected(view) });
    if (asked.source && start < end) shown.mark({ source: asked.source, start, end }, "found", "found", "found");
    view = annotator.showTrace(found.trace, shown.marks, source.steps ? (agent, from) => source.steps(id, agent, from) : null, found.facts);
    Object.assign(view, { quotes: shown.quotes, says: shown.says, walk: walked(found, shown.quotes, filter), near, at: h("span.legend", { role: "status" }) });
    view.element.addEventListener("click", toCard);
    return [
      h("div.near", h("a.button", { href: toTraces(filter), "data-go": "list" }, "List"), step(near?.previous, "Previous", "previous"), step(near?.next, "Next", "next"),
        near?.total > 0 && h("span.legend", `${near.position} of ${near.total}`),
        h("span.walk", turner(-1, "‹", "Previous quote"), view.at, turner(1, "›", "Next quote"))), h("header.title", h("h1", name(id, 400)), h("p.facts", attributes(found.trace))),
      h("div.reading", h("aside", { "aria-label": "Findings" }, shown.cards), view.element),
    ];
  }

  // From a marked passage to the finding that rests on it.
  function toCard(event) {
    const mark = getSelection().isCollapsed && event.target.closest("mark");
    const button = mark && all("button.quote").find((one) => mark.dataset.keys.split(" ").includes(one.dataset.quote));
    if (button) button.focus();
  }

  function step(to, label, go) {
    return to ? h("a.button", { href: toTrace(to.trace_id, place.filter, { row: to.number }), "data-go": go }, label) : h("span.button", { "aria-disabled": "true" }, label);
  }

  const attributes = (trace) =>
    Object.entries(trace.attributes).filter(([, value]) => value !== null).map(([key, value]) => [h("span.chip", `${name(key, 40)} ${name(typeof value === "object" ? JSON.stringify(value) : value, 80)}`), " "]);

  // The quotes to walk through: of the findings and of people's labels that the filter lets
  // through, if it lets any.
  function walked(found, quotes, filter) {
    const code = filter.primary || filter.code;
    const run = filter.differ || filter.sides.size ? "" : filter.run; // where sides differ, the quotes of all
    const starts = found.annotations
      .filter((one) => (!run || run === String(one.run)) && (!filter.rubric || filter.rubric === one.rubric))
      .flatMap((one) => one.findings.flatMap((finding, n) => (!code || finding.code === code ? [`${annotator.findingKey(one, n)}.`] : [])));
    const people = found.labels
      .filter((one) => (!filter.rubric || filter.rubric === one.rubric) && (!code || [one.primary, ...one.secondary].includes(code)))
      .map((one) => annotator.findingKey(one, ""));
    const some = quotes.filter((key) => [...starts, ...people].some((start) => key.startsWith(start)));
    return some.length ? some : quotes;
  }

  const turner = (by, sign, label) => h("button", { type: "button", "aria-label": label, title: label, click: () => turn(by) }, sign);

  // The next quote; after the last one the next trace of the list.
  function turn(by) {
    if (!view) return undefined;
    const beyond = view.walk.filter((key) => by * (view.quotes.indexOf(key) - (view.now ?? -by * Infinity)) > 0);
    if (beyond.length) return show(beyond.at(by > 0 ? 0 : -1));
    const to = by > 0 ? view.near?.next : view.near?.previous;
    if (!to) return annotator.say(by > 0 ? "This is the last quote." : "This is the first quote.");
    return (location.hash = toTrace(to.trace_id, place.filter, { row: to.number, at: by > 0 ? null : "last" }));
  }

  // Show a quote in its place, and which finding it belongs to.
  function show(key) {
    view.now = view.quotes.indexOf(key);
    const n = view.walk.indexOf(key);
    view.at.textContent = n < 0 ? "" : `quote ${n + 1} of ${view.walk.length}: ${name(view.says.get(key), 120)}`;
    for (const one of all("button.quote")) {
      one.classList.toggle("current", one.dataset.quote === key);
      if (one.dataset.quote === key) one.scrollIntoView({ block: "nearest" });
    }
    const there = annotator.reveal(view, key);
    if (!there) annotator.say("This quote cannot be shown in its place.", "error");
  }

  function arrive() {
    if (!view) return scrollTo(0, 0);
    const { finding, quote: asked, source: id } = place.asked;
    const first = finding && (view.quotes.find((key) => key === `${finding}.${asked ?? 0}`) || view.quotes.find((key) => key.startsWith(`${finding}.`)));
    if (first) return show(first);
    const element = finding && document.getElementById(`finding-${finding}`);
    if (element) return element.scrollIntoView({ block: "center" });
    if (id && annotator.reveal(view, "found")) return undefined;
    const own = new Set(all("mark", view.element).flatMap((one) => one.dataset.keys.split(" ")));
    const marked = id ? [] : view.walk.filter((key) => own.has(key));
    return marked.length ? show(marked.at(place.asked.at === "last" ? -1 : 0)) : scrollTo(0, 0);
  }

  // ---- the search ----
  async function searchPage(mine) {
    const asked = place.asked.q || "";
    if (!asked) return [h("h1", "Search"), h("p", "Type what to look for into the field above: words of messages, patches and outcomes. Quotes and rationales are looked through by the field Text above the list of traces.")];
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
    if (annotator.typing(event) || ($("dialog[open]") && event.key !== "?")) return undefined;
    const go = (selector) => $(selector)?.click();
    const move = (by) => {
      const links = all(".traces a, .hits a");
      if (!links.length) return;
      const now = links.indexOf(document.activeElement);
      links[Math.min(links.length - 1, Math.max(0, now + by))].focus();
    };
    const trace = place.page === "trace";
    const current = document.activeElement.closest?.(".finding") ?? $("button.quote.current")?.closest(".finding");
    const press = (key) => {
      if (!trace || !overview.review) return;
      const pressed = "de".includes(key) ? $(`[data-review=${key}]`) : current && $(`[data-review=${key}]`, current);
      if (!pressed) annotator.say("No finding is in focus: n and p go from quote to quote.");
      else if (key === "c") pressed.focus();
      else pressed.click();
    };
    const commands = {
      "/": () => $("#search").focus(),
      "?": openHelp,
      o: () => (location.hash = "#/overview"),
      a: () => press("a"),
      r: () => press("r"),
      d: () => press("d"),
      e: () => press("e"),
      c: () => {
        if (trace && overview.review) press("c");
        else if (overview.comparisons.length) location.hash = "#/compare";
      },
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

  annotator.start = async function start(found, list) {
    source = list;
    overview = { ...found, title: name(found.title, 400) };
    $("nav [data-page=compare]").hidden = !overview.comparisons.length;
    openHelp = annotator.frame([["j k", "next, previous trace"], ["n p", "next, previous quote, on to the next trace"], ["u", "back to the list"], ["o", "the tables"], ["c", "the comparison, if there is one"], ...(overview.review ? [["a r c", "accept, reject, comment on the finding in focus"], ["e", "add the code chosen, with the selected text"], ["d", "done with this trace"]] : []), ["t", "the traces"], ["/", "search"], ["?", "these keys"]]);
    $("#search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      location.hash = `#/search?${new URLSearchParams({ q: $("#search").value })}`;
    });
    document.addEventListener("keydown", keys);
    addEventListener("hashchange", draw);
    await draw();
  };
})();
