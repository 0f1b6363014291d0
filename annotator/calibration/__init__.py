"""Measure a judge by people's labels: agreement, error rates and corrected shares."""
