"""For pytest (`-p unshrunk`): Hypothesis says that a property fails, and does not look for the shortest example."""

from hypothesis import Phase, settings

settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate))
settings.load_profile("mutants")
