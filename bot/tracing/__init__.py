"""What runs leave behind, for others to evaluate: as lines of JSON, and as OpenTelemetry spans."""
