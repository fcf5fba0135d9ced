"""The network's story, step by step: python -m examples.resnet9_cifar10."""

from examples.common.story import story

if __name__ == "__main__":
    story("resnet9_cifar10")
