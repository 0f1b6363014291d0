"""From annotations to tables: a value first, then one writer per format."""
