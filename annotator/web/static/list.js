// The annotations of runs: listed, filtered, counted and searched in the page. A trace is loaded
// when it is needed.
"use strict";

(function () {
  // What of a row each part of the filter looks at.
  const codes = (row) => (row.status === "none" ? ["none"] : [row.primary, ...row.secondary].filter(Boolean));
  const LOOKS = {
    run: (row) => [String(row.run)],
    rubric: (row) => [row.rubric],
    status: (row) => [row.status],
    code: codes,
    primary: (row) => (row.primary === null ? [] : [row.primary]),
    agreement: (row) => (row.agreement === null ? [] : [row.agreement]),
    rejected: (row) => [String(row.rejected > 0)],
    differ: (row) => row.differing,
  };
  // What a part of the filter looks at in a row: "s." and a side, "a." and an attribute, or one of LOOKS.
  function looks(key) {
    const rest = key.slice(2);
    if (key.startsWith("s.")) return (row) => row.sides[rest] ?? [];
    if (!key.startsWith("a.")) return LOOKS[key];
    return (row) => [Object.hasOwn(row.values, rest) ? row.values[rest] : "-"]; // as tables name it
  }

  function wanted(filter) {
    const parts = Object.keys(LOOKS).filter((key) => filter[key] !== undefined && filter[key] !== "").map((key) => [key, String(filter[key])]);
    for (const [key, value] of filter.attributes) if (value !== "") parts.push([`a.${key}`, value]);
    for (const [key, value] of filter.sides ?? []) parts.push([`s.${key}`, value]);
    return parts;
  }

  const words = (row) => [row.trace_id, row.text, row.why ?? "", ...row.findings.flatMap((one) => [one.rationale, ...one.quotes.map(([, quote]) => quote)])].join("\n");

  function matching(rows, filter, but = null) {
    const parts = wanted(filter).filter(([key]) => key !== but).map(([key, value]) => [looks(key), value]);
    const text = (filter.text || "").toLowerCase();
    return rows.filter((row) => parts.every(([look, value]) => look(row).includes(value)) && (!text || words(row).toLowerCase().includes(text)));
  }

  // What each side says of a trace, by rubric and trace; the rows get it, and the pairs that differ.
  function joined(rows) {
    const rubrics = new Map();
    for (const row of rows) {
      if (!rubrics.has(row.rubric)) rubrics.set(row.rubric, new Map());
      const traces = rubrics.get(row.rubric);
      if (!traces.has(row.trace_id)) traces.set(row.trace_id, { sides: Object.create(null), differing: [] });
      ({ sides: row.sides, differing: row.differing } = traces.get(row.trace_id));
      Object.assign(row.sides, row.people);
      row.sides[row.run] = row.verdict ?? [];
    }
    for (const traces of rubrics.values()) for (const { sides, differing } of traces.values()) {
      const said = Object.keys(sides).filter((side) => !["undecided", "failed", "skipped"].includes(sides[side][0])).map((side) => [side, [...sides[side]].sort().join("+")]);
      for (const [one, first] of said) for (const [other, second] of said) if (first !== second) differing.push(`${one}~${other}`);
    }
    return rubrics;
  }

  const MOST = 200; // values of an attribute to choose from
  const HITS = 50; // what a search gives at once

  function counts(rows, key) {
    const [found, look] = [new Map(), looks(key)];
    for (const row of rows) for (const value of look(row)) found.set(value, (found.get(value) || 0) + 1);
    return found.size > MOST ? [...found] : [...found].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  }

  // `load` gets a trace with its annotations by id; `steps` some steps of an agent, if there is one.
  annotator.List = class List {
    constructor(rows, load, steps = null) {
      Object.assign(this, { all: rows, load, steps });
      this.names = [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
      this.ids = [...new Set(rows.map((row) => row.trace_id))];
      this.sides = joined(rows);
    }
    count(filter) {
      return matching(this.all, filter).length;
    }
    // What two sides say of each trace of a rubric: the traces of each cell "first\nsecond".
    compare(rubric, first, second) {
      const cells = new Map();
      const labels = new Set();
      let [both, single] = [0, 0];
      for (const { sides } of this.sides.get(rubric)?.values() ?? []) {
        const [one, other] = [sides[first], sides[second]].map((labels) => (labels?.[0] === "skipped" ? undefined : labels));
        if (one && other) both++;
        else if (one || other) single++;
        for (const row of (other && one) || []) for (const column of other) {
          cells.set(`${row}\n${column}`, (cells.get(`${row}\n${column}`) ?? 0) + 1);
          labels.add(row).add(column);
        }
      }
      return { cells, labels: [...labels], both, single };
    }
    rows(filter) {
      return matching(this.all, filter);
    }
    facets(filter) {
      const [asked, under] = [wanted(filter).map(([key]) => key), matching(this.all, filter)];
      const count = (key) => counts(asked.includes(key) ? matching(this.all, filter, key) : under, key);
      const facets = Object.fromEntries(Object.keys(LOOKS).map((key) => [key, count(key)]));
      const all = this.names.map((key) => [key, count(`a.${key}`)]);
      const attributes = Object.fromEntries(all.filter(([, values]) => values.length <= MOST));
      const omitted = all.filter(([, values]) => values.length > MOST).map(([key, values]) => [key, values.length]);
      return { ...facets, attributes, omitted };
    }
    // The first findings of a code, each of another trace: its row, and its number in that.
    examples(filter, code, most) {
      const found = new Map();
      for (const row of matching(this.all, filter)) {
        const n = row.findings.findIndex((one) => one.code === code);
        if (n >= 0 && !found.has(row.trace_id)) found.set(row.trace_id, { row, n });
        if (found.size === most) break;
      }
      return [...found.values()];
    }
    async trace(id) {
      return { row: this.all.find((row) => row.trace_id === id)?.number, ...await this.load(id) };
    }
    neighbours(row, filter) {
      const found = matching(this.all, filter);
      const at = found.findIndex((one) => String(one.number) === String(row));
      if (at < 0) return null;
      const here = found[at].trace_id;
      const other = (by) => {
        for (let n = at + by; n >= 0 && n < found.length; n += by) if (found[n].trace_id !== here) return found[n];
        return null;
      };
      return { previous: other(-1), next: other(1), position: at + 1, total: found.length };
    }
    // `cursor`: how many traces were searched, how many hits of the next were given, how many
    // traces could not be read.
    async search(query, cursor) {
      const until = performance.now() + 300;
      const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
      const hits = [];
      let [at, given, unread] = cursor ?? [0, 0, 0];
      const answer = (on) => ({ hits, cursor: on ? [at, given, unread] : null, searched: at - unread, unread });
      while (at < this.ids.length) {
        const { trace } = await this.load(this.ids[at]);
        let n = 0;
        for (const one of found(trace, pattern)) {
          if (n++ < given) continue;
          if (hits.length === HITS) return answer(true);
          hits.push(one());
          given++;
        }
        if (trace.format === "unreadable") unread++;
        [at, given] = [at + 1, 0];
        if (performance.now() > until) return answer(at < this.ids.length);
      }
      return answer(false);
    }
  };

  function* texts(trace) {
    for (const one of trace.messages) yield [`message:${one.n}`, one.text];
    for (const one of trace.patches) yield [`patch:${one.agent}`, one.text];
    if (trace.outcome.text) yield ["outcome", trace.outcome.text];
  }

  const points = (part) => (/[\ud800-\udbff]/.test(part) ? [...part].length : part.length);

  // What makes each hit of a trace: a search may skip thousands.
  function* found(trace, pattern) {
    for (const [source, text] of texts(trace)) {
      let [unit, start] = [0, 0];
      for (const { 0: words, index } of text.matchAll(pattern)) {
        start += points(text.slice(unit, index));
        unit = index;
        const from = start;
        yield () => {
          const before = text.slice(Math.max(0, index - 80), index);
          const after = text.slice(index + words.length, index + words.length + 120);
          const match = [points(before), points(before) + points(words)];
          return { trace_id: trace.id, source, start: from, end: from + points(words), excerpt: before + words + after, match };
        };
      }
    }
  }
})();
