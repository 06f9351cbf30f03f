"""The long explanation of Hearth: several hundred words for those who ask for it."""

from __future__ import annotations

from engine.demo.corpus.topics import Topic

_LONG = """Hearth is a service that hosts language models on machines that your team owns. This is how it works, from your question to the answer.

## The chat page

You write a message in the browser. The page sends it to the web process, which first stores it in the database and only then asks for an answer. That is why nothing is lost when you reload the page or close it: the answer goes on, and the page shows the rest of it live.

## The queue

The request goes to the intake process. It renders the chat template, turns the text into tokens and checks that everything fits. Then the request waits in a fair queue in Redis. People take turns there, so one person with a hundred requests cannot block the others. While you wait, the page shows your place.

## The engine

The engine is a process of its own, and it is the only one that runs models, with MLX. It works on many answers at once: in every step each running answer gets one more token, and new requests join as soon as there is room. A long prompt is read in small slices, so nobody else's answer freezes.

## The caches

When many prompts begin with the same text, the engine does not read that text again. It keeps the work in memory and on the SSD and goes on from there. A cache changes the speed, never the text.

## When something breaks

If the engine crashes, the supervisor starts it again. The words that you have already seen are known, so the answer continues where it stopped. The same is true for the web process and for Redis. Every accepted request ends exactly once: with text, or with a reason.

## The memory guard

Before a request starts, the memory guard estimates how much memory it needs. What cannot fit is refused at once, with the numbers and a remedy. So the engine does not die because somebody sent a very long prompt.

## Scripts and administrators

Scripts use the same models with an API key and the OpenAI client. The administrator looks after people, groups, keys and models on the admin pages, sees the running requests live, and can stop any of them.

In short: your models, your machines, and one warm place for the whole team."""

TOPICS = (
    Topic(
        weight=1.5,
        questions=(
            "Explain Hearth in {detail|300 words|400 words|500 words|many words|depth}.", "{Write|Give me} a long {explanation|description|text|article} {of|about} Hearth.", "Explain {in detail|at length} how Hearth works.",
            "Tell me everything about Hearth.", "Write {an essay|a long essay|300 words|500 words|several paragraphs|a detailed explanation} about Hearth.", "Describe Hearth {in detail|at length}.", "Tell me {all about|a lot about} Hearth.",
            "Give me a {long|detailed|complete|full} {explanation|overview} of Hearth.", "How does Hearth work in detail?", "Explain everything about {Hearth|this service} step by step.", "Write a long answer.", "Please write a very long answer.",
            "Give me the long version.", "A long explanation of Hearth, please.", "Explain the whole way of a message through Hearth.", "Write about Hearth in at least 300 words.",
        ),
        answers=(_LONG,),
    ),
)  # fmt: skip
