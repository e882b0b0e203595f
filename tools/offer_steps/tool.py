"""Offers next steps as buttons under an answer: a form filled with what is known, or a sentence to say. A button does
nothing but open the form or say the sentence, so a wrong offer costs nobody more than a look."""

from __future__ import annotations

from pydantic import Field, model_validator

from tools.error_advice import select_advice
from tools.spec import Offer, Privacy, TextRef, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.process.definition import get_process_by_key

MAX_STEPS = 5
MAX_SAID = 75
"""Most characters of a sentence: the whole of it is the button's label."""
TOOL_FORMS = ("mail", "absence")
"""Forms that are no process: of `send_email` and of `set_absence`, with the arguments of these tools as fields."""


class OfferedStep(ToolArgs):
    form: str = Field("", max_length=60, description="A process's key, mail or absence: the form to open.")
    values: dict[str, str] = Field(
        {}, max_length=40, description="Field → value: only what they said. Names may be names."
    )
    say: str = Field("", max_length=MAX_SAID, description="In place of a form: what the button says in their place.")

    @model_validator(mode="after")
    def require_one(self) -> OfferedStep:
        if bool(self.form.strip()) == bool(self.say.strip()):
            raise ValueError("either form or say")
        return self


class OfferStepsArgs(ToolArgs):
    steps: tuple[OfferedStep, ...] = Field(min_length=1, max_length=MAX_STEPS, description="The likeliest first.")


async def run_offer_steps(context: ToolContext, args: OfferStepsArgs) -> ToolOutcome:
    processes = await context.services.engine.list_processes()
    for step in args.steps:
        if step.form not in ("", *TOOL_FORMS):
            get_process_by_key(step.form, processes)
    data = {"offered": len(args.steps), "where": "as buttons under your answer", "done": 0}
    privacy = None if any(step.values for step in args.steps) else Privacy.PUBLIC  # the values are their words
    summary = TextRef(key="result.steps_offered", params={"n": len(args.steps)})
    return ToolOutcome(data=data, summary=summary, privacy=privacy)


OFFER_STEPS = Tool(
    name="offer_steps",
    purpose="Put buttons under your answer: a form that opens filled with what they said, or a sentence they can say.",
    use_when="Something is missing or unclear, and a form or a choice answers faster than a question.",
    avoid_when="All is known: make the call.",
    args=OfferStepsArgs,
    returns='{"offered": number, "where", "done": 0}; nothing is done before their press',
    errors=select_advice("unknown_process"),
    example={"steps": [{"form": "leave", "values": {"leave_type": "annual", "start_date": "2026-11-24"}}]},
    run=run_offer_steps,
    is_cacheable=False,
    offer=Offer.RARE,
)
