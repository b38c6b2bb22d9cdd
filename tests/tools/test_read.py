"""`read`: what it gives of files, and which files it gives nothing of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mulligan.errors import WorkflowInvalid
from mulligan.schemas.builder import Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import plan_digest
from mulligan.schemas.run_context import RunContext
from mulligan.schemas.strict import strict_schema
from mulligan.tools.read import roots
from mulligan.tools.read.tool import read
from mulligan.tools.result import ToolResult

READ = "mulligan.tools.read.tool:read"
STRICT = strict_schema(read.parameters)


def ask(root: Path, **arguments: Any) -> ToolResult:
    """A call as models make it, of a run that may read `root`."""
    context = RunContext(run="r", call="a.1.1", owner="a", read_roots=(str(root),))
    return read.call(arguments, context=context)


def lines(result: ToolResult) -> tuple[str, list[str]]:
    """The head of a result, and what is under it."""
    assert not result.is_error, result
    head, *rest = result.value.split("\n")
    return head, rest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that may be read, beside one that may not."""
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("a secret")
    (inside / "deep" / "note.txt").write_text("one\r\ntwo\nthree")
    (inside / "many.txt").write_text("".join(f"line {n}\n" for n in range(1, 10_001)))
    return inside


# --- Text -----------------------------------------------------------------------------------------


def test_read1_of_ten_thousand_lines_the_first_two_thousand_are_read(folder: Path) -> None:
    head, rest = lines(ask(folder, file_path="many.txt"))

    assert "[many.txt: lines 1-2,000 of 10,000; read on with offset 2001]" == head
    assert 2_000 == len(rest)
    assert ("     1\tline 1", "  2000\tline 2000") == (rest[0], rest[-1])


def test_read1_explicit_numbers_are_taken_as_they_are(folder: Path) -> None:
    head, rest = lines(ask(folder, file_path="many.txt", offset=9_999, limit=5_000))
    assert "[many.txt: lines 9,999-10,000 of 10,000]" == head
    assert ["  9999\tline 9999", " 10000\tline 10000"] == rest
    assert 2_500 == len(lines(ask(folder, file_path="many.txt", limit=2_500))[1])
    assert 2_000 == len(lines(ask(folder, file_path="many.txt", limit=2_000))[1])


def test_read1_an_offset_beyond_the_end_says_so(folder: Path) -> None:
    assert "there is no line 20,000" in lines(ask(folder, file_path="many.txt", offset=20_000))[0]
    (folder / "empty.txt").touch()
    assert "[empty.txt: 0 lines; it is empty]" == lines(ask(folder, file_path="empty.txt"))[0]


def test_read1_an_offset_may_be_any_number(folder: Path) -> None:
    head, rest = lines(ask(folder, file_path="many.txt", offset=1 << 70))

    assert f"[many.txt: 10,000 lines; there is no line {1 << 70:,}]" == head
    assert [] == rest


def test_read1_a_file_of_any_size_is_answered_soon(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse one costs nothing, and has no end that anybody waits for."""
    for name in ("COUNTED_BYTES", "SKIPPED_BYTES"):
        monkeypatch.setattr(f"mulligan.tools.read.text.{name}", 16 << 20)
    with (folder / "huge.txt").open("wb") as file:
        file.write(b"a line\n" * 2_000)
        file.truncate(1 << 42)

    refused = ask(folder, file_path="huge.txt", offset=5_000)
    assert "too_far" == refused.code
    assert "its first 16,777,216 bytes, which hold 2,000 lines and are as far" in (
        refused.message or ""
    )
    head, rest = lines(ask(folder, file_path="huge.txt", offset=2_000, limit=2))
    assert "[huge.txt: lines 2,000-2,001 of more than 2,001]" == head
    assert "bytes in all]" in rest[1]


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"a", b"a\n", b"a\n\nb", b"\n\n\n", b"a\r\nb\r\n", b"x" * 50 + b"\ny"]
)
def test_read1_whatever_is_skipped_the_lines_are_the_same(
    folder: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "some.txt").write_bytes(data)
    _, every = lines(ask(folder, file_path="some.txt"))
    for piece in (1, 2, 3, 1_000):
        monkeypatch.setattr("mulligan.tools.read.text._PIECE", piece)
        for offset in range(2, len(every) + 2):
            head, rest = lines(ask(folder, file_path="some.txt", offset=offset))
            assert every[offset - 1 :] == rest
            assert f"{len(every)}" in head


def test_read1_a_result_is_bounded_even_of_lines_that_hold_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.tools.read.text.MOST_BYTES", 700)
    (folder / "blank.txt").write_bytes(b"\n" * 10_000)

    head, rest = lines(ask(folder, file_path="blank.txt", limit=1 << 70))

    assert "[blank.txt: lines 1-100 of 10,000; read on with offset 101]" == head
    assert 100 == len(rest)


def test_read1_a_line_of_a_megabyte_is_cut_with_a_mark(folder: Path) -> None:
    (folder / "wide.txt").write_text("é" * 500_000 + "\nnext\n")

    head, (wide, following) = lines(ask(folder, file_path="wide.txt"))

    assert "[wide.txt: lines 1-2 of 2]" == head
    assert "     1\t" + "é" * 2_000 + " [line cut here: 1,000,000 bytes in all]" == wide
    assert "     2\tnext" == following


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\r\nb", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\n", ["a", ""]),
        (b"x" * 2_000, ["x" * 2_000]),
        ("\N{GRINNING FACE}".encode() * 2_000 + b"\nb", ["\N{GRINNING FACE}" * 2_000, "b"]),
        (b"a\xffb", ["a\ufffdb"]),
    ],
)
def test_read1_lines_are_what_lies_between_their_ends(
    folder: Path, data: bytes, shown: list[str]
) -> None:
    (folder / "odd.txt").write_bytes(data)

    head, rest = lines(ask(folder, file_path="odd.txt"))

    assert shown == [line.partition("\t")[2] for line in rest]
    assert f"lines 1-{len(shown)} of {len(shown)}" in head
    assert (b"\xff" in data) == ("not UTF-8" in head)


# --- PDF ------------------------------------------------------------------------------------------


def test_read1_of_three_hundred_pages_the_first_twenty_are_read(papers: Path) -> None:
    head, rest = lines(ask(papers, file_path="long.pdf"))

    assert "[long.pdf: PDF, pages 1-20 of 300; read on with offset 21]" == head
    assert ["--- page 1 ---", "This is page 1."] == rest[:2]
    assert "This is page 20." == rest[-1]


@pytest.mark.parametrize(
    ("given", "head"),
    [
        ({"limit": 2_000}, "pages 1-300 of 300]"),
        ({"limit": 20}, "pages 1-20 of 300; read on"),
        ({"offset": 291}, "pages 291-300 of 300]"),
        ({"offset": 7, "limit": 1}, "pages 7-7 of 300; read on with offset 8]"),
        ({"pages": "7"}, "pages 7-7 of 300; read on with offset 8]"),
        ({"pages": "5-40"}, "pages 5-40 of 300; read on"),
        ({"pages": "290-"}, "pages 290-300 of 300]"),
        ({"offset": 301}, "PDF of 300 pages; there is no page 301]"),
    ],
)
def test_read1_explicit_pages_are_told_from_defaults(
    papers: Path, given: dict[str, Any], head: str
) -> None:
    assert head in lines(ask(papers, file_path="long.pdf", **given))[0]


def test_read1_a_pdf_without_a_text_layer_says_so(papers: Path) -> None:
    head, rest = lines(ask(papers, file_path="scan.pdf"))
    assert "pages 1-2 of 2; all of these are without a text layer" in head
    assert [] == rest
    head, rest = lines(ask(papers, file_path="mixed.pdf"))
    assert "blank): 2]" in head
    assert ["--- page 1 ---", "Words."] == rest


def test_read1_a_pdf_that_can_not_be_read_is_an_error(papers: Path, tmp_path: Path) -> None:
    whole = (papers / "long.pdf").read_bytes()
    (tmp_path / "half.pdf").write_bytes(whole[:300])

    assert "pdf_unreadable" == ask(tmp_path, file_path="half.pdf").code
    assert "pdf_password" == ask(papers, file_path="locked.pdf").code


def test_a_pdf_that_takes_too_long_is_given_up(
    papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mulligan.tools.read.pdf.TIME_S", 0.0)
    assert "pdf_too_costly" == ask(papers, file_path="long.pdf").code


# --- The strict form ------------------------------------------------------------------------------


def test_read2_the_strict_form_requires_all_and_takes_null_for_what_is_optional() -> None:
    assert ["file_path", "offset", "limit", "pages"] == STRICT["required"]
    assert {"type": "string", "title": "File Path"} == STRICT["properties"]["file_path"]
    assert not [word for word in ("minimum", "default") if word in str(STRICT)]


@pytest.mark.parametrize("name", ["many.txt", "long.pdf"])
def test_read2_both_forms_work_and_null_is_what_was_left_out(
    folder: Path, papers: Path, name: str
) -> None:
    root = papers if name == "long.pdf" else folder
    nulls = {"file_path": name, "offset": None, "limit": None, "pages": None}
    jsonschema.validate(nulls, STRICT)

    assert ask(root, file_path=name) == ask(root, **nulls)
    assert ask(root, **nulls) != ask(root, **{**nulls, "limit": 2_000 if root == papers else 20})


def test_read2_no_other_null_is_taken_away(folder: Path) -> None:
    assert "invalid_arguments" == ask(folder, file_path=None).code
    assert "invalid_arguments" == ask(folder, file_path="many.txt", encoding=None).code


@pytest.mark.parametrize(
    "given",
    [
        {"offset": 0},
        {"limit": 0},
        {"limit": -1},
        {"offset": "two"},
        {"pages": "0"},
        {"pages": "9-3"},
        {"pages": "all"},
        {"pages": "1-2", "limit": 3},
        {"pages": "1"},
        {"file_path": ""},
        {"file_path": "a\0b"},
    ],
)
def test_bad_arguments_are_refused_in_words(folder: Path, given: dict[str, Any]) -> None:
    refused = ask(folder, **{"file_path": "many.txt", **given})
    assert (True, "invalid_arguments") == (refused.is_error, refused.code)


# --- Which files ----------------------------------------------------------------------------------


@pytest.fixture(params=["kernel", "walk"])
def opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to open a file."""
    if request.param == "walk":
        monkeypatch.setattr(roots, "_by_kernel", roots._by_walk)
    else:
        monkeypatch.setattr(roots, "_by_walk", None)
    return str(request.param)


def test_read1_paths_are_relative_to_a_root_or_under_it(folder: Path, opening: str) -> None:
    for path in (
        "deep/note.txt",
        "deep/../deep/note.txt",
        "./deep//note.txt",
        str(folder / "deep" / "note.txt"),
        "../inside/deep/note.txt",
    ):
        head, rest = lines(ask(folder, file_path=path))
        assert "[deep/note.txt: lines 1-3 of 3]" == head
        assert ["     1\tone", "     2\ttwo", "     3\tthree"] == rest


def test_read1_a_link_within_the_root_is_followed(folder: Path, opening: str) -> None:
    (folder / "link").symlink_to("deep", target_is_directory=True)
    (folder / "deep" / "back.txt").symlink_to(folder / "many.txt")
    assert "many.txt: lines" in lines(ask(folder, file_path="link/back.txt"))[0]


def test_read1_nothing_outside_the_roots_is_read(folder: Path, opening: str) -> None:
    outside = folder.parent / "outside"
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "way").symlink_to(outside, target_is_directory=True)
    (folder / "self").symlink_to("/proc/self", target_is_directory=True)
    (folder.parent / "inside-too").mkdir()
    (folder.parent / "inside-too" / "a.txt").write_text("not this one")

    for path in (
        "../outside/secret.txt",
        "link.txt",
        "way/secret.txt",
        "way/absent.txt",
        "deep/../../outside/secret.txt",
        "self/environ",
        "../inside-too/a.txt",
        str(outside / "secret.txt"),
        "/etc/passwd",
        "/etc/nothing-here",
    ):
        refused = ask(folder, file_path=path)
        assert (True, "outside_roots") == (refused.is_error, refused.code), path
        assert "secret" not in (refused.message or "")


@pytest.mark.parametrize("swapped", ["deep", "deep/secret.txt"])
def test_read1_a_link_put_in_between_leads_nowhere(
    folder: Path, opening: str, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path was resolved, and then a part of it became a link to another place."""
    place = roots._place

    def resolved_then_swapped(path: str, root: str) -> Any:
        found = place(path, root)
        (folder / swapped).rename(folder / "was-there")
        outside = folder.parent / "outside"
        (folder / swapped).symlink_to(outside / "secret.txt" if "/" in swapped else outside)
        return found

    (folder / "deep" / "secret.txt").write_text("harmless")
    monkeypatch.setattr(roots, "_place", resolved_then_swapped)
    refused = ask(folder, file_path="deep/secret.txt")
    assert refused.code in ("outside_roots", "not_found", "not_a_file"), refused


def test_read1_only_regular_files_are_opened(folder: Path, opening: str) -> None:
    os.mkfifo(folder / "pipe")
    assert "not_a_file" == ask(folder, file_path="pipe").code, "it does not wait for a writer"
    assert "not_a_file" == ask(folder, file_path="deep").code
    assert "not_a_file" == ask(folder, file_path=".").code
    assert "not_a_file" == ask(Path("/dev"), file_path="zero").code
    assert "not_found" == ask(folder, file_path="absent.txt").code
    assert "not_found" == ask(folder, file_path="many.txt/below").code
    (folder / "binary.bin").write_bytes(b"\x7fELF\0\0")
    assert "not_text" == ask(folder, file_path="binary.bin").code


def test_read1_without_roots_nothing_is_read(folder: Path) -> None:
    context = RunContext(run="r", call="a.1.1", owner="a")
    refused = read.call({"file_path": str(folder / "many.txt")}, context=context)
    assert "outside_roots" == refused.code
    assert "read_roots" in (refused.message or "")


# --- Workflows ------------------------------------------------------------------------------------


def test_an_agent_that_reads_must_be_told_what() -> None:
    flow = Workflow("flow")
    flow.agent("a", prompt="p", tools=[read])
    with pytest.raises(WorkflowInvalid, match=r"settings\.read_roots"):
        flow.definition()


def test_relative_roots_are_beside_the_workflow_and_the_plan_is_the_same_anywhere() -> None:
    flow = Workflow("flow", read_roots=["papers", "/srv/shared"])
    flow.agent("a", prompt="p", tools=[read])
    plans = [
        compile_plan(flow.definition().with_code_path(place), default_model="scripted/any")
        for place in ("/here", "/there")
    ]
    assert ("/here/papers", "/srv/shared") == plans[0].read_roots
    assert ("/there/papers", "/srv/shared") == plans[1].read_roots
    assert plan_digest(plans[0]) == plan_digest(plans[1])


@pytest.mark.server
def test_read2_a_run_reads_by_both_forms(bench: Any, papers: Path, folder: Path) -> None:
    flow = Workflow("reading", read_roots=[str(folder), str(papers)])
    output = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    flow.agent("a", prompt="Read.", tools=[read], output=output)
    nulls = {"offset": None, "limit": None, "pages": None}
    calls = [
        {"file_path": "many.txt", **nulls},
        {"file_path": "many.txt"},
        {"file_path": "long.pdf", **nulls, "limit": 2_000},
        {"file_path": "../outside/secret.txt", **nulls},
    ]

    worked = bench.work(flow, [{"name": "read", "arguments": call} for call in calls])

    assert "completed" == worked.state.status
    shown = worked.offered["read"]["parameters"]
    assert {**STRICT, "required": sorted(STRICT["required"])} == shown
    strict, plain, pdf, refused = worked.told
    assert strict == plain
    assert strict.startswith("[many.txt: lines 1-2,000 of 10,000; read on with offset 2001]\n")
    assert pdf.startswith("[long.pdf: PDF, pages 1-300 of 300]\n")
    assert '"code":"outside_roots"' in refused
    assert 2_001 == len(worked.results[0].split("\n")), "all of it is in the store"
    assert ["outside_roots"] == worked.failures
