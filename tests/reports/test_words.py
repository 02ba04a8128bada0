"""Numbers into words."""

import pytest

from reports import words


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (None, "missing"), (12, "12"), (1234567, "1,234,567"), (1.23456, "1.23"), (98.76, "98.8"),
        (1234.5, "1,234"), (0.0123456, "0.0123"), (-4.5, "−4.50"), (4.2e-6, "4.20e−6"), (1.0, "1.00"),
    ],
)  # fmt: skip
def test_a_number_keeps_three_digits_and_says_when_it_is_missing(value: float | None, shown: str) -> None:
    assert words.number(value) == shown


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        words.number(value)


def test_values_that_are_compared_share_one_unit_of_time() -> None:
    scale = words.time_scale([900.0, 48_000_000.0, None])

    assert scale.unit == "ms"
    assert scale.with_unit(48_000_000.0) == "48.0\u00a0ms"
    assert scale.with_unit(None) == "missing"


def test_a_time_by_itself_takes_the_largest_unit_that_leaves_one_and_a_table_ten() -> None:
    assert words.time_text(9_000.0) == "9.00\u00a0µs"
    assert words.time_scale([9_000.0, 4.0]).unit == "ns"
    assert words.time_scale([10_000.0, 4.0]).unit == "µs"


def test_sizes_are_powers_of_1024() -> None:
    assert words.bytes_text(1536) == "1.50\u00a0KiB"
    assert words.bytes_text(3 * 2**20) == "3.00\u00a0MiB"
    assert words.bytes_text(0) == "0\u00a0bytes"


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.99997, ">99.99 %"), (0.0, "0 %"), (1.0, "100 %"), (0.375, "37.5 %"), (0.0123, "1.23 %"), (0.9987, "99.87 %"),
     (0.00001, "<0.01 %"),
     (12.5, "1,250 %"), (None, "missing")],
)  # fmt: skip
def test_a_percentage_keeps_the_digits_that_matter_near_its_ends(share: float | None, shown: str) -> None:
    assert words.percent(share).replace("\u00a0", " ") == shown


def test_a_worsening_says_which_way() -> None:
    assert words.worsening(0.123).replace("\u00a0", " ") == "12.3 % worse"
    assert words.worsening(-0.04).replace("\u00a0", " ") == "4.00 % better"
    assert words.worsening(0.0) == "no change"
    assert words.worsening(None) == "change missing"


def test_a_written_margin_reads_as_it_was_written() -> None:
    assert words.stated_percent(0.05).replace("\u00a0", " ") == "5 %"
    assert words.stated_percent(0.001).replace("\u00a0", " ") == "0.1 %"


def test_differences_of_shares_are_points_with_a_sign() -> None:
    assert words.points(0.2).replace("\u00a0", " ") == "+20.0 points"
    assert words.points(-0.00001).replace("\u00a0", " ") == "≈0 points"
    assert words.signed_percent(0.00001).replace("\u00a0", " ") == "≈0 %"
    assert words.points(-0.0938).replace("\u00a0", " ") == "−9.38 points"


def test_counts_and_lists_read_as_sentences() -> None:
    assert [words.count(value, "kernel") for value in (0, 1, 2)] == ["no kernels", "1 kernel", "2 kernels"]
    assert words.listed([]) == "none"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
