"""Readers of the formats that traces come in, a module each; :mod:`.recognise` chooses one."""
