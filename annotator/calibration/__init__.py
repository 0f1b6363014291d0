"""A judge held against people's labels: who agrees, and how often each code really occurs."""
