"""Anchors: stable, safe, and links that lead somewhere."""

import re

from reports.anchors import SECTION_OF, html_id, proof_cell, row_id
from schemas.anchors import anchor, row_anchor
from tests.reports.world_tables import HOSTILE


def test_a_row_name_and_its_keys_give_the_same_id() -> None:
    name = anchor("mechanisms", "latency-p99", "overall", "prefix", "fusion")

    assert html_id(name) == row_id("mechanisms", "latency-p99", "overall", "prefix", "fusion")
    assert html_id(name) == "mechanisms~latency-p99~overall~prefix~fusion"


def test_a_row_is_named_by_its_columns() -> None:
    row = {"check": "latency-p99", "scope": "overall", "experiment": "single", "stage": "tiling", "value": 3.0}

    assert row_anchor("mechanisms", row) == "mechanisms#latency-p99/overall/single/tiling"


def test_hostile_names_give_safe_ids_that_differ() -> None:
    ids = [row_id("ops", name) for name in (*HOSTILE, "a/b", "a b", "a-b", "")]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9._~-]+", value) for value in ids)


def test_a_very_long_name_gives_a_short_id_of_its_own() -> None:
    first, second = row_id("ops", "x" * 500), row_id("ops", "x" * 501)

    assert len(first) < 100
    assert first != second


def test_a_proof_links_to_its_row_where_the_page_has_it() -> None:
    proof = anchor("checks", "latency-p99", "overall")

    cell = proof_cell(proof, {html_id(proof)})

    assert cell.href == "#checks~latency-p99~overall"
    assert (cell.text, cell.title) == ("validation matrix: latency-p99, overall", proof)


def test_a_proof_whose_row_is_not_shown_links_to_its_section() -> None:
    assert proof_cell("kernels#candidate/block/short/1/g7", ()).href == f"#{SECTION_OF['kernels']}"


def test_a_proof_of_an_unknown_artifact_is_plain_text_and_none_says_missing() -> None:
    assert proof_cell("elsewhere#1", ()).href == ""
    assert proof_cell("", ()).text.startswith("missing")
