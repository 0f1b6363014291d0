// The comparison of judges, people or conditions: shares on one axis, and a matrix of two sides.
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
        h("td.side", h("span.head", name(one.sides[n].name, 60)), link(one, n, row.code, side.count), h("span", side.share, side.corrected && h("span.name.corrected", side.corrected))),
        h("td.plot", annotator.drawInterval(sides[n], top))]),
      row.more.map((cell, n) => h("td.more", h("span.head", one.more[n]), cell))));
    return [
      h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Shares by ${one.title}` }, h("table.counts.sides", h("thead", head), h("tbody", body))),
      h("p.legend", judged && [h("span.dot.judged"), " share in percent with its 95 % interval"], judged && corrected && " · ", corrected && [h("span.dot.corrected"), " corrected by people's labels"], `; all on one scale, 0 to ${percent} %. `, one.cells && name(one.cells, 2000)),
    ];
  }

  const judged = (sides) => sides.find((side) => /^\d+$/.test(side.key))?.key; // the first run of some sides

  // The traces of two sides by what each says: `counts.get("a\nb")`, and how many only one judged.
  function matrix(one, [first, second], source, toTraces) {
    const { cells, labels, both, single } = source.compare(one.rubric, first.key, second.key);
    const order = [...one.rows.map((row) => row.code), ...labels.filter((label) => !one.rows.some((row) => row.code === label))];
    const shown = order.filter((label) => labels.includes(label));
    const run = judged([first, second]);
    const address = (row, column) => toTraces({ rubric: one.rubric, run, sides: new Map([[first.key, row], [second.key, column]]), attributes: new Map() });
    return [
      annotator.drawMatrix("Codes of both sides", shown, (row, column) => cells.get(`${row}\n${column}`) ?? 0, address, `Rows: ${name(first.name, 60)}. Columns: ${name(second.name, 60)}.`),
      h("p.legend", `${annotator.count(both, "trace")} of both sides${one.many ? "; a trace with several codes is in several cells" : ""}${single ? `; ${annotator.count(single, "trace")} of one side only, not counted` : ""}.`),
    ];
  }

  function pairs(one, asked, source, toTraces, toCompare) {
    const pick = (key, but) => one.sides.find((side) => side.key === key && side !== but) ?? one.sides.find((side) => side !== but);
    const first = pick(asked.first);
    const second = pick(asked.second, first);
    const choose = (label, now, next) => h("label", label, h("select", { change: (event) => (location.hash = next(event.target.value)) },
      one.sides.map((side) => h("option", { value: side.key, selected: side === now }, name(side.name, 60)))));
    const pair = one.pairs.find(({ sides }) => sides.includes(first.key) && sides.includes(second.key));
    const differing = { rubric: one.rubric, run: judged([first, second, ...one.sides]), differ: `${first.key}~${second.key}`, attributes: new Map() };
    return [
      h("h3", "Two sides, code by code"),
      h("form.filters", { "aria-label": "Two sides", submit: (event) => event.preventDefault() },
        choose("Rows", first, (key) => toCompare({ rubric: one.rubric, first: key, second: key === second.key ? first.key : second.key })),
        choose("Columns", second, (key) => toCompare({ rubric: one.rubric, first: key === first.key ? second.key : first.key, second: key }))),
      pair && h("p.kappa", h("strong", `kappa ${pair.kappa}`), `, n = ${pair.n} traces that both judged. `,
        source.count(differing) > 0 && h("a", { href: toTraces(differing) }, "The traces where they differ")),
      matrix(one, [first, second], source, toTraces),
    ];
  }

  // `asked`: the rubric and the two sides in the address.
  annotator.showComparison = function showComparison(overview, source, asked, toTraces, toCompare) {
    const link = (one, n, code, count) => {
      if (!count) return "";
      const { key } = one.sides[n];
      if (count.startsWith("0/")) return h("span.count", `${count} `);
      const filter = judged([one.sides[n]]) ? { run: key, code } : { run: one.sides[0].key, sides: new Map([[key, code]]) };
      return h("a.count", { href: toTraces({ rubric: one.rubric, attributes: new Map(), ...filter }) }, `${count} `);
    };
    return overview.comparisons.map((one) => h("section.comparison", { "aria-label": `Comparison: ${one.title}` },
      h("h2", name(one.title, 120)),
      one.problem ? h("p.warning", name(one.problem, 1000)) : [
        one.sentence && h("p.result", name(one.sentence, 2000)),
        shares(one, link),
        one.first.length > 0 && h("ul.notes", one.first.map((note) => h("li", name(note, 2000)))),
        one.pairs.length > 0 && pairs(one, asked.rubric === one.rubric ? asked : {}, source, toTraces, toCompare),
        one.notes.length > 0 && h("details", h("summary", annotator.count(one.notes.length, "more note")), h("ul.notes", one.notes.map((note) => h("li", name(note, 2000)))))]));
  };
})();
