"""Snapshots read, masked, cut and compared (web5)."""

from __future__ import annotations

from mulligan.tools.web_use.bridge.snapshot import MASK, Snapshot, cut, difference, masked

TREE = """\
- generic [active] [ref=e1]:
  - heading "People: all \\"of\\" them" [level=1] [ref=e2]
  - table [ref=e8]:
    - row [ref=e10]:
      - cell "Anna" [ref=e11]
      - cell [ref=e12]:
        - button "Delete" [ref=e13]
    - row [ref=e14]:
      - cell "Bert" [ref=e15]
      - cell [ref=e16]:
        - button "Delete" [disabled] [ref=e17] [cursor=pointer]
  - 'button "a: b" [ref=e18]': it''s
  - textbox "Password" [ref=e19]: "hun ter: 2"
  - dialog "Sure?" [ref=e20]:
    - text: Really
    - button "Yes" [ref=e21]
  - /url: "#x"
"""


def test_elements_are_told_apart_by_what_is_around_them() -> None:
    tree = Snapshot(TREE)
    first, second = tree.element("e13"), tree.element("e17")

    assert first is not None
    assert second is not None
    assert ("button", "Delete", "row Anna Delete") == (first.role, first.name, first.within)
    assert "row Bert Delete" == second.within
    assert (None, None) == (tree.element("e99"), tree.element("ref"))


def test_the_same_reference_in_a_row_that_says_something_else_is_another_element() -> None:
    later = Snapshot(TREE.replace("Anna", "Cleo"))

    assert Snapshot(TREE).element("e13") != later.element("e13")
    assert Snapshot(TREE).element("e17") == later.element("e17")


def test_names_are_read_whatever_they_are_written_like() -> None:
    tree = Snapshot(TREE)

    assert tree.holds('heading "People: all \\"of\\" them"')
    assert tree.holds('button "a: b"')
    assert tree.holds("dialog")
    assert not tree.holds('button "Save"')
    yes = tree.element("e21")
    assert yes is not None
    assert "dialog Sure?" == yes.within


def test_the_values_of_password_fields_are_masked() -> None:
    hidden = masked(TREE, ["hun  ter: 2", ""])

    assert "hun ter" not in hidden
    assert f'textbox "Password" [ref=e19]: {MASK}' in hidden
    assert TREE == masked(TREE, [""])
    assert "Anna" in masked(TREE, ["Anna"]), "what is no field's value stays"


def test_a_cut_ends_with_a_line() -> None:
    assert (TREE, 0) == cut(TREE)

    shown, missing = cut(TREE, 100)

    assert len(shown.encode()) <= 100
    assert TREE.startswith(f"{shown}\n")
    assert len(TREE.encode()) == len(shown.encode()) + missing
    assert ("", 300) == cut("x" * 300, 100)


def test_a_difference_holds_what_changed() -> None:
    changed = difference(TREE, TREE.replace("Anna", "Cleo"))

    assert '-      - cell "Anna" [ref=e11]' in changed
    assert '+      - cell "Cleo" [ref=e11]' in changed
    assert "" == difference(TREE, TREE)
