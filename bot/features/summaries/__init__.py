"""Summaries of the older turns of long conversations, drafted by the model in the background."""
