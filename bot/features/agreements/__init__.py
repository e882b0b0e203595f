"""Answers a typed *yes* to an open card by code."""
