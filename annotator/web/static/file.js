// The report as one file: the data stands in the page, each trace compressed until it is opened.
"use strict";

(function () {
  const { $, all } = annotator;

  async function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  addEventListener("DOMContentLoaded", async () => {
    try {
      const traces = new Map(all("script[data-id]").map((one) => [decodeURIComponent(one.dataset.id), one]));
      const load = async (id) => (traces.has(id) ? unpacked(traces.get(id)) : { error: "This trace is not in the report." });
      await annotator.start(await unpacked($("#overview")), new annotator.List(await unpacked($("#rows")), load));
      document.documentElement.dataset.started = "yes";
    } catch (error) {
      $("#main").textContent = `This page cannot be shown, the file may be damaged or the browser too old: ${error.message}`;
    }
  });
})();
