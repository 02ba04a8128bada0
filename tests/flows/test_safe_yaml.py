"""YAML of strangers: what is taken, what is refused, and where the message points."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.safe_yaml import MAX_BYTES, MAX_NODES, parse_yaml, read_yaml
from schemas.errors import DocumentError

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 6)
)


def refused(text: str) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, "file.yaml")
    assert caught.value.source == "file.yaml"
    assert caught.value.remedy
    return caught.value


def test_values_come_with_the_line_of_each_field() -> None:
    document = parse_yaml("name: one\nparts:\n  - size: 1\n  - size: 2\n", "file.yaml")

    assert document.values == {"name": "one", "parts": [{"size": 1}, {"size": 2}]}
    assert document.lines[("name",)] == 1
    assert document.lines[("parts", 1, "size")] == 4


def test_a_bomb_of_aliases_is_refused_before_it_unfolds() -> None:
    assert str(MAX_NODES) in refused(LAUGHS).expected


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("a: &a [*a]", "levels", "more at line"),
        ("[" * 200, "levels", "more at line 1"),
        ("a: " + "{b: " * 40 + "1" + "}" * 40, "levels", "more at line 1"),
        ("a: &x 1\n" + "".join(f"b{i}: *x\n" for i in range(80)), "aliases", "more at line"),
        ("a: !!python/object/apply:os.system ['true']", "one YAML document", "constructor"),
        ("a: 1\n---\nb: 2", "one YAML document", "another document"),
        ("", "fields and values", "nothing"),
        ("a: 2025-02-30", "values that exist", "day"),
        ("a: \x00", "one YAML document", "character"),
        ("a: &a {x: 1}\nb:\n  <<: *a", "plain keys", "line 3"),
        ("? [a, b]\n: 1", "plain keys", "line 1"),
    ],
)
def test_what_no_candidate_file_needs_is_refused(text: str, expected: str, found: str) -> None:
    error = refused(text)

    assert expected in error.expected
    assert found in error.found


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    error = refused("a: 1\nb:\n  c: 1\n  c: 2\n")

    assert error.where == "b.c"
    assert error.found == "it at lines 3 and 4"


def test_many_values_are_refused() -> None:
    assert "values" in refused("a: [" + "1," * (MAX_NODES + 1) + "]").expected


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    binary.write_bytes(b"a: \xff\xfe")

    for path, found in ((large, "more"), (binary, "byte 3"), (tmp_path / "none.yaml", "nothing at this path")):
        with pytest.raises(DocumentError, match=found) as caught:
            read_yaml(path)
        assert caught.value.source == str(path)
