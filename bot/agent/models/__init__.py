"""Any OpenAI-compatible endpoint: two transports (chat completions, Responses) behind the one port of
`bot.agent.model`, what an endpoint has taught about itself, and what its errors mean."""
