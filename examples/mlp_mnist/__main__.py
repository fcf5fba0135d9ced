"""The network's story, step by step: python -m examples.mlp_mnist."""

from examples.common.story import story

if __name__ == "__main__":
    story("mlp_mnist")
