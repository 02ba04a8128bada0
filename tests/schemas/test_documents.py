"""Documents: what is good is read as it stands; what is bad gives one message with file, field, line and remedy."""

from __future__ import annotations

import pickle
from copy import deepcopy
from datetime import date
from math import inf, nan
from typing import Any

import pytest
import yaml

from accelmodel.errors import InputError
from accelmodel.importers.target import list_targets, target_path
from schemas.candidate import Candidate
from schemas.documents import SCHEMAS, json_schema, parse
from schemas.errors import DocumentError, TableError
from schemas.policy import DEFAULT_CHECKS, DEFAULT_OWNERSHIP, Policy
from schemas.tables import TABLES
from schemas.target import Target

SIDE = """
  name: stable
  tags: {compiler: "1", runtime: "1", driver: "1", firmware: "1", hardware: a100}
  conditions: {clock_mhz: 1410, temperature_c: 55, power_w: 400, throttling: false}
"""
CANDIDATE = f"""
schema: tilegate/v1
name: new-fusion
target: a100-40gb
workloads:
- {{name: block, model: block.onnx, batch_dim: batch}}
traffic: {{generate: {{kind: poisson, rate_per_s: 10, duration_s: 3, sizes: {{1: 0.5, 128: 0.5}}}}}}
comparator:{SIDE}
candidate:{SIDE}
policy:
  waivers: [{{check: latency-p99, reason: known, signed_by: me, until: 2030-01-01}}]
"""


def spoilt(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The good candidate with one value set, parts in between made where they are missing."""
    document = yaml.safe_load(CANDIDATE)
    part: Any = document
    for step in path[:-1]:
        part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
    part[path[-1]] = value
    return deepcopy(document)


def refusal(path: tuple[str | int, ...], value: object, **more: Any) -> DocumentError:
    with pytest.raises(DocumentError) as caught:
        parse(Candidate, spoilt(path, value), "c.yaml", **more)
    return caught.value


def test_good_candidate_is_read_as_it_stands() -> None:
    candidate = parse(Candidate, yaml.safe_load(CANDIDATE), "c.yaml")
    assert candidate.traffic.generate is not None
    assert candidate.traffic.generate.sizes == {1: 0.5, 128: 0.5}
    assert candidate.policy.waivers[0].until == date(2030, 1, 1)
    assert candidate.comparator.settings.fusion.policy == "pattern"


def test_what_was_read_can_be_written_and_read_again() -> None:
    candidate = parse(Candidate, yaml.safe_load(CANDIDATE), "c.yaml")
    assert parse(Candidate, candidate.model_dump(mode="json", by_alias=True), "again") == candidate


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        (("comparator", "conditions", "clock_ghz"), 1.41, "'clock_mhz', in MHz"),
        (("comparator", "settings", "scheduling", "max_wait_ms"), 1, "'max_wait_us', in microseconds"),
        (("policy", "rollback", "window_ms"), 1, "'window_s', in seconds"),
        (("comparator", "settings", "placement", "reserve_kib"), 1, "'reserve_bytes', in bytes"),
    ],
)
def test_wrong_unit_says_the_unit_expected(path: tuple[str, ...], value: float, remedy: str) -> None:
    error = refusal(path, value)
    assert error.where == ".".join(path)
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        (("comparator", "settings", "fusoin"), {}, "Did you mean 'fusion'?"),
        (("comparator", "settings", "fusion", "polcy"), "none", "Did you mean 'policy'?"),
        (("comparator", "settings", "fusion", "policy"), "agressive", "Did you mean 'aggressive'?"),
        (("workloads", 0, "nmae"), "x", "Did you mean 'name'?"),
        (("policy", "owners", "ml_compiler_enginer"), "x", "Did you mean 'ml_compiler_engineer'?"),
        (("polic",), {}, "Did you mean 'policy'?"),
        (("comparator", "zzz"), 1, "The fields are name, tags"),
    ],
)
def test_misspelt_key_or_value_says_the_nearest(path: tuple[str | int, ...], value: object, remedy: str) -> None:
    assert remedy in refusal(path, value).remedy


@pytest.mark.parametrize("value", [nan, inf, -inf, "1410 MHz", "1410", True, None, [], -1, 0])
def test_what_is_no_positive_number_is_no_clock(value: object) -> None:
    error = refusal(("comparator", "conditions", "clock_mhz"), value)
    assert error.where == "comparator.conditions.clock_mhz"


def test_text_where_a_number_stands_is_told_the_unit() -> None:
    assert "in MHz, without quotes" in refusal(("comparator", "conditions", "clock_mhz"), "1410 MHz").remedy


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("schema",), "tilegate/v2", "tilegate/v1"),
        (("name",), "../evil", "text of the form"),
        (("traffic", "generate"), None, "exactly one of traffic.generate and traffic.file"),
        (("traffic", "generate", "sizes"), {"many": 1.0}, "sizes.many (the key)"),
        (("traffic", "generate", "kind"), "burst", "Did you mean 'bursty'?"),
        (("traffic", "generate", "streams"), [], "at least one of each"),
        (("declared_changes",), ["hardware"], "declared_changes[0]"),
        (("policy", "checks"), [{"id": "a", "metric": "latency_p99_us"}], "exactly one of margin and limit"),
        (("policy",), {"checks": [{"id": "a", "metric": "latency_p50_us", "margin": 0.1}]}, "tail before average"),
        (("policy", "waivers", 0), {"check": "latency-p99", "reason": "r", "signed_by": "s"}, "until"),
        (("policy", "waivers", 0, "until"), "never", "valid date"),
        (("policy", "waivers", 0, "check"), "nope", "no check is called 'nope'"),
        (("workloads", 0, "name"), "overall", "stands for all workloads"),
        (("workloads", 0, "buckets"), [{"name": "fallback"}], "no bucket covers"),
        (("workloads",), [], "workloads"),
        (("comparator", "tags", "driver"), "", "at least 1 character"),
        (("comparator", "profiles"), [{"workload": "other", "path": "p"}], "no workload has that name"),
    ],
)
def test_other_faults_are_refused_in_words(path: tuple[str | int, ...], value: object, words: str) -> None:
    assert words in str(refusal(path, value))


def test_bursts_that_exceed_the_mean_rate_are_refused() -> None:
    traffic = {"kind": "bursty", "rate_per_s": 1, "duration_s": 1, "burst_factor": 20, "burst_share": 0.1}
    assert "burst_factor x burst_share" in str(refusal(("traffic", "generate"), traffic))


def test_message_names_the_line_of_the_field_or_of_the_part_around_it() -> None:
    lines = {(): 1, ("comparator",): 8, ("comparator", "conditions"): 11, ("comparator", "conditions", "clock_mhz"): 12}
    path = ("comparator", "conditions", "clock_mhz")
    assert str(refusal(path, -1, lines=lines)).startswith("c.yaml, line 12: ")
    assert refusal(("comparator", "conditions", "extra"), 1, lines=lines).line == 11


def test_first_problem_is_the_wrong_key_and_the_others_are_listed() -> None:
    document = yaml.safe_load(CANDIDATE)
    document["comparator"]["conditions"] = {"clock_ghz": 1, "temperature_c": 1, "power_w": 1, "throttling": False}
    document["nmae"] = document.pop("name")
    with pytest.raises(DocumentError) as caught:
        parse(Candidate, document, "c.yaml")
    assert "unknown key" in caught.value.found
    assert len(caught.value.others) == 3


def test_a_list_is_not_called_too_short_when_its_only_item_is_wrong() -> None:
    assert "at least 1 item" not in str(refusal(("workloads", 0, "nmae"), "x"))


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_no_mapping_is_refused(document: object) -> None:
    with pytest.raises(DocumentError, match="expected a mapping of fields to values"):
        parse(Candidate, document, "c.yaml")


def test_values_that_no_file_holds_are_refused() -> None:
    with pytest.raises(DocumentError, match="plain values"):
        parse(Candidate, {"name": object()}, "c.yaml")
    loop: dict[str, object] = {}
    loop["name"] = loop
    with pytest.raises(DocumentError, match="plain values"):
        parse(Candidate, loop, "c.yaml")


def test_huge_values_do_not_make_huge_messages() -> None:
    assert len(str(refusal(("comparator", "conditions", "clock_mhz"), "x" * 10**6))) < 1000


@pytest.mark.parametrize("name", list_targets())
def test_targets_of_the_package_are_good_documents(name: str) -> None:
    assert parse(Target, yaml.safe_load(target_path(name).read_text()), name).name == name


def test_target_without_an_engine_or_with_a_wrong_scope_is_refused() -> None:
    target = yaml.safe_load(target_path(list_targets()[0]).read_text())
    lacking = {**target, "engines": {key: value for key, value in target["engines"].items() if key != "vector"}}
    with pytest.raises(DocumentError, match="engines: vector needed"):
        parse(Target, lacking, "t.yaml")
    with pytest.raises(DocumentError, match="scope device needed"):
        parse(Target, {**target, "dram": {**target["dram"], "scope": "core"}}, "t.yaml")
    with pytest.raises(DocumentError, match="bandwidth_bytes_per_ns: expected greater than or equal to"):
        parse(Target, {**target, "dram": {**target["dram"], "bandwidth_bytes_per_ns": 0}}, "t.yaml")


def test_ownership_keeps_the_defaults_of_stages_that_are_left_out() -> None:
    policy = parse(Policy, {"ownership": {"fusion": "memory_hierarchy_owner"}}, "p.yaml")
    assert policy.ownership == {**DEFAULT_OWNERSHIP, "fusion": "memory_hierarchy_owner"}


def test_default_policy_puts_the_tail_before_the_average() -> None:
    metrics = [check.metric for check in DEFAULT_CHECKS]
    assert metrics.index("latency_p99_us") < metrics.index("latency_p50_us")
    assert "quality_failed_outputs" in metrics


def test_every_document_and_table_has_a_schema_with_described_fields() -> None:
    for name in SCHEMAS:
        assert json_schema(name)["properties"]
    clock = json_schema("candidate")["$defs"]["Conditions"]["properties"]["clock_mhz"]
    assert clock["description"].endswith("MHz.")
    for name in TABLES:
        assert len(json_schema(name)["columns"]) == len(TABLES[name].columns)
    with pytest.raises(KeyError, match="no schema 'nope'"):
        json_schema("nope")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("traffic", "generate", "rate_per_s"), 1e-9),
        (("traffic", "generate", "duration_s"), 1e9),
        (("candidate", "settings", "execution", "clock_fraction"), 1e-300),
        (("candidate", "settings", "execution", "noise_factors"), [1e300]),
        (("candidate", "settings", "scheduling", "max_wait_us"), 1e300),
    ],
)
def test_figures_that_no_machine_has_are_refused_where_they_stand(path: tuple[str, ...], value: object) -> None:
    error = refusal(path, value)
    assert error.where.startswith(".".join(path))
    assert "than or equal to" in error.expected


@pytest.mark.parametrize(("field", "value"), [("block_s", 1e-9), ("rate_scale", 1e300), ("stretch", 1e-300)])
def test_recorded_traffic_is_scaled_within_bounds(field: str, value: float) -> None:
    error = refusal(("traffic",), {"file": {"path": "t.csv", field: value}})
    assert error.where == f"traffic.file.{field}"


def test_more_requests_than_a_replication_holds_are_refused() -> None:
    error = refusal(("traffic", "generate"), {"kind": "poisson", "rate_per_s": 1e6, "duration_s": 1e6})
    assert "at most 50,000,000 requests" in str(error)


@pytest.mark.parametrize(
    ("level", "field", "value"),
    [
        ("dram", "bandwidth_bytes_per_ns", 1e-308),
        ("dram", "capacity_bytes", 10**30),
        ("dram", "alignment_bytes", 10**30),
        ("dram", "half_transfer_bytes", 1e30),
        ("sram", "bandwidth_bytes_per_ns", 1e300),
    ],
)
def test_target_figures_have_bounds(level: str, field: str, value: float) -> None:
    target = yaml.safe_load(target_path("edge-npu").read_text())
    with pytest.raises(DocumentError, match=rf"{level}\.{field}: expected .*than or equal to"):
        parse(Target, {**target, level: {**target[level], field: value}}, "t.yaml")


@pytest.mark.parametrize(
    "error",
    [
        DocumentError(source="c.yaml", where="a", expected="b", found="c", remedy="d", line=3, others=("e",)),
        TableError(source="ops", where="a", expected="b", found="c", remedy="d", row=0),
        InputError(stage="lowering", where="a", expected="b", found="c", remedy="d"),
    ],
)
def test_an_error_arrives_whole_from_another_process(error: Exception) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
