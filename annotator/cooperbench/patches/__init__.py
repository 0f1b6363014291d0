"""What agents hand in: diffs, and where two of them meet."""
