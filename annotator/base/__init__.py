"""Small tools without a domain: errors, text, files, YAML, plug-ins."""
