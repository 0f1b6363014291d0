// The first page of a report: the tables, and what the runs are.
"use strict";

(function () {
  const { h, name } = annotator;

  function table(one, toTraces, proof) {
    const plotted = one.rows.some((row) => row.share || row.corrected);
    const top = plotted ? ceiling(one) : 1;
    const width = one.header.length + (plotted ? 1 : 0);
    const head = h("tr", one.header.map((cell) => h("th", { scope: "col" }, cell)),
      plotted && h("th.plot", { scope: "col" }, h("span.said", "interval"), h("span.axis", { "aria-hidden": "true" }, h("span", "0"), h("span", `${Math.round(100 * top)} %`))));
    const filter = { rubric: one.rubric, run: one.run, attributes: new Map(one.group ? [one.group] : []) };
    const body = one.rows.map((row, n) => {
      const own = { ...filter, [one.primary && row.kind === "code" && row.count ? "primary" : "code"]: row.code };
      const linked = row.kind !== "group";
      const line = h(`tr${row.kind === "none" || (row.kind === "group" && one.rows[n - 1].kind !== "group") ? ".last" : ""}`,
        h("th", { scope: "row" }, linked ? h("a", { href: toTraces(own), title: row.name }, name(row.code, 64)) : h("span.label", name(row.code, 80), row.kind === "group" && " (group)"), says(row) && h("span.name", name(row.name, 80))),
        row.cells.map((cell) => h("td", cell)), plotted && h("td.plot", interval(row, top)));
      const quotes = linked && row.kind === "code" && row.count ? proof(own, row.code) : [];
      return [line, quotes.length > 0 && h("tr.proof", h("td", { colspan: width }, h("ul", quotes.map((quote, k) => shownProof(quote,
        k + 1 === quotes.length && row.count > quotes.length && h("a.more", { href: toTraces(own) }, `all ${annotator.count(row.count, "trace")}`))))))];
    });
    return h("section.table", { "aria-label": `Table of ${name(one.title, 400)}` },
      h("h2", name(one.title, 400)), h("p.result", name(one.sentence, 2000)),
      one.rows.length > 0 && h("div.scroll", h("table.counts", h("thead", head), h("tbody", body))),
      plotted && h("p.legend", h("span.dot.judged"), " judged, 95 % interval", one.corrected && [" · ", h("span.dot.corrected"), " corrected by the labels"]),
      one.votes.length > 0 && h("details", h("summary", "Votes"), h("ul", one.votes.map((line) => h("li", name(line, 2000))))),
      one.critic.length > 0 && h("details", h("summary", name(one.critic[0], 200)), h("ul", one.critic.slice(1).map((line) => h("li", name(line, 200))))),
      h("ul.notes", one.notes.map((note) => h("li", name(note, 2000)))),
      one.full.rows.length > 0 && h("details", h("summary", `All columns${one.more.length ? ` and ${annotator.count(one.more.length, "more note")}` : ""}`),
        h("p.heading", annotator.passage(one.full.title, 2000)),
        h("div.scroll", scrolled(`All columns of ${one.title}`), h("table.counts.full", h("thead", h("tr", one.full.header.map((cell) => h("th", { scope: "col" }, cell)))),
          h("tbody", one.full.rows.map(([first, ...rest]) => h("tr", h("th", { scope: "row" }, name(first, 80)), rest.map((cell) => h("td", cell))))))),
        h("ul.notes", one.more.map((note) => h("li", name(note, 2000))))));
  }

  // A table without links in it: the keyboard can scroll it.
  const scrolled = (label) => ({ tabindex: "0", role: "region", "aria-label": name(label) });

  // Whether the name of a code says more than the code.
  const says = (row) => row.kind !== "code" || row.name.toLowerCase().replaceAll(" ", "_") !== row.code.toLowerCase();

  const shownProof = (one, more) => h("li", h("a", { href: one.href }, h("q", annotator.passage(one.quote, 300))), " ", h("span.where", `${name(one.id, 80)} · ${name(one.trace, 120)}`), " ", more);

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
      if (value !== null) make("line", { class: `${kind} value`, x1: x(value), x2: x(value), y1: y - 4, y2: y + 4 });
    };
    draw(row.share, "judged", row.corrected ? 6 : 10);
    draw(row.corrected, "corrected", row.share ? 14 : 10);
    return svg;
  }

  // The codes of traces by two sides: `count(row, column)` traces, and the address of each.
  function matrix(label, codes, count, link, caption) {
    const most = Math.max(1, ...codes.flatMap((row) => codes.map((column) => count(row, column))));
    const cell = (row, column) => {
      const n = count(row, column);
      const made = h(`td${row === column ? ".same" : ""}`, n > 0 && h("a", { href: link(row, column), "aria-label": `${n}: ${name(row, 64)} and ${name(column, 64)}` }, n));
      if (n) made.style.setProperty("--share", `${Math.round((70 * n) / most) + 8}%`);
      return made;
    };
    return h("div.scroll", scrolled(label), h("table.matrix", h("caption", caption),
      h("thead", h("tr", h("th"), codes.map((code) => h("th", { scope: "col" }, h("span", name(code, 64)))))),
      h("tbody", codes.map((row) => h("tr", h("th", { scope: "row" }, name(row, 64)), codes.map((column) => cell(row, column)))))));
  }

  function about(run) {
    const row = ([term, text]) => [h("dt", term), h("dd", name(text, 600))];
    return h("details.run", h("summary", `Run ${name(run.name, 120)}`), h("dl.facts", run.facts.map(row)));
  }

  Object.assign(annotator, { ceiling, drawInterval: interval, drawMatrix: matrix });

  // `toTraces(filter)` is the address of the traces that a filter lets through.
  // `proof(filter, code)` are quotes of a code with the addresses of their places.
  annotator.showTables = (overview, toTraces, proof) =>
    [overview.tables.map((one) => table(one, toTraces, proof)), overview.runs.map(about)];
})();
