"""Trials of the evaluation."""

from bot.dev.evaluation.results import Trial


def trial(name: str = "a", passed: bool = True, **more: object) -> Trial:
    fields = {"scenario": name, "title": "t", "category": "main", "language": "zh", "passed": passed}
    return Trial.model_validate({**fields, **more})
