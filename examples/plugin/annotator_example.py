"""Plug-ins for annotator: readers of chats and rooms, a judge of echoes, a report format."""

from annotator import Claim, Message, Quote, Trace, Verdict


class Chat:
    def matches(self, document):
        return isinstance(document, dict) and "chat" in document

    def read(self, document, trace_id, path):
        chat = enumerate(document["chat"], 1)
        messages = tuple(Message(n, speaker, (), text) for n, (speaker, text) in chat)
        return Trace(trace_id, "chat", path, messages)


class Rooms:
    def matches(self, record):
        return isinstance(record, dict) and {"room", "nick", "line"} <= record.keys()

    def group(self, record):
        return record["room"]

    def read(self, records, trace_id, path):
        messages = tuple(Message(n, r["nick"], (), r["line"]) for n, r in enumerate(records, 1))
        return Trace(trace_id, "rooms", path, messages)


class Echo:
    id, settings = "echo", {"least": 20}

    def codes(self, rubric):
        return {"C4a"}

    def judge(self, trace, rubric):
        texts = {}
        for message in trace.spoken:
            quote = Quote(message.text, f"message:{message.n}")
            if len(quote.text) >= self.settings["least"] and quote.text in texts:
                return Verdict((Claim("C4a", "It was said before.", (texts[quote.text], quote)),))
            texts[quote.text] = quote
        return Verdict.none()


def write_tsv(tables):
    return "\n".join("\t".join(row) for table in tables for row in (table.header, *table.rows))
