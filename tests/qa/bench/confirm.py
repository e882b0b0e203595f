"""What waiting for replicas costs a person."""

from tests.qa.bench import outside
from tests.qa.bench.bench import Bench
from tests.qa.bench.figures import Reading, format_rounded_number, reading

MOMENTS = {"card": "message → card", "press": "press → mail"}


def confirm(bench: Bench) -> list[Reading]:
    with outside.service("tests.qa.bench.programs.confirm", str(bench.options.few(100, 2))) as found:
        return [
            *(
                reading(
                    f"confirm-{moment}",
                    found["replica"][f"{moment}_more_ms"],
                    f"{name}: {_format_ms(found, moment)}",
                    **found,
                )
                for moment, name in MOMENTS.items()
            ),
            reading("confirm-embedded", found["embedded"]["press_ms"] / found["embedded-server"]["press_ms"]),
        ]


def _format_ms(found: dict[str, dict[str, float]], moment: str) -> str:
    return ", ".join(f"{name} {format_rounded_number(one[f'{moment}_ms'])} ms" for name, one in found.items())
