"""Who listens hears all, who is slow is let go, and nobody waits for a bell that was closed."""

from __future__ import annotations

import asyncio

from holdstrue.serve.bell import WAITING, Bell, event

NOW = {"name": "s", "version": 1}


def test_now_and_then_each_change() -> None:
    async def heard() -> list[str]:
        bell = Bell(lambda: [NOW])
        listening = bell.listen()
        found = [await anext(listening), await anext(listening)]
        bell.ring({"name": "s", "version": 2})
        found.append(await anext(listening))
        bell.close()
        found += [text async for text in listening]
        found += [text async for text in bell.listen()]
        return found

    told = asyncio.run(asyncio.wait_for(heard(), 60))
    assert told[1:3] == [event(NOW), event({"name": "s", "version": 2})]
    assert told[3:] == [told[0], event(NOW)], "who comes later hears how things stand, and goes"


def test_who_does_not_keep_up_is_let_go() -> None:
    async def heard() -> int:
        bell = Bell(lambda: [])
        listening = bell.listen()
        await anext(listening)
        ringing: asyncio.Future[str] = asyncio.ensure_future(anext(listening))
        await asyncio.sleep(0)
        for _ in range(WAITING + 5):
            bell.ring(NOW)
        await ringing
        return 1 + len([text async for text in listening])

    assert asyncio.run(asyncio.wait_for(heard(), 60)) <= WAITING + 1
