"""Tells administrators in chat about problems that need one of them."""
