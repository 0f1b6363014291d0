"""CooperBench: its reader, facts about its runs, patches, the rules judge, statistics."""
