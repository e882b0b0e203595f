"""The handbook on disk: what is read and when, and what is refused by name."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.file_stamps import FRESH_NS
from tools.handbook import folder
from tools.handbook.folder import FILES, MAX_FILE_BYTES, MAX_PATH_LENGTH, Handbook, HandbookError


def wrong(path: Path) -> str:
    with pytest.raises(HandbookError) as error:
        Handbook(path).load_snapshot()
    return str(error.value)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def put_long_ago(path: Path, text: str) -> None:
    """Long enough: the next change shows in its times."""
    written = put(path, text).stat().st_ctime_ns
    while time.time_ns() - written <= FRESH_NS:
        time.sleep(0.005)


def ids(book: folder.HandbookSnapshot) -> list[str]:
    return [one.id for one in book.sections]


def test_markdown_files_of_all_folders_are_read_hidden_ones_and_others_are_not(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.MD", ".hidden.md", ".git/x.md", "a/.x/y.md", "notes.txt", "md"):
        put(tmp_path / name, "# x\ny")
    assert ids(Handbook(tmp_path).load_snapshot()) == ["a/c.MD#x", "b.md#x"]
    assert Handbook().load_snapshot().search_sections("x") == []


def test_what_changes_is_read_again_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    really = folder._read_sections

    def counted(path: Path, file: str) -> tuple[folder.Section, ...]:
        read.append(file)
        return really(path, file)

    monkeypatch.setattr(folder, "_read_sections", counted)
    put(tmp_path / "a.md", "# one\nx")
    put_long_ago(tmp_path / "b.md", "# two\nx")
    handbook = Handbook(tmp_path)
    first = handbook.load_snapshot()
    assert handbook.load_snapshot() is first and read == ["a.md", "b.md"]
    put_long_ago(tmp_path / "b.md", "# three\nhotel")
    assert [one.id for one in handbook.load_snapshot().search_sections("hotel")] == ["b.md#three"]
    (tmp_path / "a.md").unlink()
    assert ids(handbook.load_snapshot()) == ["b.md#three"] and read == ["a.md", "b.md", "b.md"]


def test_a_file_that_becomes_unusable_is_told_and_mended(tmp_path: Path) -> None:
    file = put(tmp_path / "a.md", "# x\ny")
    handbook = Handbook(tmp_path)
    handbook.load_snapshot()
    file.write_bytes(b"\xff\xff")
    for _ in range(2):
        with pytest.raises(HandbookError, match=r"a\.md: is not UTF-8"):
            handbook.load_snapshot()
    put(file, "# z\ny")
    assert ids(handbook.load_snapshot()) == ["a.md#z"]


def test_a_link_out_of_the_folder_is_refused_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = put(tmp_path / "secret.md", "# key\n1234")
    put(tmp_path / "book" / "sub" / "a.md", "# x\ny")
    for name in ("link", "sub/link.txt", "link.md"):
        (tmp_path / "book" / name).symlink_to(secret if name != "link" else tmp_path)
        assert wrong(tmp_path / "book") == f"{name}: a link that leads out of the folder"
        if name != "link.md":
            (tmp_path / "book" / name).unlink()
    monkeypatch.setattr(os.path, "realpath", str)
    assert ids(Handbook(tmp_path / "book").load_snapshot()) == ["link.md#key", "sub/a.md#x"], "the negative control"


def test_a_link_inside_is_followed_as_mounted_folders_have_them(tmp_path: Path) -> None:
    put(tmp_path / "..2026_11" / "a.md", "# x\ny")
    (tmp_path / "..data").symlink_to("..2026_11")
    (tmp_path / "a.md").symlink_to("..data/a.md")
    (tmp_path / "all").symlink_to(".")
    assert ids(Handbook(tmp_path).load_snapshot()) == ["a.md#x"]


def test_a_hard_link_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees where it leads, e.g. to a file that only the bot may read."""
    book = tmp_path / "bot" / "book"
    book.mkdir(parents=True)
    (tmp_path / "secret").write_text("# a\nb", encoding="utf-8")
    (book / "a.md").hardlink_to(tmp_path / "secret")
    assert wrong(book) == "a.md: has another name elsewhere (a hard link); copy it instead"
    monkeypatch.setattr(folder, "_PROGRAM", tmp_path / "bot")
    assert Handbook(book).load_snapshot().sections, "the control: an installer links what comes with the program"


def test_other_oddities_are_refused_by_name(tmp_path: Path) -> None:
    assert wrong(tmp_path / "none") == "none: No such file or directory"
    assert wrong(put(tmp_path / "file.md", "x")) == "file.md: Not a directory"
    os.mkfifo(tmp_path / "pipe.md")
    assert wrong(tmp_path) == "pipe.md: is no plain file", "reading it would wait for ever"
    (tmp_path / "pipe.md").unlink()
    (tmp_path / "loop.md").symlink_to("loop.md")
    assert wrong(tmp_path).startswith("loop.md: ")
    (tmp_path / "loop.md").unlink()
    put(tmp_path / ("n" * MAX_PATH_LENGTH + ".md"), "x")
    assert "its name should be printable" in wrong(tmp_path)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.md")).write_text("x")
    assert "its name should be printable" in wrong(tmp_path)


def test_sizes_and_numbers_have_limits(tmp_path: Path) -> None:
    put(tmp_path / "a.md", "x" * MAX_FILE_BYTES)
    assert len(Handbook(tmp_path).load_snapshot().sections) == 1
    put(tmp_path / "a.md", "x" * (MAX_FILE_BYTES + 1))
    assert wrong(tmp_path) == f"a.md: {MAX_FILE_BYTES + 1} bytes, at most {MAX_FILE_BYTES}"
    put(tmp_path / "a.md", "x")
    for n in range(FILES):
        put(tmp_path / f"{n}.md", "x")
    assert f"more than {FILES} files" in wrong(tmp_path)


async def test_what_is_said_about_a_matter_is_bounded_and_whole_sections(tmp_path: Path) -> None:
    put(tmp_path / "a.md", f"# Hotel\n600\n# Meals\nhotel {'x' * 500}\n# Trains\nsecond class")
    handbook = Handbook(tmp_path)
    assert await handbook.quote_relevant_sections("hotel", 100) == "[a.md | Hotel]\n# Hotel\n600\n"
    more = await handbook.quote_relevant_sections("hotel", 1000)
    assert "Meals" in more and "Trains" not in more
    for nothing in ("", "nothing of it"):
        assert await handbook.quote_relevant_sections(nothing, 1000) == ""


@given(text=st.text(max_size=200), most=st.integers(0, 300))
async def test_it_never_says_more_than_asked(tmp_path_factory: pytest.TempPathFactory, text: str, most: int) -> None:
    path = tmp_path_factory.mktemp("book")
    (path / "a.md").write_bytes(f"# x\nword {text}\n# y\nword".encode())
    assert len(await Handbook(path).quote_relevant_sections("word", most)) <= most
