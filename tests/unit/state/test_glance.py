"""A cheap look at a state: another after every commit, the same after reading; locally and in a bucket."""

from __future__ import annotations

import os
import shutil

from holdstrue.state.journal import Journal
from holdstrue.state.store import Glance, store_at
from places import Places


def look(place: str) -> Glance:
    store = store_at(place)
    try:
        return store.glance()
    finally:
        store.close()


def test_every_commit_is_seen_and_nothing_else(places: Places) -> None:
    place = places.fresh()
    seen = [look(place)]
    with Journal.create(place, "site") as journal:
        journal.commit(journal.write_checkpoint({}, journal.line("first"), {"rows": 0}))
        seen.append(look(place))
        for number in range(40):
            journal.commit(journal.write_batch([], 0, journal.line(f"batch {number}"), {"rows": number}))
            seen.append(look(place))
            with Journal.open(place, "site", read_only=True) as reader:
                assert reader.facts["rows"] == number
            assert look(place) == seen[-1]
    assert len(set(seen)) == len(seen)


def test_two_commits_of_one_time_are_told_apart_by_the_writers_note(folders: Places) -> None:
    place = folders.fresh()
    with Journal.create(place, "site") as journal:
        journal.commit(journal.write_checkpoint({}, journal.line("first"), {"rows": 0}))
        seen = set()
        for number in range(50):
            journal.commit(journal.write_batch([], 0, journal.line(f"batch {number}"), {"rows": number}))
            for file in os.scandir(f"{place}/log"):
                os.utime(file, (1, 1))
                os.truncate(file, 1 << 20)  # as if room had been written ahead
            seen.add(look(place))
    assert len(seen) == 50


def test_a_state_made_anew_is_another(folders: Places) -> None:
    place = folders.fresh()
    seen = []
    for facts in ({}, {"note": "of another size, as both may be made in one tick of the clock"}):
        with Journal.create(place, "site") as journal:
            journal.commit(journal.write_checkpoint({}, journal.line("first"), facts))
        seen.append(look(place))
        shutil.rmtree(place)
    assert seen[0] != seen[1] and look(place) not in seen
