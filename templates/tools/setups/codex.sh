export HEARTH_API_KEY={{ key }}
codex
