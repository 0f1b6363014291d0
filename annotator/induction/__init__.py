"""Induction: from open findings in traces to the codes of a rubric."""
