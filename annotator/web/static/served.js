// The same pages, from the local server: all rows at once, a trace when it is opened.
"use strict";

(function () {
  const load = (id) => annotator.ask(`api/trace?${new URLSearchParams({ id })}`);
  const steps = (id, agent, from) => annotator.ask(`api/steps?${new URLSearchParams({ id, agent, from })}`);

  addEventListener("DOMContentLoaded", async () => {
    try {
      const [overview, rows] = await Promise.all(["overview", "rows"].map((name) => annotator.ask(`api/${name}`)));
      await annotator.start(overview, new annotator.List(rows, load, steps));
      document.documentElement.dataset.started = "yes";
    } catch (error) {
      annotator.say(error.message, "error");
      annotator.$("#main").textContent = error.message;
    }
  });
})();
