// The same pages, of a run of any size: the local server has the data.
"use strict";

(function () {
  const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== null)).toString();
  const filtered = (filter, more = {}) => {
    const { attributes, ...rest } = filter;
    const named = Object.fromEntries([...attributes].filter(([, value]) => value !== "").map(([key, value]) => [`a.${key}`, value]));
    const set = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ""));
    return query({ ...set, ...named, ...more });
  };

  const source = {
    overview: () => annotator.ask("api/overview"),
    rows: (filter, offset, limit) => annotator.ask(`api/rows?${filtered(filter, { offset, limit })}`),
    facets: (filter) => annotator.ask(`api/facets?${filtered(filter)}`),
    trace: (id) => annotator.ask(`api/trace?${query({ id })}`),
    steps: (id, agent, from) => annotator.ask(`api/steps?${query({ id, agent, from })}`),
    neighbours: (row, filter) => annotator.ask(`api/neighbours?${filtered(filter, { row })}`),
    search: (text, cursor) => annotator.ask(`api/search?${query({ q: text, cursor: cursor === null ? null : JSON.stringify(cursor) })}`),
  };

  addEventListener("DOMContentLoaded", async () => {
    try { await annotator.start(source); } catch (error) { annotator.say(error.message, "error"); annotator.$("#main").textContent = error.message; return; }
    document.documentElement.dataset.started = "yes";
  });
})();
