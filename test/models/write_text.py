#!/usr/bin/env python3
"""Writes text.bin, the plain-bytes text that the tests and the demo train on.

The text is made by a small grammar: days in a harbour town, in which ships come and go, are loaded and counted. It has
something to learn at every distance: spelling, agreement of number, a ship's cargo that is named again lines later,
and sums that come out right. The generator is a fixed linear congruence, so that the same bytes come out everywhere.

Usage: write_text.py [--bytes N] [--seed S] [-o text.bin]
"""
import argparse
import pathlib

SHIPS = ["Heron", "Petrel", "Old Margin", "Second Thought", "Lantern", "Merry Factor", "Quiet Anne", "Tern", "Plumb Line"]
CARGO = [("barrel", "barrels", "of salt"), ("crate", "crates", "of lemons"), ("sack", "sacks", "of barley"),
         ("bale", "bales", "of wool"), ("chest", "chests", "of tea"), ("coil", "coils", "of rope"),
         ("box", "boxes", "of nails"), ("cask", "casks", "of oil")]
PEOPLE = ["the harbour master", "the pilot", "the cook", "the youngest clerk", "a widow from the hill", "the carpenter"]
WEATHER = ["fog", "a thin rain", "bright wind", "heavy swell", "still heat", "sleet", "clear cold air"]
PLACES = ["the long quay", "the north steps", "the chandler's yard", "berth nine", "the lower crane"]
REMARKS = ["Nobody minded.", "It was written down twice.", "The gulls said what they thought of it.",
           "That was the end of the matter.", "It had been so last year as well.", "Somebody laughed."]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
           "seventeen eighteen nineteen twenty").split()


class Chooser:
    """A 64-bit linear congruence; only its high bits are used."""

    def __init__(self, seed):
        self.state = (seed * 2654435761 + 88172645463325252) % 2**64

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound

    def of(self, items):
        return items[self.below(len(items))]


def counted(number, cargo, spelled):
    one, many, of = cargo
    return f"{NUMBERS[number] if spelled else number} {one if number == 1 else many} {of}"


def visit(choose):
    """One ship's call: what it brings, what is taken off, and what is left."""
    ship, person, place, cargo = choose.of(SHIPS), choose.of(PEOPLE), choose.of(PLACES), choose.of(CARGO)
    brought = 2 + choose.below(19)
    taken = 1 + choose.below(brought - 1)
    spelled = choose.below(2) == 0
    left = brought - taken
    lines = [f"The {ship} came in to {place} with {counted(brought, cargo, spelled)}."]
    if choose.below(3) == 0:
        lines.append(f"{person[0].upper()}{person[1:]} asked for the {ship} by name. {choose.of(REMARKS)}")
    lines.append(f"{person[0].upper()}{person[1:]} took off {counted(taken, cargo, spelled)}, "
                 f"so {counted(left, cargo, spelled)} {'was' if left == 1 else 'were'} left.")
    if choose.below(2) == 0:
        lines.append(f"The {ship} left {place} on the evening tide.")
    return " ".join(lines)


def day(choose, index):
    body = [f"{DAYS[index % 7]}, day {index + 1}. There was {choose.of(WEATHER)} over {choose.of(PLACES)}."]
    body += [visit(choose) for _ in range(1 + choose.below(3))]
    if choose.below(4) == 0:
        body.append(choose.of(REMARKS))
    return "\n".join(body) + "\n\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=150_000, help="stop after the day that reaches this size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("text.bin"))
    options = parser.parse_args()
    choose, text, index = Chooser(options.seed), "", 0
    while len(text) < options.bytes:
        text += day(choose, index)
        index += 1
    options.output.write_bytes(text.encode("ascii"))


if __name__ == "__main__":
    main()
