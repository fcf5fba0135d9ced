"""An OpenAI-compatible server of a language model: `lowbit serve model.gguf`, or `app(model)` in an ASGI server of your own."""

from lowbit.llm.serve.app import Settings, app

__all__ = ["Settings", "app"]
