"""The pages to read a run and to label."""
