"""Tools of MCP servers (Model Context Protocol): programs beside this one, or services elsewhere.

`config` reads the list of servers. `schemas` simplifies their schemas so that they are safe to check with.
`tool_adapter` makes a tool from each of theirs, `results` turns their answers into observations. `connection` manages
one server, `fleet` all of them.

All text of a server (names, descriptions, schemas, results) comes from a third party: it is bounded, cleaned and
labelled, and can never lower a gate. Import `connection` and `fleet` only where servers are configured, because the SDK
loads slowly."""
