"""Patches: unified diffs, and conflicts of representation between two of them."""
