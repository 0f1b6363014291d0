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
  const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const look = (row, key) =>
    key.startsWith("a.") ? (row.attributes[key.slice(2)] ?? null) === null ? [] : [shown(row.attributes[key.slice(2)])] : LOOKS[key](row);

  function wanted(filter) {
    const parts = Object.keys(LOOKS).filter((key) => filter[key] !== undefined && filter[key] !== "").map((key) => [key, String(filter[key])]);
    for (const [key, value] of Object.entries(filter.attributes || {})) if (value !== "") parts.push([`a.${key}`, value]);
    return parts;
  }

  function matching(rows, filter, but = null) {
    const parts = wanted(filter).filter(([key]) => key !== but);
    const text = (filter.text || "").toLowerCase();
    return rows.filter((row) => parts.every(([key, value]) => look(row, key).includes(value)) && (!text || row.text.toLowerCase().includes(text)));
  }

  const MOST = 200; // values of an attribute to choose from

  function counts(rows, filter, key) {
    const found = new Map();
    for (const row of matching(rows, filter, key)) for (const value of look(row, key)) found.set(value, (found.get(value) || 0) + 1);
    return [...found].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
  }

  class FileSource {
    constructor(overview, rows, traces) {
      Object.assign(this, { shown: overview, list: rows, traces });
      this.numbers = new Map(rows.map((row, n) => [row.number, n]));
      this.names = [...new Set(rows.flatMap((row) => Object.keys(row.attributes)))];
    }
    async overview() { return this.shown; }
    async rows(filter, offset, limit) {
      const found = matching(this.list, filter);
      return { total: found.length, rows: found.slice(offset, offset + limit) };
    }
    async facets(filter) {
      const facets = { attributes: {}, omitted: [] };
      for (const key of Object.keys(LOOKS)) facets[key] = counts(this.list, filter, key);
      for (const key of this.names) {
        const values = counts(this.list, filter, `a.${key}`);
        if (values.length > MOST) facets.omitted.push([key, values.length]);
        else facets.attributes[key] = values;
      }
      return facets;
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
    async search(query, cursor) {
      const begin = performance.now();
      const ids = [...this.traces.keys()];
      const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
      const hits = [];
      let at = cursor ?? 0;
      for (; at < ids.length && hits.length < 50 && performance.now() - begin < 300; at++) {
        const { trace } = await unpacked($(`script[data-trace="${this.traces.get(ids[at])}"]`));
        for (const [id, text] of texts(trace)) for (const found of text.matchAll(pattern)) hits.push(hit(trace.id, id, text, found));
      }
      return { hits, cursor: at < ids.length ? at : null, searched: at, unread: 0 };
    }
  }

  function* texts(trace) {
    for (const one of trace.messages) yield [`message:${one.n}`, one.text];
    for (const one of trace.patches) yield [`patch:${one.agent}`, one.text];
    if (trace.outcome.text) yield ["outcome", trace.outcome.text];
  }

  function hit(trace_id, source, text, found) {
    const points = (part) => [...part].length;
    const start = points(text.slice(0, found.index));
    const length = points(found[0]);
    const before = [...text.slice(Math.max(0, found.index - 80), found.index)];
    const excerpt = before.join("") + found[0] + text.slice(found.index + found[0].length, found.index + found[0].length + 120);
    return { trace_id, source, start, end: start + length, excerpt, match: [before.length, before.length + length] };
  }

  addEventListener("DOMContentLoaded", async () => {
    const overview = JSON.parse($("#overview").textContent);
    const rows = await unpacked($("#rows"));
    const traces = new Map(all("script[data-trace]").map((one) => [decodeURIComponent(one.dataset.id), one.dataset.trace]));
    await annotator.start(new FileSource(overview, rows, traces));
    document.documentElement.dataset.started = "yes";
  });
})();
