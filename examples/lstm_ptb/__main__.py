"""The network's story, step by step: python -m examples.lstm_ptb."""

from examples.common.story import story

if __name__ == "__main__":
    story("lstm_ptb")
