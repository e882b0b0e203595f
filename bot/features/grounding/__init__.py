"""Checks an answer against what was seen and done, before anybody reads it."""
