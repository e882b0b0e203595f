"""Lines that code writes under an answer, beside its receipt."""
