"""Records of runs for evaluation: as lines of JSON, and as OpenTelemetry spans."""
