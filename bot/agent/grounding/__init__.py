"""What an answer says is held against what was seen and done, before anybody reads it."""
