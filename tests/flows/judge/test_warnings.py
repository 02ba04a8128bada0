"""Warnings of replications: one line for what is the same in all of them."""

from flows.judge.warnings import folded


def test_a_warning_of_every_replication_is_said_once_with_the_range_of_its_numbers() -> None:
    texts = [f"candidate, replication {i}: unstable: slots 1.0{i} busy, p99 void" for i in range(3)]
    assert folded([*texts, "MODEL-ONLY", "comparator, replication 1: unstable: slots 1.50 busy, p99 void"], 3) == (
        "candidate, in 3 of 3 replications: unstable: slots 1.00 to 1.02 busy, p99 void",
        "MODEL-ONLY",
        "comparator, in 1 of 3 replications: unstable: slots 1.50 busy, p99 void",
    )


def test_warnings_of_other_things_stay_as_they_are() -> None:
    assert folded(["a", "b", "replication 3 is odd"], 8) == ("a", "b", "replication 3 is odd")
