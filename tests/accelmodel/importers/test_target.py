"""Targets from plain values: the bundled ones are whole and plausible, and each wrong field is named."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml

from accelmodel.errors import InputError
from accelmodel.importers.target import list_targets, read_target, target_path
from accelmodel.target import Target


def values_of(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(target_path(name).read_text(encoding="utf-8"))
    return values


def device_peak_flops_per_ns(target: Target, engine: str, precision: str) -> float:
    return target.cores * target.engines[engine].flops_per_ns[precision]


def test_a_gpu_an_edge_npu_and_a_server_cpu_come_with_the_package() -> None:
    assert {"a100-40gb", "edge-npu", "server-cpu", "t4"} <= set(list_targets())


@pytest.mark.parametrize("name", list_targets())
def test_every_bundled_target_reads_and_carries_its_own_name(name: str) -> None:
    assert read_target(values_of(name)).name == name


def test_the_a100_reaches_its_datasheet_peaks() -> None:
    a100 = read_target(values_of("a100-40gb"))
    assert device_peak_flops_per_ns(a100, "matrix", "float16") == pytest.approx(312e3, rel=0.002)
    assert device_peak_flops_per_ns(a100, "vector", "float32") == pytest.approx(19.5e3, rel=0.002)
    assert device_peak_flops_per_ns(a100, "matrix", "int8") == pytest.approx(624e3, rel=0.002)


def test_the_t4_reaches_its_datasheet_peaks() -> None:
    t4 = read_target(values_of("t4"))
    assert device_peak_flops_per_ns(t4, "matrix", "float16") == pytest.approx(65e3, rel=0.01)
    assert device_peak_flops_per_ns(t4, "vector", "float32") == pytest.approx(8.1e3, rel=0.01)


def test_the_edge_npu_has_no_cache_and_four_cores_can_ask_for_more_than_its_dram_gives() -> None:
    npu = read_target(values_of("edge-npu"))
    assert npu.l2 is None
    assert npu.cores * npu.core_dram_bytes_per_ns > npu.dram.bandwidth_bytes_per_ns > npu.core_dram_bytes_per_ns


@pytest.mark.parametrize("name", list_targets())
def test_no_core_can_draw_more_from_dram_than_the_device_has(name: str) -> None:
    target = read_target(values_of(name))
    assert target.core_dram_bytes_per_ns <= target.dram.bandwidth_bytes_per_ns


def changed(path: str, value: object) -> dict[str, Any]:
    values = deepcopy(values_of("a100-40gb"))
    *parents, key = path.split("/")
    node = values
    for parent in parents:
        node = node[parent]
    node[key] = value
    return values


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("cores", 1.5, "field cores"),
        ("cores", True, "field cores"),
        ("cores", 0, "field cores"),
        ("name", 7, "field name"),
        ("host_launch_ns", "3 us", "field host_launch_ns"),
        ("host_launch_ns", float("nan"), "field host_launch_ns"),
        ("host_launch_ns", 10**400, "field host_launch_ns"),
        ("host_launch_ns", -1, "field host_launch_ns"),
        ("dram", None, "field dram"),
        ("dram/bandwidth_bytes_per_ns", 0, "dram.bandwidth_bytes_per_ns"),
        ("dram/scope", "core", "field dram.scope"),
        ("dram/name", "hbm", "field dram.name"),
        ("sram/capacity_bytes", 1.0e6, "field sram.capacity_bytes"),
        ("engines/matrix/flops_per_ns", {"fp16": 1.0}, "engines.matrix.flops_per_ns"),
        ("engines/matrix/flops_per_ns/float16", 0, "engines.matrix.flops_per_ns.float16"),
        ("engines/matrix/native_tile", [16, 8], "engines.matrix.native_tile"),
        ("engines/matrix/efficiency", 1.1, "engines.matrix.efficiency"),
        ("engines/tensor", {"name": "tensor", "flops_per_ns": {}, "native_tile": [1, 1, 1], "efficiency": 1}, "tensor"),
        ("engines", [], "field engines"),
        ("clock_mhz", 1410, "field clock_mhz"),
        ("dram/kind", "hbm2", "field dram.kind"),
        ("sources/cores", "", "field sources.cores"),
        ("sources/cpus", "somewhere", "field sources.cpus"),
    ],
)
def test_a_wrong_field_is_named(path: str, value: object, field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_target(changed(path, value))
    assert "a100-40gb" in str(caught.value) or path == "name"
    assert field in str(caught.value)


@pytest.mark.parametrize("field", ["cores", "dram", "sources", "graph_launch_ns"])
def test_a_missing_field_is_named(field: str) -> None:
    values = values_of("a100-40gb")
    del values[field]
    with pytest.raises(InputError, match=f"field {field}: expected a value, found nothing"):
        read_target(values)


def test_a_missing_engine_is_named() -> None:
    values = values_of("a100-40gb")
    del values["engines"]["matrix"], values["sources"]["engines.matrix.flops_per_ns"]
    del values["sources"]["engines.matrix.native_tile"], values["sources"]["engines.matrix.efficiency"]
    with pytest.raises(InputError, match=r"engines\.matrix"):
        read_target(values)


def test_a_figure_without_a_source_is_refused_by_its_path() -> None:
    values = values_of("a100-40gb")
    del values["sources"]["dram.bandwidth_bytes_per_ns"]
    with pytest.raises(InputError, match=r"sources\.dram\.bandwidth_bytes_per_ns"):
        read_target(values)


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="a100-40gb"):
        target_path("b200")


def test_the_values_are_not_changed_by_reading_them() -> None:
    values: Mapping[str, Any] = values_of("edge-npu")
    before = deepcopy(values)
    read_target(values)
    assert values == before
