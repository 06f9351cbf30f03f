"""The doorman: checks requests, renders and tokenizes them, refuses what can be refused. No mlx."""
