// The comparison of judges, people or conditions: how often two sides agree, and shares on one axis.
"use strict";

(function () {
  const { h, name } = annotator;

  function shares(one, link) {
    const drawn = one.rows.map((row) => ({ row, sides: row.sides.map(({ drawn: [share, corrected] }) => ({ share, corrected })) }));
    const largest = ({ row, sides }) => (row.code === "none" ? -1 : Math.max(0, ...sides.map(({ share, corrected }) => (corrected ?? share)?.[1] ?? 0)));
    drawn.sort((first, second) => largest(second) - largest(first));
    const top = annotator.ceiling({ rows: drawn.flatMap(({ sides }) => sides) });
    const percent = Math.round(100 * top);
    const axis = () => h("th.plot", { scope: "col" }, h("span.said", "interval"), h("span.axis", { "aria-hidden": "true" }, h("span", "0"), h("span", `${percent} %`)));
    const head = [
      h("tr", h("th", { rowspan: 2, scope: "col" }, "code"), one.sides.map((side) => h("th.side", { colspan: 2, scope: "colgroup" }, name(side.name, 60), h("span.name", side.n === null ? "" : `n = ${side.n}`))),
        one.more.map((cell) => h("th", { rowspan: 2, scope: "col" }, cell))),
      h("tr", one.sides.map(() => [h("th.side", { scope: "col" }, "share"), axis()])),
    ];
    const [judged, corrected] = ["share", "corrected"].map((kind) => one.rows.some((row) => row.sides.some((side) => side[kind])));
    const body = drawn.map(({ row, sides }) => h(`tr${row.code === "none" ? ".last" : ""}`,
      h("th", { scope: "row", title: row.name }, name(row.code, 64)),
      row.sides.map((side, n) => [
        h("td.side", h("span.head", name(one.sides[n].name, 60)), link(one, n, row.code, side)),
        h("td.plot", annotator.drawInterval(sides[n], top))]),
      row.more.map((cell, n) => h("td.more", h("span.head", one.more[n]), cell))));
    return [
      h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Shares by ${one.title}` }, h("table.counts.sides", h("thead", head), h("tbody", body))),
      h("p.legend", judged && [h("span.dot.judged"), " share in percent with its 95 % interval"], judged && corrected && " · ", corrected && [h("span.dot.corrected"), " corrected by the labels"], `; all on one scale, 0 to ${percent} %. `, one.cells && name(one.cells, 2000)),
    ];
  }

  // The run whose rows are listed for some sides: one of theirs, else the first of all.
  const runOf = (one, ...keys) => [...keys, ...one.sides.map((side) => side.key)].find((key) => /^\d+$/.test(key));

  // The traces of two sides by what each says.
  function matrix(one, [first, second], source, toTraces) {
    const { cells, labels, both, single } = source.compare(one.rubric, first.key, second.key);
    const order = [...one.rows.map((row) => row.code), ...labels.filter((label) => !one.rows.some((row) => row.code === label))];
    const shown = order.filter((label) => labels.includes(label));
    const address = (row, column) => toTraces({ rubric: one.rubric, run: runOf(one, first.key, second.key), sides: new Map([[first.key, row], [second.key, column]]), attributes: new Map() });
    return [
      annotator.drawMatrix("Codes of both sides", shown, (row, column) => cells.get(`${row}\n${column}`) ?? 0, address, `Rows: ${name(first.name, 60)}. Columns: ${name(second.name, 60)}.`),
      h("p.legend", [`${annotator.count(both, "trace")} in both`, one.primary && "each by its primary code", one.many && "one with several codes in several cells", single && `${annotator.count(single, "trace")} in one only, not counted here`].filter(Boolean).join("; "), ". Framed: both say the same. A number opens its traces."),
    ];
  }

  // Each two sides: where they differ, and kappa. The cells of the two in the address beside it.
  function agreement(one, asked, source, toTraces, toCompare) {
    const side = (key) => one.sides.find((each) => each.key === key);
    const now = one.pairs.find(({ sides }) => sides.includes(asked.first) && sides.includes(asked.second)) ?? one.pairs[0];
    const row = (pair) => {
      const [first, second] = pair.sides;
      const filter = { rubric: one.rubric, run: runOf(one, first, second), differ: `${first}~${second}`, attributes: new Map() };
      const differ = source.count(filter);
      return h("tr", h("th", { scope: "row" }, h("a", { href: toCompare({ rubric: one.rubric, first, second }), "aria-current": pair === now && "true" }, `${name(side(first).name, 60)} and ${name(side(second).name, 60)}`)),
        h("td", differ ? h("a", { href: toTraces(filter), "aria-label": `${annotator.count(differ, "trace")} where they differ` }, differ) : pair.n ? 0 : "-"), h("td", pair.n), h("td.estimate", pair.kappa));
    };
    return h("div.agreement",
      h("section", { "aria-label": "Agreement" }, h("h3", "Agreement"),
        h("table.counts.pairs", h("thead", h("tr", ["two sides", "differ", "traces", "kappa"].map((cell) => h("th", { scope: "col" }, cell)))), h("tbody", one.pairs.map(row))),
        h("p.legend", "traces: judged or labelled by both. kappa: agreement beyond chance (1: always, 0: no more than by chance), with its 95 % interval.")),
      h("section", { "aria-label": "Code by code" }, h("h3", "Code by code"), matrix(one, now.sides.map(side), source, toTraces)));
  }

  // `asked`: the rubric and the two sides in the address.
  annotator.showComparison = function showComparison(overview, source, asked, toTraces, toCompare) {
    // The count and share of a code on a side; a link to the traces if there are any.
    const link = (one, n, code, { count, share, corrected, drawn }) => {
      const { key } = one.sides[n];
      const own = one.primary && code !== "none" ? "primary" : "code";
      const filter = one.by ? { [own]: code, attributes: new Map([[one.by, key]]) } : { run: runOf(one, key), sides: new Map([[key, code]]), attributes: new Map() };
      const linked = (...text) => h("a", { href: toTraces({ rubric: one.rubric, ...filter }) }, text);
      const shown = h("span", share, corrected && h("span.name.corrected", corrected));
      if (one.by) return (drawn[0] ?? drawn[1])?.[1] ? linked(shown) : shown;
      return [count && h("span.count", count.startsWith("0/") ? count : linked(count), " "), shown];
    };
    const primary = (rubric) => overview.tables.some((table) => table.rubric === rubric && table.primary);
    return overview.comparisons.map((found) => ({ ...found, primary: primary(found.rubric) })).map((one) => h("section.comparison", { "aria-label": `Comparison: ${one.title}` },
      h("h2", name(one.title, 120)),
      one.problem ? h("p.warning", name(one.problem, 1000)) : [
        one.sentence && h("p.result", name(one.sentence, 2000)),
        one.pairs.length > 0 && [agreement(one, asked.rubric === one.rubric ? asked : {}, source, toTraces, toCompare), h("h3", "Shares")],
        shares(one, link),
        one.first.length > 0 && h("ul.notes", one.first.map((note) => h("li", name(note, 2000)))),
        one.notes.length > 0 && h("details", h("summary", annotator.count(one.notes.length, "more note")), h("ul.notes", one.notes.map((note) => h("li", name(note, 2000)))))]));
  };
})();
