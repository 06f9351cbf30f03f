"""Small facts: capitals, days, months, seasons, colours, animals and the like."""

from __future__ import annotations

from random import Random

from engine.demo.corpus.lesson import Exchange
from engine.demo.corpus.wording import ask, vary_one

CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Spain": "Madrid",
    "Italy": "Rome",
    "Portugal": "Lisbon",
    "Austria": "Vienna",
    "Switzerland": "Bern",
    "Belgium": "Brussels",
    "the Netherlands": "Amsterdam",
    "Denmark": "Copenhagen",
    "Norway": "Oslo",
    "Sweden": "Stockholm",
    "Finland": "Helsinki",
    "Iceland": "Reykjavik",
    "Ireland": "Dublin",
    "the United Kingdom": "London",
    "England": "London",
    "Scotland": "Edinburgh",
    "Poland": "Warsaw",
    "Greece": "Athens",
    "Hungary": "Budapest",
    "Romania": "Bucharest",
    "Bulgaria": "Sofia",
    "Croatia": "Zagreb",
    "Ukraine": "Kyiv",
    "Russia": "Moscow",
    "Turkey": "Ankara",
    "Egypt": "Cairo",
    "Kenya": "Nairobi",
    "Nigeria": "Abuja",
    "Morocco": "Rabat",
    "Japan": "Tokyo",
    "China": "Beijing",
    "India": "New Delhi",
    "South Korea": "Seoul",
    "Thailand": "Bangkok",
    "Vietnam": "Hanoi",
    "Indonesia": "Jakarta",
    "Australia": "Canberra",
    "New Zealand": "Wellington",
    "Canada": "Ottawa",
    "the United States": "Washington",
    "Mexico": "Mexico City",
    "Brazil": "Brasília",
    "Argentina": "Buenos Aires",
    "Chile": "Santiago",
    "Peru": "Lima",
    "Colombia": "Bogotá",
    "Cuba": "Havana",
    "the Czech Republic": "Prague",
}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_OPPOSITES = {
    "hot": "cold",
    "big": "small",
    "fast": "slow",
    "light": "dark",
    "old": "young",
    "happy": "sad",
    "up": "down",
    "left": "right",
    "open": "closed",
    "full": "empty",
    "high": "low",
    "rich": "poor",
    "strong": "weak",
    "hard": "soft",
    "early": "late",
    "loud": "quiet",
    "long": "short",
    "day": "night",
    "good": "bad",
    "wet": "dry",
    "clean": "dirty",
    "near": "far",
}
_BABIES = {
    "cat": "kitten",
    "dog": "puppy",
    "cow": "calf",
    "horse": "foal",
    "sheep": "lamb",
    "hen": "chick",
    "duck": "duckling",
    "pig": "piglet",
    "goat": "kid",
    "bear": "cub",
}
_SOUNDS = {
    "cat": "meow",
    "dog": "woof",
    "cow": "moo",
    "sheep": "baa",
    "duck": "quack",
    "pig": "oink",
    "horse": "neigh",
    "lion": "roar",
    "owl": "hoot",
    "bee": "buzz",
    "frog": "croak",
}
_COLOURS = {
    "grass": "green",
    "the sky": "blue",
    "snow": "white",
    "coal": "black",
    "a banana": "yellow",
    "a tomato": "red",
    "an orange": "orange",
    "milk": "white",
    "blood": "red",
    "the sun": "yellow",
    "a lemon": "yellow",
    "chocolate": "brown",
    "the sea": "blue",
    "a strawberry": "red",
    "a frog": "green",
    "charcoal": "black",
}
_LEGS = {
    "a dog": 4,
    "a cat": 4,
    "a spider": 8,
    "an ant": 6,
    "a bird": 2,
    "a horse": 4,
    "a human": 2,
    "a snake": 0,
    "a bee": 6,
    "a cow": 4,
    "a fish": 0,
    "an octopus": 0,
}


def capital(rng: Random) -> Exchange:
    country, city = rng.choice(list(CAPITALS.items()))
    if rng.random() < 0.12:
        question = vary_one(
            rng,
            ("$c is the capital of which country?", "Which country has the capital $c?"),
            c=city,
        )
        country = "the United Kingdom" if city == "London" else country
        return Exchange(question=ask(rng, question), answer=f"{city} is the capital of {country}.")
    frames = (
        "What is the capital of $c?",
        "What's the capital of $c?",
        "Capital of $c?",
        "Which city is the capital of $c?",
        "Name the capital of $c.",
        "Tell me the capital of $c.",
        "Do you know the capital of $c?",
        "$c: capital?",
        "What is the capital city of $c?",
        "Can you tell me the capital of $c?",
        "the capital of $c",
    )
    question = vary_one(rng, frames, c=country)
    return Exchange(question=ask(rng, question), answer=f"The capital of {country} is {city}.")


def calendar(rng: Random) -> Exchange:
    names = _DAYS if rng.random() < 0.5 else _MONTHS
    at = rng.randrange(len(names))
    name, kind = names[at], "day" if names is _DAYS else "month"
    match rng.randrange(4):
        case 0:
            frames: tuple[str, ...] = (
                "Which $k comes after $n?",
                "What $k is after $n?",
                "What comes after $n?",
                "What is the $k after $n?",
            )
            answer = f"After {name} comes {names[(at + 1) % len(names)]}."
        case 1:
            frames = (
                "Which $k comes before $n?",
                "What $k is before $n?",
                "What comes before $n?",
                "What is the $k before $n?",
            )
            answer = f"Before {name} comes {names[at - 1]}."
        case 2 if kind == "month":
            frames = (
                "How many days does $n have?",
                "How many days are {there |}in $n?",
                "How long is $n?",
            )
            answer = f"{name} has {_MONTH_DAYS[at]} days" + (
                ", or 29 in a leap year." if at == 1 else "."
            )
        case _:
            number = at + 1
            ordinal = ("1st", "2nd", "3rd")[at] if at < 3 else f"{number}th"
            year = "week" if kind == "day" else "year"
            frames = (
                f"Which {kind} is the {ordinal} of the {year}?",
                f"What is the {ordinal} {kind} of the {year}?",
            )
            answer = f"The {ordinal} {kind} of the {year} is {name}."
    return Exchange(question=ask(rng, vary_one(rng, frames, k=kind, n=name)), answer=answer)


def little_fact(rng: Random) -> Exchange:
    match rng.randrange(5):
        case 0:
            key, value = rng.choice(list(_OPPOSITES.items()))
            if rng.random() < 0.5:
                key, value = value, key
            frames: tuple[str, ...] = (
                "What is the opposite of $k?",
                "Opposite of $k?",
                "Name the opposite of $k.",
                "What's the opposite of $k?",
            )
            answer = f"The opposite of {key} is {value}."
        case 1:
            key, value = rng.choice(list(_BABIES.items()))
            frames = (
                "What is a baby $k called?",
                "What do you call a {young|baby} $k?",
                "What is the young of a $k called?",
            )
            answer = f"A baby {key} is called a {value}."
        case 2:
            key, value = rng.choice(list(_SOUNDS.items()))
            frames = (
                "What sound does a $k make?",
                "What does a $k say?",
                "Which sound does a $k make?",
            )
            answer = f"A {key} says {value}."
        case 3:
            key, value = rng.choice(list(_COLOURS.items()))
            frames = (
                "What {colour|color} is $k?",
                "Which {colour|color} does $k have?",
                "What is the {colour|color} of $k?",
            )
            answer = f"{key[:1].upper()}{key[1:]} is {value}."
        case _:
            key, legs = rng.choice(list(_LEGS.items()))
            frames = (
                "How many legs does $k have?",
                "Number of legs of $k?",
                "How many legs has $k?",
            )
            answer = f"{key[:1].upper()}{key[1:]} has {legs or 'no'} legs."
    return Exchange(question=ask(rng, vary_one(rng, frames, k=key)), answer=answer)
