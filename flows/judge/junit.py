"""JUnit XML of the checks, for continuous-integration servers: one test case for each check and scope."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from flows.judge.checks import CheckResult
from schemas.decision import Decision, Status

# Warnings are shown as skipped, never as failures: a server that counts failures must agree with the verdict.
_ELEMENT: dict[Status, str] = {"fail": "failure", "undecided": "error", "missing": "error", "waived": "skipped"}


def junit_xml(decision: Decision, results: Sequence[CheckResult]) -> str:
    """The document as text. results: as they count (`decision.final_results`).

    A case `verdict` fails where the verdict is NO_GO and is an error where it is HOLD, so that the suite passes only
    for GO. Text that XML cannot hold is replaced.
    """
    suite = ElementTree.Element("testsuite", name=f"tilegate {_clean(decision.candidate_name)}")
    _verdict_case(suite, decision)
    for result in results:
        _check_case(suite, result)
    counts = {kind: len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error", "skipped")}
    suite.set("tests", str(len(results) + 1))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    root = ElementTree.Element("testsuites", {key: value for key, value in suite.attrib.items() if key != "name"})
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _verdict_case(suite: ElementTree.Element, decision: Decision) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname="tilegate", name="verdict")
    if decision.verdict != "GO":
        kind = "failure" if decision.verdict == "NO_GO" else "error"
        words = _clean(f"{decision.verdict}: {decision.reasons[0]}" if decision.reasons else decision.verdict)
        element = ElementTree.SubElement(case, kind, message=words, type=decision.verdict)
        element.text = _clean("\n".join((*decision.reasons, f"Next: {decision.next_action}")))


def _check_case(suite: ElementTree.Element, result: CheckResult) -> None:
    name = f"{result.check.id} {result.scope}"
    case = ElementTree.SubElement(suite, "testcase", classname=f"tilegate.{result.check.metric}", name=_clean(name))
    kind = _ELEMENT.get(result.status)
    if kind is None:
        return
    element = ElementTree.SubElement(case, kind if result.blocking else "skipped")
    element.set("message", _clean(f"{result.status}: {result.message}"))
    if element.tag != "skipped":
        element.set("type", result.status)


def _clean(text: str) -> str:
    """Without the control characters and surrogates that XML 1.0 cannot hold."""
    return "".join(char if _allowed(ord(char)) else "\ufffd" for char in text)


def _allowed(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
