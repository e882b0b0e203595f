"""Tools of MCP servers (Model Context Protocol): programs beside this one, or services elsewhere.

`config` reads which servers there are, `schemas` makes of theirs what is safe to check with, `cards` makes a tool of
each of theirs, `results` an observation of what they answer, `connection` keeps one server, `fleet` all of them.
Whatever a server says (names, descriptions, schemas, results) is somebody else's text: bounded, cleaned, labelled, and
never able to lower a gate. Import `connection` and `fleet` only where servers are configured: the SDK takes its time.
"""
