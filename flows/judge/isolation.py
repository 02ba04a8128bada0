"""The first failing mechanism: hybrids of the two sides, re-run on the same seeds and arrivals, in stage order.

Prefix hybrid P(s) takes the stages up to s from the candidate. A check's mechanism is the smallest s where P(s) fails
and P(s-1) passes; that pair is the proof. Suffix swaps and single swaps show what cures it; where they disagree with
the prefix, stages interact. A hybrid passes or fails by `checks.compare`, the rule of the matrix before Holm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from flows.judge import words
from flows.judge.checks import CheckResult, compare
from flows.judge.facts import STAGES, MetricValues
from schemas.anchors import anchor
from schemas.decision import Status
from schemas.policy import Policy, Stage

EvaluateHybrid = Callable[[frozenset[str]], MetricValues]
Experiment = Literal["prefix", "suffix", "single", "cure"]
EXPERIMENTS: Final[tuple[Experiment, ...]] = ("prefix", "suffix", "single", "cure")
_SWAPS: Final[tuple[Experiment, ...]] = ("single", "cure", "suffix")


@dataclass(frozen=True, slots=True)
class Mechanism:
    """What isolation found for one failed check. stage: None where it is not isolated; reason says why.

    interaction: what the swaps say beside the prefix; empty where they agree. cures: stages whose single swap back to
    the comparator cures the check. proof: anchor of the proving row.
    """

    check: str
    scope: str
    blocking: bool
    stage: Stage | None
    isolation: Literal["isolated", "classified, not isolated", "not isolated"]
    reason: str
    interaction: str
    cures: tuple[Stage, ...]
    proof: str


@dataclass(frozen=True, slots=True)
class Isolation:
    """rows: of the table `mechanisms`. first: smallest mechanism over blocking checks. hybrids: how many were run."""

    rows: tuple[dict[str, object], ...]
    mechanisms: tuple[Mechanism, ...]
    first: Stage | None
    hybrids: int

    def of(self, check: str, scope: str) -> Mechanism | None:
        return next((item for item in self.mechanisms if (item.check, item.scope) == (check, scope)), None)


def isolate(
    results: Sequence[CheckResult],
    changed_stages: Iterable[str],
    evaluate_hybrid: EvaluateHybrid | None,
    policy: Policy,
) -> Isolation:
    """Mechanism of each failed check, in the order of `results`.

    changed_stages: stages in which the sides differ. evaluate_hybrid: values of the hybrid that takes the named
    (changed) stages from the candidate; called once for each distinct hybrid. None: sides that are only measured.
    """
    failed = [result for result in results if result.status == "fail"]
    changed: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage in set(changed_stages))
    if not failed:
        return Isolation((), (), None, 0)
    if evaluate_hybrid is None:
        reason = "the sides are only measured: there are no hybrids to run"
        return _nothing_run(failed, "classified, not isolated", reason)
    if not changed:
        reason = "the settings of no stage differ: what changed is not among them"
        return _nothing_run(failed, "not isolated", reason)
    bench = _Bench(changed, evaluate_hybrid)
    ladders = [_Ladder(result, bench, policy.confidence) for result in failed]
    mechanisms = tuple(_mechanism(ladder) for ladder in ladders)
    rows = [row for ladder, found in zip(ladders, mechanisms, strict=True) for row in _rows(ladder, found.stage)]
    return Isolation(tuple(rows), mechanisms, first_stage(mechanisms), len(bench.values))


def first_stage(mechanisms: Iterable[Mechanism]) -> Stage | None:
    """Smallest stage, in flow order, over the mechanisms of blocking checks."""
    found = {item.stage for item in mechanisms if item.blocking}
    return next((stage for stage in STAGES if stage in found), None)


@dataclass(slots=True)
class _Bench:
    """Runs each distinct hybrid once: unchanged stages give identical hybrids."""

    changed: tuple[Stage, ...]
    evaluate: EvaluateHybrid
    values: dict[frozenset[str], MetricValues] = field(default_factory=dict)

    def stages(self, experiment: Experiment, stage: Stage) -> frozenset[str]:
        """The changed stages that the experiment takes from the candidate."""
        upto = {item for item in self.changed if STAGES.index(item) <= STAGES.index(stage)}
        alone = {stage} & set(self.changed)
        everything = set(self.changed)
        taken = {"prefix": upto, "suffix": everything - upto, "single": alone, "cure": everything - alone}
        return frozenset(taken[experiment])

    def run(self, stages: frozenset[str]) -> MetricValues:
        if stages not in self.values:
            self.values[stages] = self.evaluate(stages)
        return self.values[stages]


class _Ladder:
    """One failed check over all hybrids."""

    def __init__(self, failed: CheckResult, bench: _Bench, confidence: float) -> None:
        self.failed, self.bench, self.confidence = failed, bench, confidence
        self._results: dict[frozenset[str], CheckResult] = {}

    def result(self, experiment: Experiment, stage: Stage) -> CheckResult:
        return self.of(self.bench.stages(experiment, stage))

    def status(self, experiment: Experiment, stage: Stage) -> Status:
        return self.result(experiment, stage).status

    def of(self, stages: frozenset[str]) -> CheckResult:
        if stages not in self._results:
            base, hybrid = self.bench.run(frozenset()), self.bench.run(stages)
            self._results[stages] = compare(self.failed.check, self.failed.scope, base, hybrid, self.confidence)
        return self._results[stages]


def _mechanism(ladder: _Ladder) -> Mechanism:
    changed = ladder.bench.changed
    reason = _insane(ladder)
    if reason:
        return _named(ladder.failed, None, "not isolated", reason)
    before: Stage | None = None
    for stage in changed:
        below = ladder.of(frozenset()).status if before is None else ladder.status("prefix", before)
        if ladder.status("prefix", stage) == "fail" and below == "pass":
            return _isolated(ladder, stage)
        before = stage
    walk = ", ".join(f"up to {stage}: {ladder.status('prefix', stage)}" for stage in changed)
    reason = (
        "no hybrid that fails follows one that passes (stages from the candidate, none: pass, "
        f"{walk}): more replications would part them"
    )
    return _named(ladder.failed, None, "not isolated", reason)


def _insane(ladder: _Ladder) -> str:
    """Why no ladder can be trusted: the comparator must pass against itself, the candidate must fail again."""
    none, full = ladder.of(frozenset()), ladder.of(frozenset(ladder.bench.changed))
    if none.status == "fail":
        return "the comparator breaks the same limit by itself: no stage of the candidate brought it"
    if none.status != "pass":
        return f"the comparator against itself is {none.status}: {none.message}"
    if full.status != "fail":
        return f"the candidate run again as a hybrid is {full.status}: the runs do not agree with the matrix"
    return ""


def _isolated(ladder: _Ladder, stage: Stage) -> Mechanism:
    place = STAGES.index(stage)
    without = f"those up to {STAGES[place - 1]}" if place else "none of them"
    reason = f"with {words.stages_up_to(stage)} it fails; with {without} it passes, on the same seeds and arrivals"
    return _named(ladder.failed, stage, "isolated", reason, _interaction(ladder, stage), _cures(ladder))


def _cures(ladder: _Ladder) -> tuple[Stage, ...]:
    return tuple(stage for stage in ladder.bench.changed if ladder.status("cure", stage) == "pass")


def _interaction(ladder: _Ladder, stage: Stage) -> str:
    """What suffix and single swaps say where they do not confirm the prefix; empty where all confirm it."""
    others = [item for item in ladder.bench.changed if item != stage and ladder.status("single", item) == "fail"]
    alone, cure, suffix = (ladder.status(swap, stage) for swap in _SWAPS)
    if not others and (alone, cure, suffix) == ("fail", "pass", "pass"):
        return ""
    if alone == "fail" and others:
        return f"{_listed([stage, *others])} each make it fail alone: taking back {stage} by itself does not cure it"
    if alone == "pass" and cure == "pass":
        partners = [item for item in _cures(ladder) if item != stage]
        needs = _listed(partners) if partners else "other changed stages beside it"
        return f"{stage} alone does not make it fail: it needs {needs}"
    text = f"with only {stage} from the candidate: {alone}; with only {stage} from the comparator: {cure}"
    if others:
        text += f"; {_listed(others)} alone: fail"
    settled = "undecided" not in (alone, cure, suffix)
    return f"the swaps {'disagree with' if settled else 'do not confirm'} the prefix ({text})"


def _listed(stages: Sequence[Stage]) -> str:
    return " and ".join(stages) if stages else "no stage"


def _rows(ladder: _Ladder, mechanism: Stage | None) -> list[dict[str, object]]:
    """All eight stages of each experiment. Where the mechanism is the first stage, the row of P(none) is the suffix
    swap of the last one."""
    proving: set[tuple[Experiment, Stage]] = set()
    if mechanism is not None:
        place = STAGES.index(mechanism)
        proving = {("prefix", mechanism), ("prefix", STAGES[place - 1]) if place else ("suffix", STAGES[-1])}
    return [
        _row(ladder, experiment, stage, experiment == "prefix" and stage == mechanism, (experiment, stage) in proving)
        for experiment in EXPERIMENTS
        for stage in STAGES
    ]


def _row(ladder: _Ladder, experiment: Experiment, stage: Stage, first: bool, proves: bool) -> dict[str, object]:
    result = ladder.result(experiment, stage)
    return {
        "check": ladder.failed.check.id,
        "scope": ladder.failed.scope,
        "experiment": experiment,
        "stage": stage,
        "from_candidate": ", ".join(_taken(experiment, stage)),
        "changed": stage in ladder.bench.changed,
        "comparator_value": result.comparator_value,
        "value": result.candidate_value,
        "change": result.change,
        "interval_low": result.interval_low,
        "interval_high": result.interval_high,
        "status": result.status,
        "first": first,
        "proves": proves,
    }


def _taken(experiment: Experiment, stage: Stage) -> tuple[Stage, ...]:
    """All stages, changed or not, that the experiment takes from the candidate."""
    place = STAGES.index(stage)
    taken: dict[Experiment, tuple[Stage, ...]] = {
        "prefix": STAGES[: place + 1],
        "suffix": STAGES[place + 1 :],
        "single": (stage,),
        "cure": tuple(item for item in STAGES if item != stage),
    }
    return taken[experiment]


def _nothing_run(
    failed: Sequence[CheckResult], isolation: Literal["classified, not isolated", "not isolated"], reason: str
) -> Isolation:
    return Isolation((), tuple(_named(result, None, isolation, reason) for result in failed), None, 0)


def _named(
    failed: CheckResult,
    stage: Stage | None,
    isolation: Literal["isolated", "classified, not isolated", "not isolated"],
    reason: str,
    interaction: str = "",
    cures: tuple[Stage, ...] = (),
) -> Mechanism:
    check, scope = failed.key
    proof = anchor("checks", check, scope) if stage is None else anchor("mechanisms", check, scope, "prefix", stage)
    return Mechanism(check, scope, failed.blocking, stage, isolation, reason, interaction, cures, proof)
