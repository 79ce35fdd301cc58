"""The command line on Spark: the same answers as in one process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from holdstrue.sources.read import read_table
from holdstrue.spark import files
from spark.conftest import MODE
from unit.cli.runs import PEOPLE, run, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.skipif(MODE != "local", reason="the commands make a session of their own"),
    pytest.mark.usefixtures("session_of_commands"),
]

MASTER = ("--master", "local[2]")
SPARK = ("--engine", "spark", *MASTER)
HEAD = "op,id,zip,city,state,salary,rate\n"


def answer(*args: object) -> tuple[int, Any, str]:
    """Exit code, JSON without the order of its violations, and what stood on standard error."""
    result = run(*args, "--format", "json")
    said = json.loads(result.stdout) if result.stdout else {}
    listed = {name: sorted(map(json.dumps, said[name])) for name in ("violations", "added", "removed") if name in said}
    return result.exit_code, said | listed, result.stderr


def unordered(value: Any) -> Any:
    """Plain data in which no list has an order."""
    if isinstance(value, dict):
        return {name: unordered(part) for name, part in value.items()}
    return sorted(map(json.dumps, map(unordered, value))) if isinstance(value, list | tuple) else value


def assert_same(*args: object) -> tuple[int, Any, str]:
    """A command answers the same on Spark and in one process."""
    one = answer(*args)
    assert answer(*args, *SPARK) == one
    return one


# --- check ---------------------------------------------------------------------------------------


def test_every_format_is_read_as_one_process_reads_it(tmp_path: Path, people: Path, rules: Path) -> None:
    table = read_table(people)
    pq.write_table(table, tmp_path / "people.parquet")
    feather.write_feather(table, tmp_path / "people.arrow")
    write(tmp_path / "people.jsonl", "".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(PEOPLE.encode()))
    first = assert_same("check", people, "--rules", rules)
    assert first[0] == 1
    assert first[1]["rules"][0]["rows"] == 3
    for name in ("people.parquet", "people.arrow", "people.jsonl", "people.csv.gz"):
        assert answer("check", tmp_path / name, "--rules", rules, *SPARK) == first, name


def test_reading_options(tmp_path: Path) -> None:
    odd = tmp_path / "odd[1] .data"
    odd.write_bytes('id;town;note\n1;Köln;"NA"\n1;NA;"a\nb"\n2;"";\n'.encode("latin-1"))
    how = ("--input-format", "csv", "--delimiter", ";", "--encoding", "latin-1")
    rule = ("--rule", "id -> town", "--rule", "not null(town)", "--rule", "not(t.note = 'NA')", "--key", "id")
    assert assert_same("check", odd, *rule, *how)[1]["rules"][0]["pairs"] == 1
    assert assert_same("check", odd, *rule, *how, "--null-value", "NA")[1]["rules"][0]["pairs"] == 0


def test_types_are_those_of_all_rows(tmp_path: Path) -> None:
    # whole numbers until the last file, where one is text; dates, times, booleans, a column without any value
    head = "id,code,day,at,clock,yes,none,big\n"
    line = "{0},{0},2020-01-0{1},2020-01-01T00:00:0{1}Z,10:00:0{1},true,,12345678901234567890{1}\n"
    write(tmp_path / "a.csv", head + "".join(line.format(i, i % 9 + 1) for i in range(30)))
    write(tmp_path / "b.csv", head + '30,07X,2020-01-01,2020-01-01 00:00:01.5Z,10:00,false,,1\n31,7,,,,,,"2"\n')
    columns = ("code", "day", "at", "clock", "yes", "none", "big")
    equal = [f"key({column})" for column in columns]
    ordered = [f"not(t.{column} < s.{column} and t.id > s.id)" for column in columns if column != "yes"]
    args = [word for rule in equal + ordered for word in ("--rule", rule)]
    assert assert_same("check", tmp_path / "*.csv", *args, "--key", "id")[0] == 2, "code looks like numbers"
    args += ["--type", "code=text"]
    code, said, _ = assert_same("check", tmp_path / "*.csv", *args, "--key", "id", "--limit", 10**6)
    assert (code, said["truncated"], said["rules"][0]["pairs"]) == (1, False, 1)


def test_a_long_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SHARE", 100)
    rows = "".join(f'{i},"{i % 7}, ""x""\n{i % 5}",{i % 3}\n' for i in range(50))
    long = write(tmp_path / "long.csv", "\n\n" + 'id,"a\nb",c\n' + rows + "50,,x\n")
    assert len(files.parts_of(long, "csv", "utf8")) > 3
    found = assert_same("check", long, "--rule", "`a\nb` -> c", "--rule", "not(t.c = 'x')", "--key", "id")
    assert found[1]["rules"][1]["rows"] == 1


def test_what_cannot_be_read_names_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SHARE", 100)
    rows = "".join(f"{i},{i}\n" for i in range(100))
    ragged = write(tmp_path / "ragged.csv", "id,a\n" + rows + "100,1,2\n" + rows)
    code, _, said = assert_same("check", ragged, "--rule", "key(a)")
    assert (code, "row 101 of" in said) == (2, True)
    (tmp_path / "latin.csv").write_bytes(b"id,a\n" + rows.encode() + b"7,K\xf6ln\n")
    assert "is not utf8 text" in assert_same("check", tmp_path / "latin.csv", "--rule", "key(a)")[2]
    assert "did you mean 'id'" in assert_same("check", tmp_path / "latin.csv", "--rule", "key(idd)")[2]
    other = write(tmp_path / "other.csv", "id,b\n1,1\n")
    assert "no key column" in assert_same("check", other, "--rule", "key(b)", "--key", "x")[2]
    good = write(tmp_path / "good.csv", "id,a\n1,1\n")
    assert "has no column 'a'" in assert_same("check", good, other, "--rule", "key(a)")[2]


def test_what_spark_cannot_hold_is_refused(tmp_path: Path) -> None:
    nano = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(nano, tmp_path / "nano.parquet")
    feather.write_feather(nano, tmp_path / "nano.arrow")
    feather.write_feather(pa.table({"id": pa.array([1], pa.uint8()), "at": [1]}), tmp_path / "unsigned.arrow")
    for name in ("nano.parquet", "nano.arrow", "unsigned.arrow"):
        code, _, said = answer("check", tmp_path / name, "--rule", "id -> at", *SPARK)
        assert (code, "hint: leave out --engine spark" in said) == (2, True), said


def test_forms_of_a_check(people: Path, rules: Path) -> None:
    text = run("check", people, "--rules", rules, *SPARK)
    assert text.exit_code == 1
    assert text.stdout.splitlines()[0] == "4 rows of people: 3 rules, 2 violated, 3 violations"
    assert "    t   1    10001   NYC\n    s   2    10001   New York\n                     ^^^^^^^^\n" in text.stdout
    for form in ("jsonl", "csv"):
        one, other = (run("check", people, "--rules", rules, "-f", form, *on).stdout for on in ((), SPARK))
        assert sorted(one.splitlines()) == sorted(other.splitlines())
    junit = run("check", people, "--rules", rules, "-f", "junit", *SPARK)
    assert 'failures="1"' in junit.stdout
    assert "2 violations in 3 rows" in junit.stdout
    assert run("check", people, "--rule", "key(id)", *SPARK).exit_code == 0


def test_every_rule_shows_rows_whatever_the_rules_before_list(tmp_path: Path) -> None:
    data = write(tmp_path / "data.csv", "id,a\n" + "".join(f"{i or ''},-1\n" for i in range(9)))
    rules = ("--rule", "not(t.a < 0)", "--rule", "key(a)", "--key", "id", "--limit", 2)
    text = run("check", data, *rules, *SPARK).stdout
    assert text.count("    t   ") == 2
    assert "NULL   -1" in text
    assert "… 7 more" in text
    assert "… 34 more" in text


def test_further_tables(tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,customer_id\n1,7\n2,8\n3,\n")
    customers = write(tmp_path / "customers.csv", "id\n7\n")
    rule = "orders.customer_id in customers.id"
    args = (orders, "--rule", rule, "--table", f"customers={customers}", "--key", "id")
    assert assert_same("check", *args)[1]["violations"] == [json.dumps({"rule": rule, "t": 2})]


# --- init and apply ------------------------------------------------------------------------------


def standing(state: Path | str) -> Any:
    """What `status` says of a state, without where it is."""
    said = json.loads(run("status", state, "--history", "--format", "json").stdout)
    for line in said["history"]:
        del line["time"]
    return {name: value for name, value in said.items() if name not in ("path", "version")}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_states_of_both_engines_say_the_same(tmp_path: Path, people: Path, rules: Path, ending: str) -> None:
    if ending == "parquet":
        pq.write_table(read_table(people), people.with_suffix(".parquet"))
        people = people.with_suffix(".parquet")
    one, other = tmp_path / "one", tmp_path / "other"
    for state, on in ((one, ()), (other, SPARK)):
        made = run("init", state, "--rules", rules, "--data", people, *on)
        assert made.exit_code == 0, made.output
    assert standing(one) == standing(other)
    batches = [
        HEAD + "delete,2,,,,,\ninsert,5,60601,Chikago,IL,4500,2\n",
        HEAD + "update,5,60601,Chicago,IL,9000,1\nupsert,6,10001,NY,NY,1,9\n",
    ]
    for number, text in enumerate(batches):
        changes = write(tmp_path / f"{number}.csv", text)
        assert answer("apply", one, changes) == answer("apply", other, changes, *SPARK)
    assert standing(one) == standing(other)
    for question in ((), ("--groups",), ("--worst", 100), ("--rule", "zips")):
        said, again = (answer("violations", state, *question) for state in (one, other))
        assert unordered(said) == unordered(again)
    bad = write(tmp_path / "bad.csv", HEAD + "delete,1,,,,,\ninsert,3,1,X,X,1,1\n")
    refused, same = answer("apply", one, bad), answer("apply", other, bad, *SPARK)
    assert refused == same
    assert "row 2 of" in refused[2]
    # a state goes from one engine to the other and back
    more = write(tmp_path / "more.csv", HEAD + "insert,9,10001,Yonkers,NY,1,1\n")
    assert answer("apply", one, more, "--batch-id", "x", *SPARK) == answer("apply", other, more, "--batch-id", "x")
    assert answer("apply", one, more, "--batch-id", "x", *SPARK)[1]["duplicate"] is True
    assert standing(one) == standing(other)


def test_a_key_that_rows_share_is_noted(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", "id,day,v\n3,1,1\n1,1,1\n1,1,2\n")
    said = [run("check", rows, "--rule", "not(t.v < 0)", "--key", "id,day", *on).stderr for on in ((), SPARK)]
    assert "note: the key is not unique: 1 row has the key of another row (such as id 1, day 1)" in said[0]
    assert [line for line in said[1].splitlines() if line.startswith("note:")] == said[0].splitlines()
    assert "key" not in run("check", rows, "--rule", "not(t.v < 0)", "--key", "id,v", *SPARK).stderr


def test_text_of_a_batch_shows_the_rows(tmp_path: Path, people: Path, rules: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    changes = write(tmp_path / "1.csv", HEAD + "insert,5,60601,Chikago,IL,4500,1\n")
    said = []
    for state, on in ((one, ()), (other, SPARK)):
        run("init", state, "--rules", rules, "--data", people, *on)
        said.append(run("apply", state, changes, *on))
    assert said[0].stdout == said[1].stdout
    assert "  ^^^^^^^\n" in said[1].stdout
    assert said[1].exit_code == 1


def test_init_leaves_nothing_behind_when_it_fails(tmp_path: Path, rules: Path) -> None:
    twice = write(tmp_path / "twice.csv", PEOPLE + "1,1,X,X,1,1\n")
    made = run("init", tmp_path / "s", "--rules", rules, "--data", twice, *SPARK)
    assert made.exit_code == 2
    assert "the key must be unique in the data" in made.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rules.yaml", "twice.csv"]


def test_change_files_need_known_columns(tmp_path: Path, people: Path, rules: Path) -> None:
    run("init", tmp_path / "s", "--rules", rules, *SPARK)
    for command in (("apply", tmp_path / "s", people, *SPARK), ("watch", tmp_path / "s", tmp_path, "--once", *SPARK)):
        refused = run(*command)
        assert refused.exit_code == 2
        assert "the columns of table 'people' are not known yet" in refused.stderr
    assert run("apply", tmp_path / "s", people).exit_code == 1


# --- files as people have them -------------------------------------------------------------------

GERMAN = "\ufeffid;born;price;note\n1;31.01.1990;1,50;a\n2;01.02.1980;10,25;b\n3;;2;\n"
LATER_IS_DEARER = "not(t.price > s.price and t.born < s.born)"
TYPES = ("--type", "price=decimal(comma)", "--type", "born=date(%d.%m.%Y)")


def test_declared_types_are_read_and_remembered(tmp_path: Path) -> None:
    data = write(tmp_path / "sales.csv", GERMAN)
    rule = ("--rule", LATER_IS_DEARER, "--key", "id")
    code, said, notes = assert_same("check", data, *rule, *TYPES)
    assert code == 1
    assert len(said["violations"]) == 1
    assert "separated by ';'" in notes
    assert assert_same("check", data, *rule)[0] == 2, "text that looks like numbers is not ordered"
    assert assert_same("check", data, *rule, "--type", "prise=text")[0] == 2
    parquet = tmp_path / "sales.parquet"
    pq.write_table(pa.table({"id": [1, 2], "born": ["31.01.1990", "01.02.1980"], "price": ["1,50", "10,25"]}), parquet)
    assert assert_same("check", parquet, *rule, *TYPES)[0] == 1
    pq.write_table(pa.table({"id": [1], "born": ["31.02.1990"], "price": ["1,50"]}), parquet)
    bad = run("check", parquet, *rule, *TYPES, *SPARK)
    assert bad.exit_code == 2
    assert "holds '31.02.1990', declared as date(%d.%m.%Y)" in bad.stderr
    here, there = tmp_path / "here", tmp_path / "there"
    for state, engine in ((here, ()), (there, SPARK)):
        made = run("init", state, *rule, "--data", data, *TYPES, *engine)
        assert made.exit_code == 0, made.output
        batch = write(tmp_path / "b.csv", "id;born;price;extra\n4;03.03.2003;7,5;x\n")
        applied = run("apply", state, batch, "--format", "json", *engine)
        assert applied.exit_code == 1, applied.output
        notes = json.loads(applied.stdout)["notes"]
        assert any("'extra'" in note for note in notes)
        assert any("'note'" in note for note in notes)
        refused = run("apply", state, batch, "--type", "born=text", *engine)
        assert refused.exit_code == 2
        assert "remembers date(%d.%m.%Y)" in refused.stderr
        wide = run("apply", state, write(tmp_path / "c.csv", "id;born;price\n5;03.03.2003;7,555\n"), *engine)
        assert wide.exit_code == 2
        assert "decimal(19,3,comma)" in wide.stderr
    assert unordered(json.loads(run("violations", here, "--format", "json").stdout)) == unordered(
        json.loads(run("violations", there, "--format", "json").stdout)
    )


def test_parts_of_a_file_are_one_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide numbers, decimals and a cell that makes text, each in another part of the file."""
    monkeypatch.setattr(files, "SHARE", 64)
    cells = [*(str(i) for i in range(200)), "12345678901234567", "12345678901234568", "0.5", "7.125"]
    data = write(tmp_path / "a.csv", "id,x\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    assert assert_same("check", data, "--rule", "key(x)", "--key", "id")[0] == 0
    assert_same("check", data, "--rule", "not(t.x > 7.2)", "--key", "id", "--type", "x=decimal")
    cells[150] = "n/a"
    write(data, "id,x\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    code, _, notes = assert_same("check", data, "--rule", "key(x)", "--key", "id")
    assert code == 0
    assert f"because of 'n/a' in row 151 of {data}" in notes
    assert assert_same("check", data, "--rule", "key(x)", "--key", "id", "--type", "x=decimal")[0] == 2


def test_data_frames_of_text_are_parsed_as_declared(spark: SparkSession, tmp_path: Path) -> None:
    import holdstrue.spark as hs

    rows = [(1, "31.01.1990", "1,5"), (2, "01.02.1980", "10,25")]
    frame = spark.createDataFrame(rows, "id long, born string, p string")
    types = {"born": "date(%d.%m.%Y)", "p": "decimal(comma)"}
    rule = "not(t.p > s.p and t.born < s.born)"
    report = hs.check(frame, rule, key="id", types=types)
    assert [(v.t, v.s) for v in report.listed()] == [(2, 1)]
    monitor = hs.Monitor(spark, tmp_path / "state", rule, key="id", data=frame, types=types)
    more = spark.createDataFrame([(3, "01.01.1970", "99", 1)], "id long, born string, p string, extra int")
    delta = hs.Monitor(spark, tmp_path / "state").apply(more)
    assert delta.counts[rule].added == 2
    assert any("'extra'" in note for note in delta.notes)
    assert monitor.violations().count() == 3


def test_a_table_of_delta_lake_is_refused_by_name_where_spark_cannot_read_it(tmp_path: Path) -> None:
    table, state = tmp_path / "delta", tmp_path / "state"
    (table / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1], "zip": ["a"]}), table / "part-0.parquet")
    first = write(tmp_path / "first.csv", "id,zip\n1,a\n")
    assert run("init", state, "--rule", "key(zip)", "--key", "id", "--data", first).exit_code == 0
    for args in (
        ("check", table, "--rule", "key(zip)"), ("discover", table), ("apply", state, table),
        ("init", tmp_path / "new", "--rule", "key(zip)", "--key", "id", "--data", table),
    ):  # fmt: skip
        result = run(*args, *SPARK)
        assert result.exit_code == 2, (args, result.output)
        assert "a table of Delta Lake" in result.stderr, (args, result.stderr)


def test_a_state_at_a_url(bucket: str, tmp_path: Path, people: Path, rules: Path) -> None:
    """The same state from Spark and from one process, kept for a while."""
    assert run("init", bucket, "--rules", rules, "--data", people, "--keep", "1h", *SPARK).exit_code == 0
    before, version = standing(bucket), answer("status", bucket)[1]["version"]
    change = write(tmp_path / "c.csv", f"{HEAD}insert,5,60601,Chikago,IL,4500,2\n")
    assert run("apply", bucket, change, "--batch-id", "b1", *SPARK).exit_code == 1
    assert run("apply", bucket, change, "--batch-id", "b1").exit_code == 0
    after = standing(bucket)
    assert (after["batches"], after["last_batch"]) == (2, "b1")
    past = answer("status", bucket, "--at", version)[1]
    assert (past["rules"], past["batches"]) == (before["rules"], 1)
    code, checked, _ = answer("verify", bucket)
    assert (code, checked["problems"]) == (0, [])
    more = write(tmp_path / "d.csv", f"{HEAD}delete,5,,,,,\n")
    assert run("apply", bucket, more).exit_code == 0
    assert standing(bucket)["rules"] == before["rules"]
    again = run("init", bucket, "--rules", rules, *SPARK)
    assert (again.exit_code, "it holds a state" in again.stderr) == (2, True)


def test_a_state_at_a_url_that_is_none(people: Path) -> None:
    result = run("init", "hdfs://node/state", "--rule", "key(zip)", "--key", "id", "--data", people, *SPARK)
    assert result.exit_code == 2
    assert "a state cannot be kept at hdfs://" in result.stderr


# --- fragments -----------------------------------------------------------------------------------


def test_relations_over_sites(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "id,zip\n1,E1\n2,E1\n3,E2\n")
    write(tmp_path / "b.csv", "id,city\n1,Bonn\n2,Ulm\n3,Bonn\n")
    monday = write(tmp_path / "monday.csv", "op,id,zip,city\ninsert,4,E2,Ulm\ndelete,2,,\n")
    said = "key: id\nstate: {}\nrules: [zip -> city]\nsites: [{{name: A, source: a.csv}}, {{name: B, source: b.csv}}]\n"
    one, other = (write(tmp_path / f"{name}.yaml", said.format(name)) for name in ("one", "other"))
    for command in (("check",), ("init",), ("apply", monday), ("check",)):
        ours, theirs = (
            answer("fragments", command[0], file, *command[1:], *place) for file, place in ((one, ()), (other, SPARK))
        )
        assert theirs[0] == ours[0], theirs
        names = ("added", "removed", "violations")
        assert [theirs[1].get(name) for name in names] == [ours[1].get(name) for name in names]
    # what Spark keeps is opened in one process, and the other way round
    assert answer("fragments", "check", other)[1]["added"] == answer("fragments", "check", one)[1]["added"]
    assert answer("fragments", "check", one, *SPARK)[1]["added"] == answer("fragments", "check", one)[1]["added"]
    gone = write(tmp_path / "gone.csv", "op,id\ndelete,99\n")
    assert "delete of id=99, which does not exist" in run("fragments", "apply", other, gone, *SPARK).stderr
    assert "--master is about Spark" in run("fragments", "check", other, *MASTER).stderr


def test_suspects_of_files(tmp_path: Path) -> None:
    lines = "".join(
        f"{at},{zip_},{town}\n" for at, (zip_, town) in enumerate([("01", "Bonn")] * 30 + [("2", "Ulm")] * 30)
    )
    data = write(tmp_path / "towns.csv", f"id,zip,town\n{lines}60,01,Bomn\n61,2,Uln\n")
    asked = ("suspects", data, "--key", "id", "--type", "zip=text", "--rule", "towns := zip -> town")
    alone, found = (json.loads(run(*asked, *place, "--format", "json").stdout) for place in ((), SPARK))
    assert found["suspects"] == alone["suspects"]
    assert [(one["row"], one["proposed"]) for one in found["suspects"]] == [(60, "Bonn"), (61, "Ulm")]
    text = run(*asked, *SPARK, "--limit", "1").stdout
    assert "2 cells probably wrong" in text
    assert "1 more" in text
    listed = run(*asked, *SPARK, "--limit", "1", "--format", "jsonl")
    assert len(listed.stdout.splitlines()) == 1
    assert "1 more" in listed.stderr
    for refused in (("--format", "patch"), ("-o", tmp_path / "all.parquet")):
        result = run(*asked, *SPARK, *refused)
        assert (result.exit_code, "data frame" in result.stderr) == (2, True)
    state = tmp_path / "state"
    assert run("init", state, "--rule", "zip -> town", "--key", "id", "--data", data).exit_code == 0
    assert "is a state" in run("suspects", state, *SPARK).stderr
