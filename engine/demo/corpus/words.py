"""Lists of everyday words, and words that nobody has seen before. It knows no sentences."""

from __future__ import annotations

from random import Random

FIRST_NAMES = tuple(
    "Anna Ben Clara David Emma Felix Grace Henry Iris Jack Karin Leo Maria Noah Olivia Paul Rosa Sam Tom Uma Victor Wendy Xavier Yuki Zoe "
    "Ada Alan Alice Amir Aisha Bob Carlos Chen Chloe Daniel Diego Elena Eva Fatima Finn Georg Hana Hugo Ines Ivan Jana Julia Kai Lars Laura "
    "Lea Lena Linda Liam Lucas Lucy Maja Mark Max Mei Mia Michael Milan Nina Nora Omar Oscar Otto Peter Pia Priya Rahul Robin Ruth Sara Sofia "
    "Stefan Susan Tariq Theo Tim Vera Yara René Zoë José Jürgen Søren Chloé Björn Łukasz".split()
)  # fmt: skip
NOUNS = tuple(
    "apple river house garden window mountain bread lamp table forest horse bicycle book letter bridge candle cloud stone flower kitchen paper mirror "
    "pencil piano rabbit school ship silver spoon star street sugar summer train tree umbrella valley village violin water winter wolf yellow zebra "
    "anchor basket bottle button camera carpet castle cat chair cheese coat coffee cow dog door dragon drum eagle egg engine farm feather fire fish "
    "flag glass gold hammer harbor hat hill honey island jacket key king kite ladder lemon lion map market milk moon mouse nest night ocean onion "
    "orange owl paint pear pepper plate pocket potato queen rain ring road rocket roof rope rose salt sand sea shadow shell shirt shoe sky snow soap "
    "soup storm sun sword tea tiger tower toy wall watch whale wheel wind wine wood".split()
)  # fmt: skip
ADJECTIVES = tuple(
    "red blue green small large quiet bright old young soft heavy light warm cold brave clever gentle happy hungry kind lazy lonely proud quick sad shy "
    "silent sleepy slow strange strong sweet tall tiny wild wise broken clean dark dry empty fresh golden hidden lost round sharp smooth".split()
)  # fmt: skip
VERBS = tuple(
    "run jump read write sing dance walk swim build paint cook sleep dream laugh climb listen speak think travel wait".split()
)  # fmt: skip
CITIES = tuple(
    "Paris London Berlin Madrid Rome Vienna Oslo Lisbon Dublin Athens Tokyo Osaka Kyoto Beijing Seoul Delhi Mumbai Cairo Lagos Nairobi Sydney Melbourne "
    "Toronto Montreal Chicago Boston Denver Austin Seattle Lima Bogotá Santiago Zürich Genève Hamburg Munich München Köln Lyon Marseille Milan Naples "
    "Porto Seville Bergen Malmö Helsinki Tallinn Riga Warsaw Kraków Prague Brno Budapest Istanbul Ankara Dubai Hanoi Bangkok Singapore Jakarta Manila "
    "Auckland Honolulu Reykjavik Quito Havana Mexico New York San Francisco".replace("New York San Francisco", "").split()
) + ("New York", "San Francisco", "Los Angeles", "Cape Town", "Hong Kong", "São Paulo")  # fmt: skip
LONG_WORDS = tuple(
    "keyboard sunshine elephant strawberry butterfly notebook waterfall telephone breakfast newspaper chocolate computer dinosaur fireplace football "
    "mushroom raincoat snowflake starfish sunflower toothbrush volcano wonderful yesterday tomorrow beautiful important adventure question different".split()
)  # fmt: skip
TOPIC_WORDS = tuple(
    "quantum physics|the stock market|football|the French Revolution|cooking pasta|black holes|the Roman Empire|world politics|blockchain|photosynthesis|the human brain|"
    "electric cars|classical music|chess openings|gardening|the moon landing|tax law|dinosaurs|climate change|ancient Egypt|painting|yoga|cricket|volcanoes|the Olympics|"
    "Shakespeare|organic chemistry|airplanes|the immune system|game theory|medieval castles|whales|coffee beans|fashion|jazz|the Second World War|Mars|nuclear energy|"
    "insurance|mortgages|astrology|sharks|Bitcoin|Kubernetes|Rust|JavaScript|compilers|databases|machine learning|neural networks|the Beatles|philosophy|Kant|Plato|"
    "Einstein|Napoleon|Mozart|Picasso|the Great Wall|the Amazon|vaccines|diabetes|headaches|bridges|steam engines|bees|spiders|cancer|trains|the weather on Venus|"
    "the stock price of Apple|the latest news|the president|the best restaurant|the newest phone|my horoscope|the lottery|wine|cheese making|knitting|surfing|"
    "the stock exchange|solar panels|tropical fish|mountain climbing|medicine|law|history|biology|chemistry|geography|economics|psychology|poker|tennis|basketball".split("|")
)  # fmt: skip

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"


def invented_word(rng: Random, *, syllables: int | None = None) -> str:
    """A pronounceable word that is in no list, so that copying it must be learned."""
    count = syllables or rng.choice((1, 2, 2, 3))
    parts = [rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(count)]
    return "".join(parts) + (rng.choice(_CONSONANTS) if rng.random() < 0.6 else "")


def any_word(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.55:
        return rng.choice(NOUNS)
    if chance < 0.7:
        return rng.choice(ADJECTIVES)
    if chance < 0.8:
        return rng.choice(LONG_WORDS)
    if chance < 0.9:
        return rng.choice(VERBS)
    return invented_word(rng)


def any_name(rng: Random) -> str:
    if rng.random() < 0.75:
        return rng.choice(FIRST_NAMES)
    return invented_word(rng).capitalize()
