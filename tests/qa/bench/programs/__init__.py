"""What is measured: one program each, in a process of its own. Peers run in environments of their own."""
