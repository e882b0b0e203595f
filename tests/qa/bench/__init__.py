"""Benchmarks: what the bot costs beside a bare loop and beside what else one would pick, measured side by side.

`deploy/qa bench` runs all of it. Nothing here is a timed test: a missed reach is told in the report and fails nothing,
unless it is no matter of time (`Figure.must`): what grows, or is lost.
"""
