"""Algorithm optVer: where HEVs and indexes live so that few ids are shipped (paper 000, Fig. 7).

Steps as in the paper: initialisation (an HEV for each left side), expansion (sets shared by several CFDs),
location (where most of a set is held; also at the right-hand side's site), and a search that removes HEVs
while it keeps the k best plans. Beyond the paper, the search also moves homes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from holdstrue.fragments.draft import Attrs, Draft, Ground, Helper, drafted

BEAM = 5
"""Plans that the search keeps, as in the paper's Example 8."""

MOST_HELPERS = 200
"""Shared sets that expansion keeps, those of most CFDs first. Chosen, not tuned."""

State = tuple[tuple[int, ...], frozenset[Helper]]


def chain_plan(ground: Ground) -> Draft:
    """The plan without optimisation: each CFD's left side along its attributes, the index at the last one.

    Attributes at several sites are taken where the ids of those before already are, if anywhere (Fig. 6(a), (b)).
    """
    draft = Draft(ground)
    for number, need in enumerate(ground.needs):
        attrs = [1 << i for i in range(len(ground.attrs)) if need.x >> i & 1]
        site = _start(ground, need.x, attrs[0])
        done: Attrs = 0
        for attr in attrs:
            if not ground.holds[site] & attr:
                previous, site = site, _next(draft, done, site, attr)
                if done & ~ground.holds[site]:
                    _hand_on(draft, done, previous, site)
            done |= attr
        wanted = (site, draft.obtain(need.x, site), draft.obtain(need.b, site))
        draft.homes[number] = wanted
    return draft


def _start(ground: Ground, x: Attrs, first: Attrs) -> int:
    return max(ground.holders[first], key=lambda s: ((ground.holds[s] & x).bit_count(), -s))


def _next(draft: Draft, done: Attrs, site: int, attr: Attrs) -> int:
    """The next site of a chain: one that what is put together goes to already, else the first that holds it."""
    return min(draft.ground.holders[attr], key=lambda to: ((done, site, to) not in draft.shipped, to))


def _hand_on(draft: Draft, attrs: Attrs, source: int, target: int) -> None:
    ship = (attrs, source, target)
    if ship not in draft.shipped:
        draft.shipped[ship] = draft.obtain(attrs, source)


def opt_ver(ground: Ground, k: int = BEAM) -> Draft:
    """The best plan that the search finds. Complexity: O(rounds x k x (HEVs + homes x sites) x needs)."""
    if not ground.needs:
        return Draft(ground)
    helpers = frozenset((attrs, site) for attrs in _expanded(ground) for site in _places(ground, attrs))
    start: State = (tuple(_located(ground, need.x, need.b) for need in ground.needs), helpers)
    best, cost = start, drafted(ground, *start).cost
    at_right = tuple(_located(ground, need.b, need.b) for need in ground.needs)
    starts = [(homes, own) for homes in (start[0], at_right) for own in (helpers, frozenset[Helper]())]
    for state in (_useful(ground, one) for one in starts):
        found = drafted(ground, *state).cost
        if found <= cost:
            best, cost = state, found
    beam, seen = [best], {best}
    while beam:
        found_states: dict[State, int] = {}
        for state in beam:
            for neighbour in _neighbours(ground, state):
                if neighbour not in seen:
                    seen.add(neighbour)
                    found_states[neighbour] = drafted(ground, *neighbour).cost
        ranked = sorted(found_states, key=lambda s: (found_states[s], len(s[1]), s[0]))[:k]
        if not ranked or found_states[ranked[0]] > cost:
            break
        improved = found_states[ranked[0]] < cost
        best, cost = ranked[0], found_states[ranked[0]]
        # states as good as the best are looked at as long as they lose HEVs; then the search ends
        beam = ranked if improved else [s for s in ranked if found_states[s] == cost and len(s[1]) < len(beam[0][1])]
        beam = [_useful(ground, state) for state in beam]
    return drafted(ground, *best)


def _expanded(ground: Ground) -> list[Attrs]:
    """Sets that several CFDs share, and left sides: what is put together once may be used often."""
    sides = [*dict.fromkeys(need.x for need in ground.needs)]
    counts: dict[Attrs, int] = {}
    for one, other in combinations(sides, 2):
        shared = one & other
        if shared.bit_count() > 1:
            counts[shared] = counts.get(shared, 0) + 1
    shared_by = {
        bit: sum(1 for x in sides if x & bit) for bit in (1 << i for i in range(len(ground.attrs)))
    }  # fmt: skip
    for x in sides:
        # up to |X| pairs that hold the most shared attribute of X (Example 8: AI and AJ)
        bits = sorted((bit for bit in shared_by if x & bit), key=lambda bit: (-shared_by[bit], bit))
        for bit in bits[1:]:
            counts.setdefault(bits[0] | bit, 0)
        if x.bit_count() > 1:
            counts.setdefault(x, 0)
    return sorted(counts, key=lambda attrs: (-counts[attrs], attrs))[:MOST_HELPERS]


def _places(ground: Ground, attrs: Attrs) -> list[int]:
    """Where a set may be put together: the sites that hold most of it."""
    held = [(own & attrs).bit_count() for own in ground.holds]
    return [site for site, count in enumerate(held) if count and count == max(held)]


def _located(ground: Ground, x: Attrs, b: Attrs) -> int:
    """findLoc: the site that holds most of a CFD, its right side included; then the one most CFDs read."""
    use = [sum(1 for need in ground.needs if own & (need.x | need.b)) for own in ground.holds]
    sites = range(len(ground.sites))
    return max(sites, key=lambda s: ((ground.holds[s] & (x | b)).bit_count(), bool(ground.holds[s] & b), use[s], -s))


def _useful(ground: Ground, state: State) -> State:
    """The same plan without the HEVs that nothing is taken from."""
    draft = drafted(ground, *state)
    used = frozenset((attrs, source) for attrs, source, _ in draft.shipped)
    kept = (state[0], state[1] & used)
    return kept if drafted(ground, *kept).cost <= draft.cost else state


def _neighbours(ground: Ground, state: State) -> Iterable[State]:
    homes, helpers = state
    for helper in helpers:
        yield homes, helpers - {helper}
    for number, sites in enumerate(_moves(ground, homes)):
        for other in sites:
            yield (*homes[:number], other, *homes[number + 1 :]), helpers
    for source in set(homes):
        # CFDs of one home often gain only when they move together: what one needs then serves all
        for target, own in enumerate(ground.holds):
            moved = [source == h and own & need.b for h, need in zip(homes, ground.needs, strict=True)]
            if source != target and sum(map(bool, moved)) > 1:
                yield tuple(target if m else h for m, h in zip(moved, homes, strict=True)), helpers


def _moves(ground: Ground, homes: Sequence[int]) -> Iterable[list[int]]:
    for number, need in enumerate(ground.needs):
        wanted = need.x | need.b
        yield [s for s, own in enumerate(ground.holds) if own & wanted and s != homes[number]]
