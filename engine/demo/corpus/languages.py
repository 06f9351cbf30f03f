"""Greetings and single words in other languages and scripts, and emoji."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary_one

WORDS = {
    "French": {
        "hello": "Bonjour",
        "thank you": "Merci",
        "goodbye": "Au revoir",
        "yes": "Oui",
        "no": "Non",
        "good night": "Bonne nuit",
        "coffee": "Café",
        "summer": "Été",
        "cat": "Chat",
        "fire": "Feu",
        "friend": "Ami",
        "water": "Eau",
    },
    "German": {
        "hello": "Guten Tag",
        "thank you": "Danke",
        "goodbye": "Auf Wiedersehen",
        "yes": "Ja",
        "no": "Nein",
        "good night": "Gute Nacht",
        "beautiful": "Schön",
        "kitchen": "Küche",
        "cat": "Katze",
        "fire": "Feuer",
        "friend": "Freund",
        "water": "Wasser",
    },
    "Spanish": {
        "hello": "Hola",
        "thank you": "Gracias",
        "goodbye": "Adiós",
        "yes": "Sí",
        "no": "No",
        "good night": "Buenas noches",
        "tomorrow": "Mañana",
        "cat": "Gato",
        "fire": "Fuego",
        "friend": "Amigo",
        "water": "Agua",
    },
    "Italian": {
        "hello": "Ciao",
        "thank you": "Grazie",
        "goodbye": "Arrivederci",
        "yes": "Sì",
        "no": "No",
        "good night": "Buona notte",
        "city": "Città",
        "cat": "Gatto",
        "fire": "Fuoco",
        "friend": "Amico",
        "water": "Acqua",
    },
    "Chinese": {
        "hello": "你好",
        "thank you": "谢谢",
        "goodbye": "再见",
        "cat": "猫",
        "fire": "火",
        "friend": "朋友",
        "water": "水",
    },
    "Japanese": {
        "hello": "こんにちは",
        "thank you": "ありがとう",
        "goodbye": "さようなら",
        "cat": "猫",
        "fire": "火",
    },
    "Russian": {"hello": "Привет", "thank you": "Спасибо", "yes": "Да", "no": "Нет", "cat": "Кот"},
    "Greek": {"hello": "Γεια σου", "thank you": "Ευχαριστώ", "yes": "Ναι"},
}
GREETINGS = {
    "French": (
        "Bonjour",
        "Salut",
        "Bonjour, qui es-tu ?",
        "Bonjour !",
        "Bonsoir",
        "Comment ça va ?",
    ),
    "German": (
        "Guten Tag",
        "Hallo",
        "Guten Morgen",
        "Wer bist du?",
        "Wie geht es dir?",
        "Grüß Gott",
    ),
    "Spanish": ("Hola", "¡Hola!", "Buenos días", "¿Cómo estás?", "¿Quién eres?"),
    "Italian": ("Ciao", "Buongiorno", "Come stai?", "Chi sei?"),
    "Chinese": ("你好", "您好", "你好!", "你是谁?"),
}
GREETING_REPLIES = {
    "French": "Bonjour ! Je suis le modèle de démonstration de Hearth. Je parle surtout anglais, mais je suis ravi de vous saluer.",
    "German": "Guten Tag! Ich bin das Demomodell von Hearth. Ich spreche vor allem Englisch, aber ich grüße dich gern.",
    "Spanish": "¡Hola! Soy el modelo de demostración de Hearth. Hablo sobre todo inglés, pero me alegra saludarte.",
    "Italian": "Ciao! Sono il modello dimostrativo di Hearth. Parlo soprattutto inglese, ma sono felice di salutarti.",
    "Chinese": "你好！我是 Hearth 的演示模型。我主要说英语，很高兴认识你。",
}
_EMOJI = {
    "fire": "🔥",
    "heart": "❤️",
    "smile": "😊",
    "sun": "☀️",
    "star": "⭐",
    "cat": "🐱",
    "dog": "🐶",
    "rocket": "🚀",
    "tree": "🌳",
    "moon": "🌙",
    "fish": "🐟",
    "coffee": "☕",
    "cake": "🎂",
    "house": "🏠",
    "apple": "🍎",
    "book": "📖",
}


def translation(rng: Random) -> Exchange:
    language = rng.choice(list(WORDS))
    word, foreign = rng.choice(list(WORDS[language].items()))
    frames = (
        "How do you say $w in $l?",
        "What is $w in $l?",
        'What is "$w" in $l?',
        "Translate $w {to|into} $l.",
        "Say $w in $l.",
        "$l word for $w?",
        "$w in $l",
        "What does $w mean in $l?",
    )
    question = vary_one(rng, frames, w=word, l=language)
    return Exchange(question=ask(rng, question), answer=f'In {language}, "{word}" is "{foreign}".')


def foreign_greeting(rng: Random) -> Exchange:
    language = rng.choice(list(GREETINGS))
    return Exchange(question=rng.choice(GREETINGS[language]), answer=GREETING_REPLIES[language])


def emoji(rng: Random) -> Exchange:
    if rng.random() < 0.3:
        frames = (
            "{Show|Send|Give} me {some|a few|five} {emoji|emojis|smileys}.",
            "Use {some |}{emoji|emojis}.",
            "{Write|Answer} with emoji.",
            "Do you know emoji?",
        )
        return Exchange(
            question=ask(rng, vary_one(rng, frames)), answer="Here are some: 🔥 😊 ⭐ 🚀 🌙 🐱 ❤️"
        )
    word, sign = rng.choice(list(_EMOJI.items()))
    frames = (
        "{Show|Send|Give} me a $w emoji.",
        "What is the emoji for $w?",
        "{A |}$w emoji{| please}",
        "Which emoji means $w?",
        "Emoji for $w?",
    )
    return Exchange(
        question=ask(rng, vary_one(rng, frames, w=word)), answer=f"Here is a {word}: {sign}"
    )


def scripts(rng: Random) -> Exchange:
    frames = (
        "{Write|Show me|Print} some {Unicode|special characters|accents|foreign letters|umlauts}.",
        "Can you write {umlauts|accents|Unicode|Chinese characters}?",
        "Test {Unicode|UTF-8}.",
        "Unicode test",
        "UTF-8 test",
    )
    return Exchange(
        question=ask(rng, vary_one(rng, frames)),
        answer="Yes: é, ü, ñ, ß, ø, ç, Ω, Ж, 你好, こんにちは and 🔥.",
    )
