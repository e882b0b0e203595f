"""Files that people send: taken in, kept, put on requests, shown to the deciders, and deleted when their time is
over."""
