"""Models at any OpenAI-compatible endpoint: two transports (chat completions, Responses) behind the interface of
`bot.agent.model`, lessons from an endpoint's refusals, and the meaning of its errors."""
