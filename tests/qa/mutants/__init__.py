"""Changes the safety core in small ways, one at a time, and shows which changes no test notices."""
