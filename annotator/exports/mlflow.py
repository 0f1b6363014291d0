"""Scores for MLflow: assessments of traces by its REST API, one in a request."""

# mlflow/protos/assessments.proto and service.proto (3.x), createAssessment: names have no ".", all
# metadata are texts, the server makes the id. So each request adds an assessment.

import json

from annotator.exports.scores import Record, Score, Target


def make_record(score: Score) -> Record:
    """Return the assessment of a score: feedback that is true or false, or a label."""
    metadata = {"score_id": score.id, **score.metadata}
    return {
        "assessment_name": score.name.replace(".", "_"),
        "trace_id": score.trace_id,
        "source": {
            "source_type": "LLM_JUDGE" if score.by_model else "CODE",
            "source_id": str(score.metadata["judge"]),
        },
        "create_time": score.time,
        "last_update_time": score.time,
        "feedback": {"value": score.value if score.code is None else bool(score.value)},
        "rationale": score.comment,
        "metadata": {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in metadata.items()
        },
    }


TARGET = Target(
    path="/api/3.0/mlflow/traces/{trace_id}/assessments",
    key="assessment",
    size=1,
    make_record=make_record,
    identify=lambda record: (record["assessment_name"], record["trace_id"]),
    user_env="MLFLOW_TRACKING_USERNAME",
    key_envs=("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
)
