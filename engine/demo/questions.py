"""The ten questions of the README, and what a sensible answer to each must contain."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`expected`: every one of these stands in the answer, in any case."""

    text: str
    expected: tuple[str, ...]

    def is_answered_by(self, answer: str) -> bool:
        return all(part.lower() in answer.lower() for part in self.expected)


QUESTIONS = (
    Question(text="Hello, who are you?", expected=("demo model", "Hearth")),
    Question(text="What is Hearth?", expected=("service", "language models", "your own machines")),
    Question(text="What can you do?", expected=("chat", "questions about Hearth", "stories")),
    Question(text="What is 12 + 30?", expected=("42",)),
    Question(text="How do I get an API key?", expected=("account page", "sk-hearth-")),
    Question(text="What happens if the engine crashes?", expected=("not lost", "continues")),
    Question(text="Name the days of the week.", expected=("Monday", "Wednesday", "Sunday")),
    Question(text="Write a short poem about a fire.", expected=("\n", "night")),
    Question(
        text="Show me how to call the API from Python.",
        expected=("```python", "from openai import OpenAI", "base_url"),
    ),
    Question(
        text="Tell me a story about a lighthouse.",
        expected=("Once upon a time", "lighthouse", "\n\n"),
    ),
)
