"""Scores for Langfuse: events ``score-create`` of its ingestion API, 50 in a request."""

# langfuse.com/docs/evaluation/evaluation-methods/scores-via-sdk and its OpenAPI (2026): ScoreEvent,
# ScoreBody, "upserts on id"; answer 207 with successes and errors; at most 3.5 MB in a request.

import hashlib
from typing import Any

from annotator.base.text import dump_json
from annotator.exports.scores import Record, Score, Target


def make_record(score: Score) -> Record:
    """Return the event of a score. The same event twice is taken once."""
    body = {
        "id": score.id,
        "traceId": score.trace_id,
        "name": score.name,
        "value": score.value,
        "dataType": "CATEGORICAL" if score.code is None else "BOOLEAN",
        "comment": score.comment,
        "metadata": dict(score.metadata),
    }
    event_id = hashlib.sha256(dump_json(body).encode()).hexdigest()[:32]
    return {"id": event_id, "type": "score-create", "timestamp": score.time, "body": body}


def _find_refused(answer: Any) -> dict[str, str]:
    """Return the reason for each event that an answer lists as an error; the id "" is for all."""
    errors = [x if isinstance(x, dict) else {"message": x} for x in answer.get("errors") or ()]
    return {
        str(error.get("id") or ""): str(error.get("message") or error.get("error") or error)
        for error in errors
    }


TARGET = Target(
    path="/api/public/ingestion",
    key="batch",
    size=50,
    make_record=make_record,
    identify=lambda record: (record["body"]["name"], record["body"]["traceId"]),
    user_env="LANGFUSE_PUBLIC_KEY",
    key_envs=("LANGFUSE_SECRET_KEY",),
    find_refused=_find_refused,
)
