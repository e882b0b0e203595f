"""A company's own process files, and a form for one of them."""

from pathlib import Path

FILES = Path(__file__).parents[1] / "tools" / "workflow" / "processes"


TRIP = {
    "destination": "上海", "start_date": "2026-12-01", "end_date": "2026-12-03", "reason": "拜访客户",
    "approver": "李四", "administration": "李文光",
}  # fmt: skip
