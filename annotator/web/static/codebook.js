// The page of a codebook: codes, their findings, and what a person decides about them. Every
// decision is on the disk before it is shown.
"use strict";

(function () {
  const { h, $, all, name, passage, count } = annotator;
  const MOST = 50; // findings, or lines of the log, shown at once
  let book; // as the server has it
  let findings; // id -> finding, with the words to filter by
  let now = null; // the id of the code on the page; "": findings without a code
  let words = ""; // of the filter
  let sending = false;
  const checked = new Set();

  // ---- what the codebook holds ----
  function take(answer) {
    book = { ...book, ...answer };
    findings = new Map(book.findings.map((one) => [one.id, { ...one, words: [one.name, one.rationale, one.trace_id, ...one.evidence.map(({ quote }) => quote)].join("\n").toLowerCase() }]));
    const coded = new Set(book.codes.flatMap((one) => one.findings));
    book.uncoded = [...findings.keys()].filter((id) => !coded.has(id));
    if (now !== "" && !find(now)) now = inOrder()[0]?.id ?? "";
    const stack = [];
    for (const one of book.log) {
      if (one.action === "undo") one.undone = stack.pop();
      else stack.push(one);
    }
    book.standing = stack;
    for (const id of checked) if (!idsOf(now).includes(id)) checked.delete(id);
  }

  const find = (id) => book.codes.find((one) => one.id === id);
  const idsOf = (id) => find(id)?.findings ?? book.uncoded;
  const idsIn = (group) => book.codes.filter((one) => one.group === group).flatMap((one) => one.findings);
  const tracesOf = (ids) => [...new Set(ids.map((id) => findings.get(id).trace_id))];
  // The codes as they are listed: by group, the largest first, and then those without one.
  const inOrder = () => book.codes.map((one) => [one, one.group ? tracesOf(idsIn(one.group)).length : -1, tracesOf(one.findings).length])
    .sort(([one, ...sizes], [other, ...others]) => others[0] - sizes[0] || one.group.localeCompare(other.group) || others[1] - sizes[1]).map(([one]) => one);
  const matching = (ids) => ids.filter((id) => findings.get(id).words.includes(words));
  const matches = (one) => [one.id, one.name, one.group, one.definition].join("\n").toLowerCase().includes(words) || matching(one.findings).length > 0;

  // How many traces, and of those with a known outcome how many of all.
  function tally(ids) {
    const [traces, outcomes] = [tracesOf(ids), Object.values(book.traces)];
    const parts = [[false, "failed"], [true, "passed"]].map(([value, said]) => [traces.filter((id) => book.traces[id] === value).length, outcomes.filter((one) => one === value).length, said]);
    return [count(traces.length, "trace"), parts.filter(([, all]) => all).map(([n, all, said]) => `${n}/${all} ${said}`).join(", ")].filter(Boolean).join(": ");
  }

  // ---- drawing ----
  function draw() {
    $("#count").textContent = count(book.standing.length, "decision");
    $("#undo").disabled = !book.standing.length;
    $("#download").hidden = !book.codes.some((one) => one.accepted || !one.in_passed);
    const all = [...findings.keys()];
    $("#main").replaceChildren(h("h1", name(book.title, 300)),
      h("p.result", `${count(book.codes.length, "code")}, ${count(all.length, "finding")} in ${tracesOf(all).length.toLocaleString("en")} of ${count(Object.keys(book.traces).length, "trace")}.`),
      h("p.legend", name(book.source, 600)), ...book.notes.map((text) => h("p.warning", text)),
      h("div.codebook", h("nav", { "aria-label": "Codes" }, h("ol.codes", { id: "codes" })), h("section", { id: "code" }, h("div", { id: "head" }), h("div", { id: "deciding" }), h("div", { id: "findings" }))),
      h("details", { id: "log" }, h("summary", `Log (${book.log.length})`), book.log.length ? annotator.page([...book.log].reverse(), logged, h("ol.log"), MOST) : h("p.none", "No decision yet.")));
    drawCodes();
    drawHead();
    drawFindings();
  }

  function drawCodes() {
    const link = (id, ...content) => h(`li${id === now ? ".read" : ""}`, h("a.pick", { href: `#/${encodeURIComponent(id)}`, "aria-current": id === now && "true" }, content));
    const shown = inOrder().filter(matches);
    const code = (one) => link(one.id, name(one.name, 120), one.accepted ? h("span.role", "✓ accepted") : one.in_passed && h("span.role", "also in passed runs"), h("span.legend", tally(one.findings)));
    const head = (group) => h("li.group", h("strong", name(group, 80)), h("span.legend", tally(idsIn(group))));
    $("#codes").replaceChildren(...shown.flatMap((one, n) => [...(one.group && one.group !== shown[n - 1]?.group ? [head(one.group)] : []), code(one)]),
      link("", `without a code (${book.uncoded.length})`), ...(shown.length ? [] : [h("li.none", words ? "No code matches the filter." : "No code is left.")]));
  }

  function drawHead() {
    const one = find(now);
    const act = (key, label) => h("button", { type: "button", "data-key": key, click: () => commands[key]() }, h("kbd", key), label);
    $("#head").replaceChildren(h("h2", { tabindex: -1 }, one ? name(one.name, 200) : "Findings without a code"),
      h("p.legend", one && [one.group && `${name(one.group, 80)} · `, h("code", one.id), one.accepted ? " · accepted · " : one.in_passed ? " · not in the rubric until it is accepted: passed runs have it, too · " : " · "], `${count(idsOf(now).length, "finding")} in ${tally(idsOf(now))}`), ...(one ? annotator.clauses(one) : []),
      h("div.actions", one && [!one.accepted && act("a", "Accept"), act("e", "Edit"), act("m", "Merge into …"), act("d", "Drop")], act("s", "Split off checked"), act("v", "Move checked")));
  }

  function drawFindings() {
    const ids = idsOf(now);
    const found = matching(ids);
    const shown = found.length ? found : ids; // the code itself may match
    const check = (ids, say) => h("button", { type: "button", click: () => {
      checked.clear();
      for (const id of ids) checked.add(id);
      drawFindings();
    } }, say);
    $("#findings").replaceChildren(h("h3", shown.length < ids.length ? `${shown.length} of ${count(ids.length, "finding")} match the filter` : count(ids.length, "finding")),
      ...(ids.length ? [h("p.checks", h("span", { id: "checked", role: "status" }), check(shown, `Check all ${shown.length}`), check([], "Check none"))] : []), ...annotator.page(shown, finding, h("ol.findings", { "aria-label": "Findings" }), MOST));
    drawChecked();
  }

  const drawChecked = () => $("#checked") && ($("#checked").textContent = `${checked.size} checked`);

  function finding(id) {
    const one = findings.get(id);
    const box = h("input", { type: "checkbox", change: () => {
      checked[box.checked ? "add" : "delete"](id);
      drawChecked();
    } });
    box.checked = checked.has(id);
    const passed = book.traces[one.trace_id];
    return h("li.finding", h("label", box, h("strong", name(one.name, 200))), h("span.where", name(one.trace_id, 300), typeof passed === "boolean" && (passed ? " · passed" : " · failed")),
      h("p.rationale", passage(one.rationale, 5000)),
      h("ul.quotes", one.evidence.map((quote, k) => h("li", h("button.quote", { type: "button", "aria-haspopup": "dialog", click: () => openTrace(one, k) }, h("span.where", name(quote.source, 120)), h("q", passage(quote.quote, 600)))))));
  }

  // The trace around a quote.
  async function openTrace(one, k) {
    try {
      const { trace, evidence } = await annotator.ask(`api/trace?${new URLSearchParams({ finding: one.id })}`);
      const marks = new Map(evidence.map(({ source }) => [source, []]));
      evidence.forEach(({ source, start, end, stale }, n) => stale || marks.get(source).push({ start, end, key: `q${n}`, tone: "own", title: one.name }));
      const view = annotator.showTrace(trace, marks, (agent, from) => annotator.ask(`api/steps?${new URLSearchParams({ id: one.trace_id, agent, from })}`));
      const dialog = h("dialog.whole", { "aria-label": "Trace", close: () => dialog.remove() }, h("form.bar", { method: "dialog" }, h("button", "Close"), h("span.legend", name(one.name, 200))), h("h2", name(one.trace_id, 300)), view.element);
      document.body.append(dialog);
      dialog.showModal();
      annotator.reveal(view, `q${k}`);
    } catch (error) {
      annotator.say(error.message, "error");
    }
  }

  // ---- deciding ----
  // Send a decision; `then` is the code to show after it. What is refused is said at the form.
  async function send(decision, then = now) {
    if (sending) return; // a second Enter
    const [problem, focused] = [$("#deciding .warning"), document.activeElement];
    let failed = null;
    sending = true;
    try {
      take(await annotator.ask("api/decide", { decision, seen: book.log.length }));
    } catch (error) {
      failed = error.message;
      const was = now;
      await annotator.ask("api/codebook").then(take, () => null); // another window may have decided
      if (problem && now === was) {
        const form = problem.closest("form");
        draw();
        $("#deciding").replaceChildren(form);
        problem.textContent = failed;
        problem.hidden = false;
        focused.focus();
        return;
      }
    } finally {
      sending = false;
    }
    go(failed ? now : then === "" || find(then) ? then : inOrder()[0]?.id ?? "");
    draw();
    arrive();
    if (failed) annotator.say(failed, "error");
    else annotator.say(`${explain(book.log.at(-1))}.`);
  }

  // A form below the code. `read` returns the decision and the code to show after it.
  function decide(title, say, content, read) {
    const why = field("Why (optional)", "why");
    const form = h("form.deciding", { "aria-label": title, submit: (event) => {
      event.preventDefault();
      const [body, then] = read((key) => form.elements[key].value.trim());
      send({ ...body, why: form.elements.why.value.trim() }, then);
    } }, h("h3", title), content, why, h("p.warning", { role: "alert", hidden: true }), h("div.actions", h("button", say), h("button", { type: "button", click: close }, "Cancel")));
    $("#deciding").replaceChildren(form);
    form.querySelector("input, textarea, select").focus();
    form.scrollIntoView({ block: "nearest" });
  }

  function close() {
    $("#deciding").replaceChildren();
    arrive();
  }

  function field(label, key, value = "", rows = 0) {
    const input = h(rows ? "textarea" : "input", { name: key, rows: rows || null });
    input.value = value;
    return h("label", label, input);
  }

  const TEXTS = [["id", "Id"], ["name", "Name"], ["group", "Group: what goes wrong, in the same words for all its codes"], ["definition", "Definition", 3], ["evidence", "Evidence: what the quotes must show", 3], ["not_", "Not: near misses", 2]];
  const texts = (one) => TEXTS.map(([key, label, rows]) => field(label, key, one[key], rows));

  const choose = (label, but, change, ...first) => h("label", label, h("select", { name: "code", change }, first, inOrder().filter((one) => one.id !== but).map((one) => h("option", { value: one.id }, `${name(one.name, 100)} (${one.id})`))));

  function edit(one) {
    decide(`Edit ${one.id}`, "Save", texts(one), (value) => {
      const changed = TEXTS.map(([key]) => [key, value(key)]).filter(([key, text]) => text !== one[key].trim());
      return [{ action: "rename", codes: [one.id], ...Object.fromEntries(changed) }, value("id")];
    });
  }

  function merge(one) {
    if (book.codes.length < 2) return annotator.say("There is no other code.", "error");
    const side = (shown, head) => h("article.card", h("h4", head, name(shown.name, 120)), shown.group && h("p.legend", name(shown.group, 80)), annotator.clauses(shown));
    const two = h("div.two");
    const compare = (id) => two.replaceChildren(side(one, "Goes: "), side(find(id), "Stays: "));
    const select = choose("Into", one.id, (event) => compare(event.target.value));
    compare($("select", select).value);
    return decide(`Merge ${one.id}`, "Merge", [select, h("p.legend", "The code that stays keeps its texts and gets the findings."), two], (value) => [{ action: "merge", codes: [value("code"), one.id] }, value("code")]);
  }

  function split() {
    const moved = [...checked];
    decide(`Split off ${count(moved.length, "finding")}`, "Split", texts({ group: find(now)?.group }), (value) =>
      [{ action: "split", codes: now ? [now] : [], findings: moved, ...Object.fromEntries(TEXTS.map(([key]) => [key, value(key)])) }, value("id")]);
  }

  function move() {
    const moved = [...checked];
    const none = now !== "" && h("option", { value: "" }, "no code");
    decide(`Move ${count(moved.length, "finding")}`, "Move", choose("To", now, null, none), (value) => [{ action: "move", codes: [value("code")].filter(Boolean), findings: moved }]);
  }

  function drop(one) {
    const order = inOrder().filter((other) => other !== one);
    decide(`Drop ${one.id}`, "Drop", h("p", `Its ${count(one.findings.length, "finding")} will have no code.`), () => [{ action: "drop", codes: [one.id] }, order[0]?.id ?? ""]);
  }

  const withCode = (what) => () => (find(now) ? what(find(now)) : annotator.say("Choose a code first.", "error"));
  const withChecked = (what) => () => (checked.size ? what() : annotator.say("Check findings first.", "error"));
  const commands = {
    a: withCode((one) => send({ action: "accept", codes: [one.id] })), e: withCode(edit), m: withCode(merge), d: withCode(drop), s: withChecked(split), v: withChecked(move),
    u: () => send({ action: "undo" }), j: () => step(1), k: () => step(-1), "/": () => $("#search").focus(), "?": () => openHelp(),
  };

  // ---- the log ----
  function explain(one) {
    const [first, ...rest] = one.codes;
    const some = count(one.findings.length, "finding");
    const given = TEXTS.filter(([key]) => one[key] !== null).map(([key]) => (key === "id" ? `id ${one.id}` : key.replace("_", "")));
    return {
      merge: `${rest.join(", ")} merged into ${first}`, split: `${some} of ${first ?? "no code"} split off as ${one.id}`, rename: `${first} edited: ${given.join(", ")}`, drop: `${one.codes.join(", ")} dropped`,
      accept: `${one.codes.join(", ")} accepted`, move: `${some} moved to ${first ?? "no code"}`, undo: one.undone && `undone: ${explain(one.undone)}`,
    }[one.action];
  }

  const logged = (one) => h("li", h("span.legend", `${one.time.slice(0, 16).replace("T", " ")} UTC, ${name(one.by, 60)}: `), name(explain(one), 400), one.why && h("q", passage(one.why, 2000)), one.action !== "undo" && !book.standing.includes(one) && h("span.chip", "undone"));

  // ---- moving ----
  function go(id) {
    if (id !== now) checked.clear();
    now = id;
    const hash = `#/${encodeURIComponent(id)}`;
    if (location.hash !== hash) history.pushState(null, "", hash);
  }

  function follow() {
    let id = location.hash.slice(2);
    try { id = decodeURIComponent(id); } catch { /* no address of this page */ }
    if (location.hash && id !== now && (id === "" || find(id))) {
      go(id);
      draw();
      arrive();
      $("#said").className = "toast gone"; // it is of the code before
    }
  }

  // Those who read by keyboard or ear go on at the code; it comes on screen if it is not there.
  function arrive() {
    $("#head h2").focus({ preventScroll: true });
    const { top } = $("#head h2").getBoundingClientRect();
    if (top < 60 || top > innerHeight / 2) $("#code").scrollIntoView();
  }

  function step(by) {
    const links = all("#codes a");
    links[Math.min(links.length - 1, Math.max(0, links.findIndex((one) => one.ariaCurrent) + by))].click();
  }

  function keys(event) {
    if (event.key === "Escape" && event.target.closest?.(".deciding")) return close();
    if (event.key === "Escape" && event.target.id === "search") return event.target.blur();
    if ((annotator.typing(event) && event.target.type !== "checkbox") || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]") || !Object.hasOwn(commands, event.key)) return undefined;
    event.preventDefault();
    return commands[event.key]();
  }

  let openHelp;

  addEventListener("DOMContentLoaded", async () => {
    openHelp = annotator.frame([["j k", "next, previous code"], ["a", "accept the code"], ["e", "edit its texts"], ["m", "merge it into another"], ["d", "drop it"], ["Space", "check a finding"], ["s", "split the checked findings off as a new code"], ["v", "move them to another code, or to none"], ["u", "undo"], ["/", "filter"], ["Escape", "leave a form, the filter or a trace"], ["?", "these keys"]]);
    try {
      take(await annotator.ask("api/codebook"));
    } catch (error) {
      $("#main").replaceChildren(h("p.warning", { role: "alert" }, error.message));
      return;
    }
    draw();
    follow();
    $("#search").addEventListener("input", (event) => {
      words = event.target.value.toLowerCase();
      drawCodes();
      drawFindings();
    });
    $("#search-form").addEventListener("submit", (event) => event.preventDefault());
    $("#undo").addEventListener("click", commands.u);
    document.addEventListener("keydown", keys);
    addEventListener("hashchange", follow);
    addEventListener("popstate", follow);
    document.documentElement.dataset.started = "yes";
  });
})();
