"""Real networks and real traffic through the whole gate, on a GPU and on an edge NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import polars as pl
import pytest
import yaml

from accelmodel.generate import write_model
from flows.commands.run import judge_candidate
from flows.embedded import EmbeddedServer
from flows.store import Store, read_table

pytestmark = pytest.mark.slow
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NETWORKS = {"a100-40gb": ("squeezenet",), "edge-npu": ("resnet50",)}
TAGS = {"runtime": "r", "driver": "d", "firmware": "f", "hardware": "h"}
CONDITIONS = {"clock_mhz": 1000, "temperature_c": 50, "power_w": 100, "throttling": False}


def _side(name: str, compiler: str, launch_mode: str) -> dict[str, Any]:
    settings = {"execution": {"launch_mode": launch_mode}}
    return {"name": name, "tags": {"compiler": compiler, **TAGS}, "conditions": CONDITIONS, "settings": settings}


def write_real(folder: Path, target: str, networks: Sequence[str], traffic: Path) -> Path:
    """Candidate file of networks and a transformer block that takes the tokens of the trace; it launches by graph."""
    block = write_model("transformer_block", folder / "block.onnx", seed=0, hidden=64, heads=2, feed_forward=128)
    buckets = [{"name": f"t{n}", "shapes": {"sequence": n}} for n in (1024, 2048, 4096, 8192)]
    transformer = {
        "name": "transformer", "model": str(block), "weight": 3.0, "batch_dim": "batch", "size_dim": "sequence",
        "buckets": buckets, "quality_shapes": {"sequence": 32},
    }  # fmt: skip
    others = [{"name": name, "model": str(LIGHT / f"light_{name}.onnx")} for name in networks]
    document = {
        "schema": "tilegate/v1", "name": f"real-{target}", "target": target, "model_only": True,
        "declared_changes": ["compiler"], "workloads": [*others, transformer],
        "traffic": {"file": {"path": str(traffic), "block_s": 120}, "max_requests": 4000},
        "comparator": _side("stable", "1", "host"), "candidate": _side("next", "2", "graph"),
        "policy": {"replications": 4},
    }  # fmt: skip
    path = folder / f"{target}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("target", NETWORKS)
def test_networks_and_azure_traffic_go_through_every_stage(
    target: str, tmp_path: Path, reference_data: Path, prefect_server: EmbeddedServer
) -> None:
    trace = reference_data / "traffic" / "AzureLLMInferenceTrace_code.csv"
    store = Store(tmp_path / "runs")
    candidate = write_real(tmp_path, target, NETWORKS[target], trace)
    summary = judge_candidate(candidate, store, prefect_server, show=False)
    folder = store.run_folder(summary["run_id"])
    kernels, requests = (read_table(folder / f"{name}.parquet") for name in ("kernels", "requests"))

    assert summary["verdict"] == "GO", summary
    assert set(kernels["workload"]) == {*NETWORKS[target], "transformer"}
    served = requests.filter(pl.col("side") == "candidate", pl.col("workload") == "transformer")
    assert served["bucket"].n_unique() >= 4  # the tokens of the trace spread over the buckets
    assert served["latency_ps"].null_count() == 0
    assert (kernels["dram_bytes"] >= kernels["bound_dram_bytes"]).all()
    assert (folder / "report.html").stat().st_size > 100_000
