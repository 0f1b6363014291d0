"""Scores for Arize Phoenix: trace annotations of its REST API, 50 in a request."""

# arize.com/docs/phoenix/sdk-api-reference, "Create trace annotations" (API 1.0): one annotation for
# a trace, a name and an identifier; with sync=true an unknown trace is answered by 404.

from annotator.exports.scores import Record, Score, Target


def make_record(score: Score) -> Record:
    """Return the annotation of a score. One with the same identifier is replaced."""
    is_code = score.code is not None
    label = ("found" if score.value else "not found") if is_code else score.value
    result = {"label": label, "explanation": score.comment}
    return {
        "trace_id": score.trace_id,
        "name": score.name,
        "identifier": score.id,
        "annotator_kind": "LLM" if score.by_model else "CODE",
        "result": result | ({"score": score.value} if is_code else {}),
        "metadata": dict(score.metadata),
    }


TARGET = Target(
    path="/v1/trace_annotations?sync=true",
    key="data",
    size=50,
    make_record=make_record,
    identify=lambda record: (record["name"], record["trace_id"]),
    user_env="",
    key_envs=("PHOENIX_API_KEY",),
)
