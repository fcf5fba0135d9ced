"""What mkdocs does to the pages: links to files outside docs/ become the paths that they name, since the site has only docs/."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./(?!tutorials/)([^)#]*)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if "/" in page.file.src_path:
        return markdown  # a page in a folder of docs/: its ../ stays inside
    return OUTSIDE.sub(lambda m: f"{m[1]} (`{m[2]}`)" if m[1].strip("`") != m[2] else f"`{m[2]}`", markdown)
