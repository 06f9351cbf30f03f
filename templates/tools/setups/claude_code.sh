export ANTHROPIC_BASE_URL={{ root_url }}
export ANTHROPIC_AUTH_TOKEN={{ key }}
export ANTHROPIC_DEFAULT_OPUS_MODEL={{ model.name }}
export ANTHROPIC_DEFAULT_SONNET_MODEL={{ model.name }}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={{ model.name }}
export CLAUDE_CODE_MAX_CONTEXT_TOKENS={{ context_tokens }}
export CLAUDE_CODE_AUTO_COMPACT_WINDOW={{ context_tokens }}
export CLAUDE_CODE_ATTRIBUTION_HEADER=0
claude --model {{ model.name }}
