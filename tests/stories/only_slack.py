"""Stories that are told on Slack only, by name, each with what Feishu does not have or does otherwise."""

LOCALE = "Feishu does not tell a person's language; people choose it in words or on Home"
SHORTCUT = "shortcuts in the menu of a message"
LIVE = "results while a dialog is filled in; on Feishu they come with the next page"
GUESTS = "guests of a workspace; Feishu has people of other tenants"
DIALOG = "a dialog that somebody else could submit; on Feishu a form is a card in one person's chat"
ENVELOPE = "Socket Mode: its envelopes, disconnect frames and tickets"
SESSIONS = "sessions of agents: prompts above the composer, a title, a button that stops"
FILE_INPUT = "inputs for files; on Feishu a file is sent in a message before the form is opened"
STATUS = "the words of a status; on Feishu the sign of life is a reaction"
LISTS = "the files of Slack's adapter in the lists of the README"
BEFORE = "the version before, which has no Feishu"
MISSED = "search for messages that nobody heard; Feishu delivers for seven hours"

ONLY_SLACK = {
    "test_main_job.py::test_the_bot_speaks_the_language_chosen_on_the_page_from_the_next_sentence_on": LOCALE,
    "test_forms.py::test_length_balance_and_deciders_are_told_as_soon_as_the_days_are_chosen": LIVE,
    "test_forms.py::test_a_long_message_is_bounded_and_a_longer_one_not_read": SHORTCUT,
    "test_forms.py::test_guests_get_no_form": GUESTS,
    "test_forms.py::test_what_somebody_else_submits_is_their_own_and_nobody_elses": DIALOG,
    "test_files.py::test_a_message_with_a_receipt_is_made_an_expense_with_its_words_as_the_reason": SHORTCUT,
    "test_files.py::test_a_file_chosen_in_a_form_is_on_its_card_and_what_could_not_be_taken_is_said": FILE_INPUT,
    "test_files.py::test_edit_leaves_a_file_out_and_adds_another": FILE_INPUT,
    "test_closed.py::test_socket_mode_that_was_switched_off_is_named_and_works_again_once_it_is_on": ENVELOPE,
    "test_signs_of_life.py::test_a_status_is_there_while_the_model_thinks_and_goes_with_the_answer": STATUS,
    "test_walks.py::test_the_files_of_the_lists_are_those_that_run": LISTS,
    "test_upgrade.py": BEFORE,
    "test_agent_view.py": SESSIONS,
    "test_missed.py": MISSED,
    "test_browser.py": "the page in Slack's look; the page in Feishu's look has tests of its own",
}
"""A story, or a file of stories → what only Slack has."""
