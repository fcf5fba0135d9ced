"""The network's story, step by step: python -m examples.transformer_ptb."""

from examples.common.story import story

if __name__ == "__main__":
    story("transformer_ptb")
