"""Data as people have them: folders of pictures, sounds and texts, tables, arrays in files, loaders of other libraries.

lowbit.quantize(graph, lowbit.data.images("photos/", mean=0.5, std=0.5))
lowbit.evaluate(graph, lowbit.data.images("test/"))          # folders inside it are classes: their numbers are the labels
lowbit.quantize(graph, loader)                               # a torch DataLoader, with or without labels
"""

from __future__ import annotations

from lowbit.data.bake import bake as bake
from lowbit.data.image_files import images as images
from lowbit.data.rows import Rows as Rows
from lowbit.data.sound_files import sounds as sounds
from lowbit.data.text_files import texts as texts
