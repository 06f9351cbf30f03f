"""What a topic of the product is, and how questions about it are drawn. It holds no facts."""

from __future__ import annotations

import dataclasses
from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary, vary_one

_FRAMES = (
    "{What|what} can you tell me about $about?", "Tell me {about|more about|something about} $about.",
    "Explain $about{| to me| briefly| in simple words}.", "How {does|do} $about work{| here| in Hearth}?",
    "{I have|I've got} a question about $about.", "$about?", "{Help|Help me} with $about.",
    "What about $about?", "I {want to|would like to|need to} {know|learn|understand} {more |}about $about.",
    "Can you {explain|describe} $about?", "Could you {explain|describe} $about{| to me}?",
    "{Please explain|Describe} $about.", "{What do you know|What should I know} about $about?",
    "Give me {information|an overview|a short overview|the facts} {on|about|of} $about.",
)  # fmt: skip
_FRAME_RATE = 0.35


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Questions that share their answers. `about` names the topic for the general frames."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    about: tuple[str, ...] = ()
    weight: float = 1.0

    def question(self, rng: Random) -> str:
        if self.about and rng.random() < _FRAME_RATE:
            frame = vary_one(rng, _FRAMES)
            return frame.replace("$about", vary_one(rng, self.about))
        return vary_one(rng, self.questions)

    def answer(self, rng: Random) -> str:
        return vary(rng, rng.choice(self.answers))

    def draw(self, rng: Random) -> Exchange:
        question = self.question(rng)
        question = question[:1].upper() + question[1:]
        return Exchange(question=ask(rng, question), answer=self.answer(rng))
