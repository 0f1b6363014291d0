// A label while it is made: what the panel shows, what the server is sent of it, and what the browser
// keeps of it until the server has it.
"use strict";

annotator.Draft = class Draft {
  // `codes`: the primary one first. `evidence`: {quote, source, start, end, code}, source null where
  // the place is not known, code null where a quote is for none in particular.
  constructor(values = {}) {
    Object.assign(this, { none: false, skipped: false, codes: [], evidence: [], note: "", confidence: null }, values);
  }

  // The draft of what was decided; an empty one if nothing was.
  static of(decision) {
    if (!decision) return new Draft();
    const codes = [decision.primary, ...decision.secondary].filter(Boolean);
    const { skipped, note, confidence } = decision;
    return new Draft({ none: !skipped && !codes.length, skipped, codes, evidence: [...decision.evidence], note, confidence });
  }

  copy() {
    return new Draft({ ...this, codes: [...this.codes], evidence: [...this.evidence] });
  }

  get decided() {
    return this.none || this.skipped || this.codes.length > 0;
  }

  get blank() {
    return !this.decided && !this.evidence.length && !this.note && this.confidence === null;
  }

  // Choose a code, or leave it if it is chosen; of `choice` "one" it takes the other's place.
  pick(id, choice) {
    const chosen = this.codes.filter((one) => one !== id);
    this.decide(chosen.length < this.codes.length ? chosen : choice === "one" ? [id] : [...chosen, id]);
  }

  makePrimary(id) {
    this.codes = [id, ...this.codes.filter((one) => one !== id)];
  }

  toggleNone() {
    const none = !this.none;
    this.decide([]);
    this.none = none;
  }

  skip() {
    this.decide([]);
    Object.assign(this, { skipped: true, evidence: [], confidence: null });
  }

  // What another person said, in place of what was chosen here; the own note stays.
  take(label) {
    this.decide([label.primary, ...label.secondary].filter(Boolean));
    this.none = !this.codes.length;
    this.evidence = Draft.quotesOf(label).map((one) => ({ ...one, code: this.codes.includes(one.code) ? one.code : null }));
  }

  // The quotes of a label: those with places, then those that no place is known of.
  static quotesOf(label) {
    const placed = label.spans.map((one) => one.quote);
    const left = label.evidence.filter((text) => {
      const at = placed.indexOf(text);
      if (at >= 0) placed.splice(at, 1);
      return at < 0;
    });
    return [...label.spans, ...left.map((quote) => ({ quote, source: null, code: null }))];
  }

  // Codes chosen now: a quote for another one is for none in particular then.
  decide(codes) {
    Object.assign(this, { none: false, skipped: false, codes });
    this.evidence = this.evidence.map((one) => (codes.includes(one.code) ? one : { ...one, code: null }));
  }

  has(passage) {
    return this.evidence.some((one) => ["source", "start", "end", "code"].every((part) => one[part] === passage[part]));
  }

  // A skipped trace has no evidence and no confidence: who adds some is labelling it.
  add(passage) {
    this.skipped = false;
    this.evidence.push(this.codes.includes(passage.code) ? passage : { ...passage, code: null });
  }

  sure(n) {
    this.skipped = false;
    this.confidence = n;
  }

  // Whether another draft says the same.
  same(other) {
    const [one, two] = [this, other].map(({ none, skipped, codes, evidence, note, confidence }) =>
      JSON.stringify([none, skipped, codes, evidence.map((each) => [each.source, each.start, each.end, each.quote, each.code]), note, confidence]));
    return one === two;
  }

  // What the server is sent; what is not decided is withdrawn.
  body(choice) {
    if (!this.decided) return { withdrawn: true };
    if (this.skipped) return { skipped: true, note: this.note };
    const many = choice === "many";
    const { evidence, note, confidence } = this.copy();
    return { primary: many ? null : (this.codes[0] ?? null), secondary: this.codes.slice(many ? 0 : 1), evidence, note, confidence };
  }
};

// What the server has not got yet, by trace id, kept over a reload. `name` is of one file of labels,
// one person and one rubric. An entry is {base, draft}: the decision that the draft has changed.
annotator.Kept = class Kept {
  constructor(name) {
    this.place = (id) => `annotator-draft:${name}:${id}`;
  }

  // Keep an entry, none with null; false if the browser cannot.
  set(id, entry) {
    try {
      if (entry) localStorage.setItem(this.place(id), JSON.stringify(entry));
      else localStorage.removeItem(this.place(id));
      return true;
    } catch {
      return false;
    }
  }

  get(id) {
    try {
      const entry = JSON.parse(localStorage.getItem(this.place(id)));
      return entry && { ...entry, draft: new annotator.Draft(entry.draft) };
    } catch {
      return null;
    }
  }
};
