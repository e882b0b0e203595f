"""The Home page: what waits for a person, their requests, absences and settings; its buttons and dialogs."""
