"""Words of the judgement: metrics, values and changes as people read them. Plain spaces, for consoles and files."""

from __future__ import annotations

from math import isfinite
from typing import Final

from flows.judge.facts import FACTS, STAGES
from schemas import metric_words, words
from schemas.policy import Metric, Stage

_UNBOUNDED: Final = "∞"


def metric_name(metric: str) -> str:
    """`latency_p99_us` -> `latency p99`."""
    return metric_words.metric_words(metric).label


def values(metric: str, *found: float) -> tuple[str, ...]:
    """Finite values with their unit, all in the same one: µs as ms, bytes as MiB, shares as %."""
    return tuple(_plain(text) for text in metric_words.metric_texts(metric, *found))


def limit(metric: str, value: float) -> str:
    """An absolute limit, as the policy says it."""
    return _plain(metric_words.absolute_limit_text(metric, value))


def worsening(metric: Metric, change: float) -> str:
    """`106.1 % worse`; of a ratio that saturates near 1, of what it leaves."""
    shown = _plain(words.worsening(change)) if isfinite(change) else "worse without bound"
    return f"{shown} (of 1 − ratio)" if change and FACTS[metric].comparison == "rest" else shown


def signed(change: float) -> str:
    """`+92.4 %`; an end of an interval that has no bound says so."""
    return _plain(words.signed_percent(change)) if isfinite(change) else f"{'+' if change > 0 else '−'}{_UNBOUNDED}"


def interval(low: float, high: float) -> str:
    return f"interval [{signed(low)}, {signed(high)}]"


def stated(share: float) -> str:
    """A share that somebody wrote down: `5 %`."""
    return _plain(words.stated_percent(share))


def share(value: float) -> str:
    """A share that was found: `37.5 %`."""
    return _plain(words.percent(value))


def role(name: str) -> str:
    """`kernel_performance_owner` -> `kernel performance owner`."""
    return words.spaced(name)


def stages_up_to(stage: Stage) -> str:
    """The stages of a prefix hybrid that come from the candidate."""
    return f"{'stage' if stage == STAGES[0] else 'the stages up to'} {stage} from the candidate"


def _plain(text: str) -> str:
    return text.replace(words.NO_BREAK, " ")
