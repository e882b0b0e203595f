"""Several tasks in one message, decided with one press; and the list of them that comes each morning."""
