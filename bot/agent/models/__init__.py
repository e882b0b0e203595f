"""Models at any OpenAI-compatible endpoint: two transports (chat completions, Responses) behind the interface of
`bot.agent.model`, lessons from an endpoint's refusals, the meaning of its errors, the test of what a model can do, and
a second model for the time in which the first one is down."""
