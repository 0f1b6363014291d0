// One trace on the page: the conversation, the patches, the outcome, the steps; quotes marked in
// place. The text nodes of a source, piece by piece, are exactly its text: what is shown beside it
// (line numbers, names of hidden characters) is made by the style sheet.
"use strict";

(function () {
  const { h } = annotator;
  const WHOLE = 40000; // characters of a source that are shown at once
  const HEAD = 12000; // of a longer one: its beginning,
  const AROUND = 1500; // what is around each quote,
  const MORE = 100000; // and at each click

  // What would hide or reorder text, but for line ends and tabs.
  const ODD = new RegExp(String.raw`[\u0000-\u0008\u000b\u000c\u000e-\u001f${annotator.HIDDEN}]+|\r(?!\n)`, "gu");

  // Offsets count characters (code points); the page counts UTF-16 units.
  function toUnits(text) {
    if (!/[\ud800-\udbff]/.test(text)) return (n) => n;
    const wide = [];
    let point = 0;
    for (let i = 0; i < text.length; i++, point++) {
      if ((text.charCodeAt(i) & 0xfc00) === 0xd800) {
        wide.push(point);
        i++;
      }
    }
    return (n) => {
      let low = 0;
      let high = wide.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (wide[middle] < n) low = middle + 1;
        else high = middle;
      }
      return n + low;
    };
  }

  function toPoints(text, unit) {
    let pairs = 0;
    for (let i = 0; i < unit; i++) if ((text.charCodeAt(i) & 0xfc00) === 0xd800) pairs++;
    return unit - pairs;
  }

  // The parts of a text to show: all of it, or its beginning, what was `seen` of it already, and
  // what is around the quotes.
  function windows(text, shown, seen) {
    if (text.length <= WHOLE) return [[0, text.length]];
    const wanted = [[0, HEAD], ...seen, ...shown.map((one) => [one.start - AROUND, one.end + AROUND])]
      .map(([from, to]) => [whole(text, Math.max(0, from)), whole(text, Math.min(text.length, to))])
      .sort((one, other) => one[0] - other[0]);
    const merged = [wanted[0]];
    for (const [from, to] of wanted.slice(1)) {
      const last = merged[merged.length - 1];
      if (from <= last[1]) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    return merged;
  }

  // An offset that cuts no pair of surrogates.
  const whole = (text, at) => ((text.charCodeAt(at) & 0xfc00) === 0xdc00 ? at + 1 : at);

  function fill(holder, text, marks, lines, seen, overlaps) {
    let at = 0;
    for (const [from, to] of windows(text, [...marks, ...overlaps], seen)) {
      if (from > at) holder.append(gap(text, at, from, marks, lines));
      at = from;
      for (const one of overlaps.filter((one) => one.start >= from && one.start < to)) {
        if (one.start > at) holder.append(piece(text, at, one.start, marks, lines));
        holder.append(one.jump);
        at = one.start;
      }
      holder.append(piece(text, at, to, marks, lines));
      at = to;
    }
    if (at < text.length) holder.append(gap(text, at, text.length, marks, lines));
    if (!text) holder.append(h("span.empty", "empty"));
  }

  function gap(text, from, to, marks, lines) {
    const button = h("button.gap", { type: "button" });
    const label = () => (button.textContent = `${annotator.count(to - from, "character")} not shown: show ${
      to - from > MORE ? `the next ${MORE.toLocaleString("en")}` : "them"}`);
    button.addEventListener("click", () => {
      const end = whole(text, Math.min(to, from + MORE));
      button.before(piece(text, from, end, marks, lines));
      from = end;
      if (from >= to) button.remove();
      else label();
    });
    label();
    return button;
  }

  function piece(text, from, to, marks, lines) {
    const element = h("span.piece", { "data-at": from });
    if (!lines) {
      runs(element, text, from, to, marks);
      return element;
    }
    for (const line of between(lines, from, to)) {
      const shown = line.kind === "plain" ? element : h(`span.${line.kind}`, line.n !== undefined && { "data-n": line.n });
      runs(shown, text, Math.max(from, line.start), Math.min(to, line.end), marks);
      if (shown !== element) element.append(shown);
    }
    return element;
  }

  function between(lines, from, to) {
    let low = 0;
    let high = lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lines[middle].end <= from) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let n = low; n < lines.length && lines[n].start < to; n++) found.push(lines[n]);
    return found;
  }

  function runs(parent, text, from, to, marks) {
    const here = marks.filter((one) => one.start < to && one.end > from);
    const cuts = new Set([from, to]);
    for (const one of here) {
      cuts.add(Math.max(from, one.start));
      cuts.add(Math.min(to, one.end));
    }
    const sorted = [...cuts].sort((one, other) => one - other);
    for (let n = 0; n + 1 < sorted.length; n++) {
      const [start, end] = [sorted[n], sorted[n + 1]];
      const over = here.filter((one) => one.start <= start && one.end >= end);
      let target = parent;
      if (over.length) {
        target = h(`mark.${over[over.length - 1].tone}`, {
          "data-keys": over.map((one) => one.key).join(" "),
          title: [...new Set(over.map((one) => one.title))].join("; "),
        });
        if (over.length > 1) target.classList.add("several");
        parent.append(target);
      }
      plain(target, text.slice(start, end));
    }
  }

  function plain(parent, text) {
    let at = 0;
    for (const found of text.matchAll(ODD)) {
      if (found.index > at) parent.append(text.slice(at, found.index));
      const points = [...found[0]].slice(0, 8).map((one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
      parent.append(h("span.odd", { "data-odd": points.join(" ") + (found[0].length > 8 ? " …" : "") }, found[0]));
      at = found.index + found[0].length;
    }
    if (at < text.length) parent.append(text.slice(at));
  }

  // The lines of a patch with what each is; the counts of a hunk's header say where it ends.
  function patchLines(text) {
    const lines = [];
    let [old, fresh, oldLeft, freshLeft] = [0, 0, 0, 0];
    let start = 0;
    while (start < text.length) {
      const next = text.indexOf("\n", start);
      const end = next < 0 ? text.length : next + 1;
      const sign = text[start];
      const line = { start, end, kind: "other", n: "" };
      if (oldLeft > 0 || freshLeft > 0) {
        if (sign === "+") [line.kind, line.n, freshLeft] = ["added", fresh++, freshLeft - 1];
        else if (sign === "-") [line.kind, line.n, oldLeft] = ["removed", old++, oldLeft - 1];
        else if (sign !== "\\") {
          [line.kind, line.n] = ["same", fresh++];
          [old, oldLeft, freshLeft] = [old + 1, oldLeft - 1, freshLeft - 1];
        }
      } else {
        const hunk = /^@@+ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/.exec(text.slice(start, Math.min(end, start + 200)));
        if (hunk) {
          [old, fresh] = [Number(hunk[1]), Number(hunk[3])];
          [oldLeft, freshLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
          line.kind = "hunk";
        } else if (/^(diff |--- |\+\+\+ |rename |new file|deleted file)/.test(text.slice(start, start + 12))) {
          line.kind = "file";
        }
      }
      line.kind = `line.${line.kind}`;
      lines.push(line);
      start = end;
    }
    return lines;
  }

  // The parts of a message that is written in Markdown: fenced code, and diffs in it; headings; code
  // and bold words in a line. No character is left out.
  function messageParts(text) {
    const parts = [];
    const add = (start, end, kind) => {
      const last = parts[parts.length - 1];
      if (kind === "plain" && last?.kind === kind) last.end = end;
      else if (end > start) parts.push({ start, end, kind });
    };
    let fence = null;
    for (let start = 0, end; start < text.length; start = end) {
      const next = text.indexOf("\n", start);
      end = next < 0 ? text.length : next + 1;
      const [, marks, after] = /^ {0,3}(`{3,}|~{3,})([^`]*)$/.exec(text.slice(start, Math.min(end, start + 200)).trimEnd()) ?? [];
      if (fence && marks?.startsWith(fence.marks) && !after) {
        add(start, end, "md.code.fence");
        fence = null;
      } else if (fence) {
        const kind = fence.diff && { "+": ".added", "-": ".removed", "@": ".hunk" }[text[start]];
        add(start, end, `md.code${kind || ""}`);
      } else if (marks) {
        fence = { marks, diff: /^\s*(diff|patch)\b/i.test(after) || /^(diff --git|--- |@@ -)/.test(text.slice(end, end + 12)) };
        add(start, end, "md.code.fence");
      } else if (/^#{1,6} /.test(text.slice(start, start + 8))) {
        add(start, end, "md.strong");
      } else {
        let at = start;
        for (const found of text.slice(start, end).matchAll(/`[^`\n]+`|\*\*[^*\n]+\*\*/g)) {
          add(at, start + found.index, "plain");
          at = start + found.index + found[0].length;
          add(start + found.index, at, found[0][0] === "*" ? "md.strong" : "md.tick");
        }
        add(at, end, "plain");
      }
    }
    return parts;
  }

  function source(view, id, text, { diff = false, seen = [] } = {}) {
    const units = toUnits(text);
    const marks = (view.marks.get(id) || []).map((one) => ({ ...one, start: units(one.start), end: units(one.end) }));
    const element = h(diff ? "div.source.diff" : "div.source", { "data-source": id, dir: "auto" });
    const lines = diff ? patchLines(text) : id.startsWith("message:") ? messageParts(text) : null;
    const overlaps = diff ? overlapsOf(view, id, units) : [];
    for (const one of overlaps) for (const line of between(lines, one.start, one.end)) line.kind += ".overlap";
    fill(element, text, marks, lines, seen, overlaps);
    view.texts.set(id, text);
    return element;
  }

  // Where a patch changes lines that another one changes too, with a button that leads there.
  function overlapsOf(view, id, units) {
    const found = (view.facts?.overlaps ?? []).flatMap((one, n) => one.places.map((at, side) => ({ ...at, one, n, side })).filter((at) => at.source === id));
    return found.sort((one, other) => one.start - other.start).map(({ one, n, side, start, end }) => {
      const other = annotator.name(one.places[1 - side].agent, 60);
      const jump = h("button.jump", { type: "button", "data-jump": `${n}.${side}`, click: () => leap(view, `${n}.${1 - side}`) }, `${overlapName(one)}: show ${other}'s lines`);
      return { start: units(start), end: units(end), jump };
    });
  }

  const overlapName = (one) => `${one.conflict ? "conflict" : one.same ? "same change" : "overlap"} in ${annotator.name(one.path || "?", 120)}, ${one.last > one.first ? `lines ${one.first} to ${one.last}` : `line ${one.first}`}`;

  function leap(view, key) {
    const button = annotator.all("button.jump", view.element).find((one) => one.dataset.jump === key);
    button?.scrollIntoView({ block: "center" });
    button?.focus({ preventScroll: true });
  }

  // What is counted from the trace, on one line each.
  function strip(view) {
    const { facts } = view;
    if (!facts) return null;
    const sent = Object.entries(facts.messages).map(([agent, n]) => `${annotator.name(agent, 60)} ${n}`);
    const total = Object.values(facts.messages).reduce((sum, n) => sum + n, 0);
    const files = facts.shared.map((one) => annotator.name(one, 120)).join(", ") + (facts.shared_count > facts.shared.length ? " …" : "");
    return h("ul.strip", { "aria-label": "Counted from the trace, no judgement" },
      h("li", annotator.count(total, "message"), sent.length > 0 && ` (${sent.join(", ")})`),
      facts.patches.map((one) => h("li", `${annotator.name(one.agent, 60)}'s patch +${one.added} −${one.removed} in ${annotator.count(one.files, "file")}`)),
      facts.patches.length > 1 && h("li", files ? `changed by several: ${files}` : "no file is changed by several"));
  }

  const OVERLAPS = 5; // that are named above; all are in the patches

  function meetings(view) {
    const found = view.facts?.overlaps ?? [];
    const order = found.map((one, n) => [one, n]).sort(([one], [other]) => one.same - other.same);
    return found.length > 0 && h("p.meetings", order.slice(0, OVERLAPS).map(([one, n]) =>
      [h(`button${one.conflict ? ".conflict" : ""}`, { type: "button", click: () => leap(view, `${n}.0`) }, overlapName(one)), " "]), found.length > OVERLAPS && `and ${found.length - OVERLAPS} more`);
  }

  const agentTone = (view, agent) => `agent-${Math.max(0, view.trace.agents.indexOf(agent)) % 6}`;

  function message(view, one) {
    const side = view.trace.agents.indexOf(one.sender);
    const to = one.recipients.length ? one.recipients.map((name) => annotator.name(name, 60)).join(", ") : "everybody";
    const who = annotator.name(one.sender, 60) + (one.author === "agent" ? "" : ` (${one.author})`);
    return h(`article.message.${agentTone(view, one.sender)}.${side % 2 === 1 ? "right" : "left"}`, { "aria-label": `Message ${one.n} from ${who}` },
      h("header", h("span.who", who), h("span.to", `to ${to}`), one.kind && h("span.kind", annotator.name(one.kind, 40)),
        h("span.number", `#${one.n}`)),
      source(view, `message:${one.n}`, one.text));
  }

  const known = (value, yes, no) => (value === null ? "not known" : value ? yes : no);

  function outcome(view) {
    const end = view.trace.outcome;
    const row = (name, value) => value !== null && value !== undefined && h("div", h("dt", name), h("dd", annotator.name(value, 300)));
    const why = end.features.some((one) => one.alone_reason);
    const features = end.features.map((one) =>
      h("tr", h("th", { scope: "row" }, annotator.name(one.name, 80)), h("td", one.agent === null ? "-" : annotator.name(one.agent, 60)),
        h("td", known(one.passed, "passed", "failed")), h("td", known(one.passed_alone, "passed", "failed")),
        why && h("td", one.alone_reason ? annotator.name(one.alone_reason, 200) : "")));
    const lost = end.features.filter((one) => one.passed === false && one.passed_alone === true);
    return [
      h("dl.ending", row("Result", known(end.passed, "passed", "failed")), row("Merge", end.merge), row("Strategy", end.strategy),
        end.agents.map((one) => row(annotator.name(one.agent, 60), [one.status, one.error].filter(Boolean).join(": ") || "-"))),
      lost.length > 0 && h("p.lost", `${lost.map((one) => (/^\d+$/.test(one.name) ? "feature " : "") + annotator.name(one.name, 80)).join(", ")} lost: passed alone, failed after the merge.`),
      meetings(view), strip(view),
      features.length > 0 && h("div.scroll", h("table.plain", h("thead", h("tr", ["feature", "agent", "after the merge", "alone", ...(why ? ["why"] : [])].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", features))),
    ];
  }

  function step(view, one) {
    const what = one.author === "agent" ? "wrote" : one.author === "tool" ? "was given" : "task";
    return h(`article.step.${one.author}`, { "aria-label": `Step ${one.n} of ${annotator.name(one.agent, 60)}` },
      h("header", `#${one.n} ${what}${one.tool ? ` · ${annotator.name(one.tool, 60)}` : ""}`), source(view, one.id, one.text));
  }

  function steps(view, load) {
    return view.trace.agents.map((agent) => {
      const cited = view.trace.steps.filter((one) => one.agent === agent);
      if (!load && !cited.length) return null;
      const holder = h("div", cited.map((one) => step(view, one)));
      const box = h("details", { open: cited.length > 0 }, h("summary", `Steps of ${annotator.name(agent, 60)}${cited.length ? ` (${cited.length} quoted)` : ""}`), holder);
      if (load) box.append(more(view, agent, holder, load));
      return box;
    });
  }

  function more(view, agent, cited, load) {
    let from = 1;
    const button = h("button", { type: "button" }, "Show steps");
    button.addEventListener("click", async () => {
      button.disabled = true;
      try {
        const found = await load(agent, from);
        const sources = new Set(found.steps.map((one) => one.id));
        for (const one of annotator.all(".source", cited)) if (sources.has(one.dataset.source)) one.parentElement.remove();
        cited.before(...found.steps.map((one) => step(view, one))); // quoted ones further on stay
        from += found.steps.length;
        button.textContent = `Show more (${from - 1} of ${found.count} shown)`;
        if (from > found.count) button.remove();
      } catch (error) {
        annotator.say(error.message, "error");
      }
      button.disabled = false;
    });
    return button;
  }

  // Put a trace on the page. `marks`: source id -> [{start, end, key, tone, title}], offsets in
  // characters. `load(agent, from)` gets steps; null where there are none to get. `facts` are what
  // is counted from the trace, if that is shown.
  annotator.showTrace = function showTrace(trace, marks, load, facts = null) {
    const view = { trace, marks, facts, texts: new Map() };
    const section = (name, ...content) => h("section", { "aria-label": name }, h("h2", name), content);
    const chat = trace.messages.length ? trace.messages.map((one) => message(view, one)) : h("p.none", "No messages.");
    const patches = trace.patches.map((one) =>
      h(`div.patch.${agentTone(view, one.agent)}`, h("h3.who", annotator.name(one.agent, 60)), source(view, `patch:${one.agent}`, one.text, { diff: true })));
    const walked = steps(view, load).filter(Boolean);
    view.element = h("div.trace",
      trace.problems.length > 0 && h("p.warning", "Not read as it should be: ", trace.problems.map((one) => annotator.name(one, 300)).join("; ")),
      section("Outcome", outcome(view)),
      section("Conversation", h("div.chat", chat)),
      section("Patches", patches.length ? h("div.patches", patches) : h("p.none", "No patches are known.")),
      trace.outcome.text && section("Merge report and tests", h("div.report", source(view, "outcome", trace.outcome.text))),
      walked.length > 0 && section("Steps", walked),
      !load && h("p.none", "The agents' own steps are not in this page, but for quoted ones; annotate view shows them."));
    return view;
  };

  // Mark other passages of one source: its text is put on the page anew, as much as was there.
  annotator.remark = function remark(view, id, marks) {
    view.marks.set(id, marks);
    for (const one of annotator.all(".source", view.element)) {
      if (one.dataset.source !== id) continue;
      const seen = annotator.all(".piece", one).map((part) => [Number(part.dataset.at), Number(part.dataset.at) + part.textContent.length]);
      keepSelection(one, source(view, id, view.texts.get(id), { diff: one.classList.contains("diff"), seen }));
    }
  };

  // Put a source in place of what was shown of it; what is selected in it stays selected.
  function keepSelection(shown, fresh) {
    const selection = getSelection();
    const { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
    const inside = !selection.isCollapsed && shown.contains(anchorNode) && shown.contains(focusNode);
    const ends = inside && [place(anchorNode, anchorOffset, false), place(focusNode, focusOffset, true)];
    shown.replaceWith(fresh);
    if (inside) selection.setBaseAndExtent(...ends.flatMap(({ at }) => pointOf(fresh, at)));
  }

  // The point of the page that is at an offset in a source's text.
  function pointOf(holder, at) {
    const piece = annotator.all(".piece", holder).findLast((one) => Number(one.dataset.at) <= at);
    return pointIn(piece, at - Number(piece.dataset.at));
  }

  // Bring a marked quote on screen; false if it is not on the page.
  annotator.reveal = function reveal(view, key) {
    const found = annotator.all("mark", view.element).filter((one) => one.dataset.keys.split(" ").includes(key));
    for (const one of annotator.all("mark.current", view.element)) one.classList.remove("current");
    for (const one of found) one.classList.add("current");
    if (!found.length) return false;
    for (let up = found[0].parentElement; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    found[0].scrollIntoView({ block: "center" });
    return true;
  };

  // The selected passage of one source: {source, start, end, quote}, offsets in characters; or why
  // there is none.
  annotator.selected = function selected(view) {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return { error: "Select text in the trace first." };
    const range = selection.getRangeAt(0);
    const from = place(range.startContainer, range.startOffset, false);
    const to = place(range.endContainer, range.endOffset, true);
    if (!from || !to || !view.element.contains(from.holder)) return { error: "Select text of the trace: of a message, a patch, a step or the outcome." };
    if (from.holder !== to.holder) return { error: "A quote comes from one message, patch or step; select in one of them." };
    const id = from.holder.dataset.source;
    const text = view.texts.get(id);
    let [start, end] = [from.at, to.at];
    if (annotator.all("button.gap", from.holder).some((gap) => range.intersectsNode(gap))) {
      return { error: "There is text between that is not shown; show it first." };
    }
    while (start < end && /\s/.test(text[start])) start++;
    while (end > start && /\s/.test(text[end - 1])) end--;
    if (start >= end) return { error: "Only white space is selected." };
    const inWord = (at) => at > 0 && at < text.length && /^[\p{L}\p{N}_]{2}$/u.test(text.slice(at - 1, at + 1));
    while (inWord(start)) start--;
    while (inWord(end)) end++;
    const quote = text.slice(start, end);
    return { source: id, start: toPoints(text, start), end: toPoints(text, end), quote };
  };

  // Where a point of the page is in the text of its source, in UTF-16 units.
  function place(node, offset, ending) {
    const element = node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
    const holder = element.closest(".source");
    if (!holder) return ending ? before(node, offset) : after(node, offset);
    const own = element.closest(".piece");
    const range = document.createRange();
    if (own) {
      range.setStart(own, 0);
      range.setEnd(node, offset);
      return { holder, at: Number(own.dataset.at) + range.toString().length };
    }
    const pieces = annotator.all(".piece", holder);
    const left = pieces.filter((one) => node.childNodes[offset] === undefined || one.compareDocumentPosition(node.childNodes[offset]) & Node.DOCUMENT_POSITION_FOLLOWING);
    const last = left[left.length - 1];
    if (!last) return { holder, at: Number(pieces[0]?.dataset.at ?? 0) };
    return { holder, at: Number(last.dataset.at) + last.textContent.length };
  }

  // A selection may begin or end just outside of a source (a triple click does): its nearest end.
  function before(node, offset) {
    const range = document.createRange();
    range.setStart(document.body, 0);
    range.setEnd(node, offset);
    const pieces = annotator.all(".source .piece").filter((one) => range.comparePoint(one, one.childNodes.length) <= 0);
    const last = pieces[pieces.length - 1];
    return last && { holder: last.closest(".source"), at: Number(last.dataset.at) + last.textContent.length };
  }

  function after(node, offset) {
    const range = document.createRange();
    range.setStart(node, offset);
    range.setEnd(document.body, document.body.childNodes.length);
    const first = annotator.all(".source .piece").find((one) => range.comparePoint(one, 0) >= 0);
    return first && { holder: first.closest(".source"), at: Number(first.dataset.at) };
  }

  // The units that the keyboard moves through: the sentences of messages and of agents' own steps,
  // the lines of code, patches and reports; only those with a letter or a digit.
  annotator.units = function units(view) {
    const open = annotator.all(".source", view.element).filter((one) => !one.closest("details:not([open])"));
    return open.flatMap((holder) => annotator.all(".piece", holder).flatMap((one) => {
      if (!divided.has(one)) divided.set(one, divide(one, holder.closest(".message, .step.agent") !== null));
      return divided.get(one);
    }));
  };

  const divided = new WeakMap(); // piece -> its units
  const sentences = Intl.Segmenter ? new Intl.Segmenter("en", { granularity: "sentence" }) : null;

  function divide(piece, prose) {
    const found = [];
    let fenced = false;
    let at = 0;
    for (const line of piece.textContent.split("\n")) {
      const fence = prose && /^\s*(```|~~~)/.test(line);
      if (fence) fenced = !fenced;
      const code = !prose || !sentences || fence || fenced || /^(\t| {4})/.test(line);
      let from = 0; // "2." is no sentence: it goes with the next
      for (const { index, segment } of code ? [{ index: 0, segment: line }] : sentences.segment(line)) {
        const end = index + segment.length;
        if (end < line.length && !/\p{L}{2}/u.test(line.slice(from, end))) continue;
        if (/[\p{L}\p{N}]/u.test(line.slice(from, end))) found.push({ piece, start: at + from, end: at + from + line.slice(from, end).trimEnd().length });
        from = end;
      }
      at += line.length + 1;
    }
    return found;
  }

  // Where a unit is on the screen.
  annotator.unitBox = (unit) => unitRange(unit, unit).getBoundingClientRect();

  function unitRange(first, last) {
    const range = document.createRange();
    range.setStart(...pointIn(first.piece, first.start));
    range.setEnd(...pointIn(last.piece, last.end));
    return range;
  }

  annotator.selectUnits = function selectUnits(first, last) {
    const range = unitRange(first, last);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    const place = last.piece.getClientRects().length ? range : null;
    const box = place && place.getBoundingClientRect();
    if (box && (box.top < 90 || box.bottom > innerHeight - 40)) scrollBy({ top: box.top - innerHeight / 2 });
  };

  function pointIn(piece, at) {
    const walk = document.createTreeWalker(piece, NodeFilter.SHOW_TEXT);
    let node = walk.nextNode();
    while (node && at > node.length) {
      at -= node.length;
      node = walk.nextNode();
    }
    return [node, at];
  }
})();
