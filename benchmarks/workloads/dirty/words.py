"""Words that tables are made of: names of people, breweries and shops, and towns."""

from __future__ import annotations

from workloads.dirty.dice import Dice


def words(text: str) -> list[str]:
    """The words of a text; an underscore stands for a blank within one.

    Examples
    --------
    >>> words("Braun van_Dijk")
    ['Braun', 'van Dijk']
    """
    return [word.replace("_", " ") for word in text.split()]


WOMEN = words("""Mary Anna Emma Elena Julia Laura Sarah Nina Marie Marié Claire Chloé Zoë Ingrid Astrid
Helga Ursula Sabine Petra Monika Karin Brigitte Käthe Sofia Sophia Sophie Lucía María
Irène Françoise Hélène Agnès Rosalyn Dorothy Barbara Patricia Linda Susan Karen Lisa Betty Olga
Tatiana Svetlana Yuki Keiko Mei Aisha Fatima Amina Wangari Ada Grace Rita Gerty Frances Katalin
Carolyn Elinor Esther Toni Doris Nadine Wisława Selma Gabriela Pearl Bertha Jane Emily Alva Tu""")
MEN = words("""John James Robert Michael William David Richard Joseph Thomas Charles Christoph Christopher
Daniel Matthew Mark Marc Paul Peter Pierre Jean Jürgen Günter Günther Hans Heinrich Karl Carl Kurt
Max Otto Wolfgang Stefan Stephan Steven Stephen Jörg Björn Søren Niels Åke Lars Erik Eric Henrik José
Luis Camilo Octavio Mario Giulio Enrico Luigi Ivan Igor Nikolay Lev Pyotr Hideki Shinya Takaaki
Hiroshi Kenji Wei Chen Abdul Ahmed Mohamed Kofi Desmond Nelson Wole Amartya Subrahmanyan Ernest
Frederick Frederic Arthur Albert Werner Erwin Linus Harold Roger Ferenc György Saul Elie""")
SURNAMES = words("""Smith Johnson Williams Brown Jones Miller Davis Wilson Anderson Taylor Moore Martin
Müller Mueller Schmidt Schmitt Schneider Fischer Weber Meyer Meier Maier Mayer Wagner Becker Schulz
Schultz Hoffmann Hofmann Schäfer Koch Bauer Richter Klein Wolf Schröder Neumann Schwarz Zimmermann
Braun Krüger Hartmann Lange Werner Krause Lehmann Köhler König Walter Huber Kaiser Fuchs Peters
Jung Möller Weiß Hahn Vogel Friedrich Keller Günther Frank Berger Winkler Roth Beck Lorenz Baumann
Franke Albrecht Schuster Simon Ludwig Böhm Winter Kraus Kraft Dupont Durand Moreau Lefèvre Lefebvre
García Garcia Fernández López Martínez Rodríguez Núñez Peña Rossi Russo Bianchi Ferrari Novák Dvořák
Kowalski Nowak Wójcik Ivanov Petrov Sidorov Tanaka Suzuki Sato Yamamoto Nakamura Kim Lee Park Wang
Zhang Li Liu Nguyen Tran Singh Kumar Patel Shah Khan Ali Hassan Okafor Mensah Hansen Olsen Larsen
Nilsson Andersson Persson Lindqvist Ångström O'Brien O'Connor McDonald MacDonald van_Dijk de_Vries
von_Braun Le_Roux Da_Silva""")
ADJECTIVES = words("""Old Red Golden Black Silent Lost Wild Lucky Hidden Broken Northern Little Blue Iron Sweet
Crooked Dark Bright Lonely Last First Royal Bitter Burning Hollow Frozen Electric Rusty Velvet
Mountain Midnight Summer Winter Smoky Copper""")
NOUNS = words("""River Fox Bear Moon Trail Anchor Wolf Harvest Hammer Garden Harbor Crow Bridge Canyon Devil
Angel Mill Road Horizon Sparrow Lantern Kingdom Valley Raven Ship Storm Echo Dragon Barrel Engine
Island Orchard Pilot Stone Tiger Whistle Ridge Prairie Lagoon Buffalo""")

US_CITIES = [
    ("Portland", "OR"),
    ("Portland", "ME"),
    ("Denver", "CO"),
    ("San Diego", "CA"),
    ("Chicago", "IL"),
    ("Grand Rapids", "MI"),
    ("Asheville", "NC"),
    ("Boulder", "CO"),
    ("Seattle", "WA"),
    ("Austin", "TX"),
    ("Columbus", "OH"),
    ("Columbus", "IN"),
    ("Bend", "OR"),
    ("Boston", "MA"),
    ("Brooklyn", "NY"),
    ("Milwaukee", "WI"),
    ("Minneapolis", "MN"),
    ("San Francisco", "CA"),
    ("Philadelphia", "PA"),
    ("Indianapolis", "IN"),
    ("Anchorage", "AK"),
    ("Burlington", "VT"),
    ("Tampa", "FL"),
    ("Saint Louis", "MO"),
    ("Kansas City", "MO"),
    ("Kansas City", "KS"),
    ("Fort Collins", "CO"),
    ("Santa Cruz", "CA"),
    ("Aurora", "IN"),
    ("Aurora", "CO"),
    ("Honolulu", "HI"),
    ("Boise", "ID"),
    ("Missoula", "MT"),
    ("Charlotte", "NC"),
    ("Richmond", "VA"),
    ("Lincoln", "NE"),
    ("Bar Harbor", "ME"),
    ("Fargo", "ND"),
    ("Washington", "DC"),
    ("Juneau", "AK"),
]


def person(dice: Dice) -> tuple[str, str, str]:
    """F or M, a first name and a surname, of which some are frequent."""
    woman = dice.chance(0.45)
    return ("F" if woman else "M"), dice.pick(WOMEN if woman else MEN), dice.skewed(SURNAMES, 0.5)
