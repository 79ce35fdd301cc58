"""What README and documentation say is true: commands are run and compared, code is run, rule files are parsed."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import RUN, blocks_of, page_name, pages
from docs.rewrite import rewritten
from docs.session import PageError, Session

DATA = ("csv", "json", "text")
"""Languages of files that a block may be, and of what is only shown; `text` without a title needs a reason."""
NOT_RUN_AT_MOST = 0.2
"""The share of blocks that may have a reason not to run. Chosen, not tuned."""


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_a_page_is_true(page: Path, tmp_path: Path) -> None:
    session = Session(tmp_path)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        session.run(block, f"{page_name(page)}:{block.first}")


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_every_block_is_run_or_has_a_reason(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        where = f"{page_name(page)}:{block.first}"
        known = block.language in RUN or (block.language in DATA and block.title is not None)
        assert known or block.reason is not None, f"{where}: {block.language or 'a block'} is not run, and says not why"


def test_few_blocks_are_not_run() -> None:
    blocks = [block for page in pages() for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert sum(block.reason is not None for block in blocks) <= NOT_RUN_AT_MOST * len(blocks)


PAGE = """\
```csv title="t.csv"
id,zip,city
1,10,Bonn
2,10,Ulm
```

```console
$ holdstrue check t.csv --rule 'zip -> city' --format csv
rule,t,s
zip -> city,0,{s}
$ echo $?
1
$ printf 'a\\nb\\n' | head -n 1
a
```
"""


def _run(text: str, folder: Path) -> None:
    session = Session(folder)
    for block in blocks_of(text):
        session.run(block, "page")


def test_a_page_that_tells_the_truth(tmp_path: Path) -> None:
    _run(PAGE.format(s=1), tmp_path)


def test_a_page_with_another_output_is_refused_and_rewritten(tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"zip -> city,0,1"):
        _run(PAGE.format(s=7), tmp_path)
    assert rewritten(PAGE.format(s=7), tmp_path, "page") == PAGE.format(s=1)
    varying = PAGE.format(s="...")
    assert rewritten(varying, tmp_path, "page") == varying


def test_a_command_that_fails_is_refused_unless_the_page_shows_it(tmp_path: Path) -> None:
    failing = "```console\n$ holdstrue check none.csv --rule 'a -> b'\n{}```\n"
    with pytest.raises(PageError, match="ends with 2"):
        _run(failing.format(""), tmp_path)
    _run(failing.format("error: ...none.csv...\n...\n"), tmp_path)


def test_wrong_code_and_rules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="Expected"):
        _run("```python\n>>> 1 + 1\n3\n```\n", tmp_path)
    with pytest.raises(PageError, match="RuleError"):
        _run("```yaml\nrules: ['a --> b']\n```\n", tmp_path)
    with pytest.raises(PageError, match="ZeroDivisionError"):
        _run("```python\nx = 0\n```\n\n```python\n1 / x\n```\n", tmp_path)
