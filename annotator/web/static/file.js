// The report as one file: the data stands in the page, each trace compressed until it is opened.
"use strict";

(function () {
  const { $, all } = annotator;

  async function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // What of a row each part of the filter looks at.
  const codes = (row) => (row.status === "none" ? ["none"] : [row.primary, ...row.secondary].filter(Boolean));
  const LOOKS = {
    run: (row) => [String(row.run)],
    rubric: (row) => [row.rubric],
    status: (row) => [row.status],
    code: codes,
    agreement: (row) => (row.agreement === null ? [] : [row.agreement]),
    rejected: (row) => [String(row.rejected > 0)],
  };
  const look = (row, key) => {
    if (!key.startsWith("a.")) return LOOKS[key](row);
    return Object.hasOwn(row.values, key.slice(2)) ? [row.values[key.slice(2)]] : [];
  };

  function wanted(filter) {
    const parts = Object.keys(LOOKS).filter((key) => filter[key] !== undefined && filter[key] !== "").map((key) => [key, String(filter[key])]);
    for (const [key, value] of filter.attributes) if (value !== "") parts.push([`a.${key}`, value]);
    return parts;
  }

  function matching(rows, filter, but = null) {
    const parts = wanted(filter).filter(([key]) => key !== but);
    const text = (filter.text || "").toLowerCase();
    return rows.filter((row) => parts.every(([key, value]) => look(row, key).includes(value)) && (!text || row.text.toLowerCase().includes(text)));
  }

  const MOST = 200; // values of an attribute to choose from
  const HITS = 50; // what a search gives at once

  function counts(rows, filter, key) {
    const found = new Map();
    for (const row of matching(rows, filter, key)) for (const value of look(row, key)) found.set(value, (found.get(value) || 0) + 1);
    return [...found].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  }

  class FileSource {
    constructor(overview, rows, traces) {
      Object.assign(this, { shown: overview, list: rows, traces });
      this.names = [...new Set(rows.flatMap((row) => Object.keys(row.values)))];
    }
    async overview() { return this.shown; }
    async rows(filter, offset, limit) {
      const found = matching(this.list, filter);
      return { total: found.length, rows: found.slice(offset, offset + limit) };
    }
    async facets(filter) {
      const facets = Object.fromEntries(Object.keys(LOOKS).map((key) => [key, counts(this.list, filter, key)]));
      const all = this.names.map((key) => [key, counts(this.list, filter, `a.${key}`)]);
      const attributes = Object.fromEntries(all.filter(([, values]) => values.length <= MOST));
      const omitted = all.filter(([, values]) => values.length > MOST).map(([key, values]) => [key, values.length]);
      return { ...facets, attributes, omitted };
    }
    async trace(id) {
      const n = this.traces.get(id);
      if (n === undefined) return { error: "This trace is not in the report." };
      const found = await unpacked($(`script[data-trace="${n}"]`));
      return { ...found, row: this.list.find((row) => row.trace_id === id)?.number };
    }
    async neighbours(row, filter) {
      const found = matching(this.list, filter);
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
      const ids = [...this.traces.keys()];
      const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
      const hits = [];
      let [at, given, unread] = cursor ?? [0, 0, 0];
      const answer = (on) => ({ hits, cursor: on ? [at, given, unread] : null, searched: at - unread, unread });
      while (at < ids.length) {
        const { trace } = await unpacked($(`script[data-trace="${this.traces.get(ids[at])}"]`));
        let n = 0;
        for (const one of found(trace, pattern)) {
          if (n++ < given) continue;
          if (hits.length === HITS) return answer(true);
          hits.push(one());
          given++;
        }
        if (trace.format === "unreadable") unread++;
        [at, given] = [at + 1, 0];
        if (performance.now() > until) return answer(at < ids.length);
      }
      return answer(false);
    }
  }

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

  addEventListener("DOMContentLoaded", async () => {
    try {
      const overview = JSON.parse($("#overview").textContent);
      const rows = await unpacked($("#rows"));
      const traces = new Map(all("script[data-trace]").map((one) => [decodeURIComponent(one.dataset.id), one.dataset.trace]));
      await annotator.start(new FileSource(overview, rows, traces));
      document.documentElement.dataset.started = "yes";
    } catch (error) {
      $("#main").textContent = `This page cannot be shown, the file may be damaged or the browser too old: ${error.message}`;
    }
  });
})();
