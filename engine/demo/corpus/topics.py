"""Topics: questions that share their answers, read from text/*.toml. It holds no facts itself."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from random import Random

from engine.demo.corpus.lesson import Exchange, ExchangeSkill
from engine.demo.corpus.paraphrase import paraphrase
from engine.demo.corpus.wording import ask, lines, vary, vary_one

_FOLDER = Path(__file__).with_name("text")
_FRAME_RATE = 0.3
_FRAMES = lines("""
    What can you tell me about $about?
    Tell me {about|more about|something about} $about.
    Explain $about{| to me| briefly| in simple words}.
    How {does|do} $about work{| here| in Hearth}?
    {I have|I've got} a question about $about.
    $about?
    {Help|Help me} with $about.
    What about $about?
    I {want to|would like to|need to} {know|learn|understand} {more |}about $about.
    Can you {explain|describe} $about?
    Could you {explain|describe} $about{| to me}?
    {Please explain|Describe} $about.
    {What do you know|What should I know} about $about?
    Give me {information|an overview|a short overview|the facts} {on|about|of} $about.
    What is the {point|purpose|idea} of $about?
    Why {is there|do we have|would I want} $about?
    I {don't|do not} understand $about.
    {Where|How} do I find out about $about?
""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Questions that share their answers. `about` names the topic for the general frames."""

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    about: tuple[str, ...] = ()
    weight: float = 1.0

    def question(self, rng: Random) -> str:
        if self.about and rng.random() < _FRAME_RATE:
            return vary_one(rng, _FRAMES).replace("$about", vary_one(rng, self.about))
        return vary_one(rng, self.questions)

    def answer(self, rng: Random) -> str:
        return vary(rng, rng.choice(self.answers))

    def draw(self, rng: Random) -> Exchange:
        question = paraphrase(rng, self.question(rng))
        question = question[:1].upper() + question[1:]
        return Exchange(question=ask(rng, question), answer=self.answer(rng))


def read_topics(*names: str) -> tuple[Topic, ...]:
    """The topics of text/NAME.toml, for each name."""
    contents = [tomllib.loads((_FOLDER / f"{name}.toml").read_text()) for name in names]
    return tuple(
        Topic(
            questions=lines(entry["questions"]),
            answers=tuple(entry["answers"]),
            about=lines(entry.get("about", "")),
            weight=entry.get("weight", 1.0),
        )
        for content in contents
        for entry in content["topic"]
    )


def any_of(topics: tuple[Topic, ...]) -> ExchangeSkill:
    """A skill that draws one of the topics by weight."""
    weights = [topic.weight for topic in topics]
    return lambda rng: rng.choices(topics, weights)[0].draw(rng)
