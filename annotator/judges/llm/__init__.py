"""A language model as judge: any OpenAI-compatible endpoint, Anthropic's and Gemini's own APIs."""
