"""How long the properties of the parsers are tried: `test_fuzz.py` says how to ask for more."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "long",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100000")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
if profile := os.environ.get("HYPOTHESIS_PROFILE"):
    settings.load_profile(profile)
