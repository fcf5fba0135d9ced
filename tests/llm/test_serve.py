"""The server as clients meet it: a real one on a free port, asked by the `openai` package and by plain HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_networks import tokenizer_json
from safetensors.numpy import save_file

import lowbit

httpx = pytest.importorskip("httpx", reason="needs httpx (extra dev)")
openai = pytest.importorskip("openai", reason="needs openai (extra dev)")
uvicorn = pytest.importorskip("uvicorn", reason="needs uvicorn (extra serve)")

from lowbit.llm.serve import Settings, app  # noqa: E402 (after the packages it needs)

KEY = "a key of the tests"
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def tiny(folder: Path) -> Path:
    """A random llama of 320 tokens as a Hugging Face folder."""
    rng = np.random.default_rng(5)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 320, "max_position_embeddings": 512}
    config |= SIZES | {"rms_norm_eps": 1e-5, "rope_theta": 1e4, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(tokenizer_json())
    tensors = {"model.embed_tokens.weight": (320, 32), "model.norm.weight": (32,)}
    for i in range(2):
        layer = f"model.layers.{i}"
        tensors |= {f"{layer}.input_layernorm.weight": (32,), f"{layer}.post_attention_layernorm.weight": (32,)}
        tensors |= {f"{layer}.self_attn.{n}_proj.weight": (s, 32) for n, s in (("q", 32), ("k", 16), ("v", 16), ("o", 32))}
        tensors |= {
            f"{layer}.mlp.gate_proj.weight": (64, 32),
            f"{layer}.mlp.up_proj.weight": (64, 32),
            f"{layer}.mlp.down_proj.weight": (32, 64),
        }
    weights = {n: (rng.standard_normal(s) * 0.3).astype(np.float32) for n, s in tensors.items()}
    weights["model.embed_tokens.weight"][:2] = 0  # tokens that end a text are hardly ever drawn
    weights["model.norm.weight"][:] = 3
    save_file(weights, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lowbit.llm.load(tiny(tmp_path_factory.mktemp("tiny")), threads=1, sequences=8)


def serving(model: Any, settings: Settings) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app(model, settings), port=0, log_level="error", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def url(model: Any) -> Iterator[str]:
    yield from serving(model, Settings("tiny", KEY, most_waiting=150, most_bytes=100_000))


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


HELLO = [{"role": "user", "content": "hello"}]


def test_the_openai_client_gets_the_text_that_the_model_makes(model: Any, client: Any) -> None:
    done = client.chat.completions.create(model="tiny", messages=HELLO, temperature=0, max_tokens=12)
    assert done.choices[0].message.content == model.chat(HELLO, max_tokens=12)
    assert done.choices[0].finish_reason in ("length", "stop") and done.usage.completion_tokens <= 12
    assert done.usage.prompt_tokens == len(model.prompt(HELLO)) and done.model == "tiny"


def test_a_stream_is_the_same_text_in_pieces_and_counts_tokens_at_its_end(model: Any, client: Any) -> None:
    options = {"temperature": 0.8, "seed": 11, "max_tokens": 20}
    chunks = list(
        client.chat.completions.create(model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}, **options)
    )
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == model.chat(HELLO, **options)
    assert chunks[-1].usage.completion_tokens == 20 and chunks[-2].choices[0].finish_reason == "length"


def test_completions_take_texts_and_ids_and_several_of_them(model: Any, client: Any) -> None:
    ids = model.tokenizer.encode("the other")
    done = client.completions.create(model="tiny", prompt=["hello", "the other"], max_tokens=8, temperature=0, n=1)
    assert [c.text for c in done.choices] == [model.generate(p, max_tokens=8) for p in ("hello", "the other")]
    assert client.completions.create(model="tiny", prompt=ids, max_tokens=8, temperature=0).choices[0].text == done.choices[1].text
    both = client.completions.create(model="tiny", prompt="hello", max_tokens=8, temperature=1, seed=3, n=2)
    assert [c.text for c in both.choices] == [model.generate("hello", max_tokens=8, temperature=1.0, seed=s) for s in (3, 4)]
    pieces: dict[int, str] = {0: "", 1: ""}
    for chunk in client.completions.create(model="tiny", prompt="hello", max_tokens=8, temperature=1, seed=3, n=2, stream=True):
        pieces[chunk.choices[0].index] += chunk.choices[0].text
    assert list(pieces.values()) == [c.text for c in both.choices]


def test_embeddings_are_those_of_the_model_as_numbers_and_as_bytes(model: Any, client: Any) -> None:
    found = client.embeddings.create(model="tiny", input=["hello", "yellow"], encoding_format="float")
    assert np.allclose([d.embedding for d in found.data], model.embed(["hello", "yellow"]), atol=1e-7)
    packed = client.embeddings.create(model="tiny", input=["hello", "yellow"])  # the client asks for base64
    assert np.array_equal(np.float32([d.embedding for d in packed.data]), model.embed(["hello", "yellow"]))


def test_models_health_and_metrics_answer(url: str, client: Any) -> None:
    assert [m.id for m in client.models.list()] == ["tiny"]
    assert httpx.get(f"{url}/health").json()["status"] == "ok"
    text = httpx.get(f"{url}/metrics").text
    assert "# TYPE lowbit_requests_total counter" in text and "lowbit_answers_waiting 0" in text


def test_requests_without_the_key_are_refused(url: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer é".encode()}):
        answer = httpx.get(f"{url}/v1/models", headers=headers)
        assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
    assert httpx.get(url).status_code == 200  # the page itself holds nothing


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("{", 400, "the body is no JSON"),
        ("[1]", 400, "the body must be a JSON object"),
        ('{"messages": []}', 400, "'messages' must be a list of at least one message"),
        ('{"messages": [{"role": "user"}]}', 400, "'messages[0].content' must be a text"),
        ('{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 400, "has a part that is no text"),
        ('{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', 400, "'temperature' must be a number from 0 to 2"),
        ('{"messages": [{"role": "user", "content": "x"}], "n": 1000}', 400, "'n' must be a whole number from 1 to 16"),
        ('{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', 400, "'tools' is not supported by this server"),
        ('{"messages": [{"role": "user", "content": "x"}], "logprobs": true}', 400, "'logprobs' is not supported"),
        ('{"messages": [{"role": "user", "content": "x"}], "stop": [""]}', 400, "'stop' must be a text"),
        ('{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}', 400, "'response_format.type' must be"),
        ('{"messages": [{"role": "user", "content": "%s"}]}' % ("hello " * 4000), 400, "the context is"),
        ('{"messages": "%s"}' % ("x" * 200_000), 413, "the body is longer than 100,000 bytes"),
        ("[" * 50_000, 400, "the body is no JSON"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(url: str, body: str, status: int, said: str) -> None:
    answer = httpx.post(f"{url}/v1/chat/completions", content=body, headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code == status and said in answer.json()["error"]["message"], answer.text


def wait_until(done: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.02)
    assert done()


def test_a_client_that_leaves_ends_its_answer(model: Any, url: str) -> None:
    before = number(url, "lowbit_requests_cancelled_total")
    body = {"messages": HELLO, "max_tokens": 400, "stream": True, "temperature": 1}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}) as answer:
        next(answer.iter_lines())
    wait_until(lambda: number(url, "lowbit_requests_cancelled_total") > before and model.scheduler.idle)


def test_a_client_that_leaves_without_a_stream_ends_its_answer(model: Any, url: str) -> None:
    before = number(url, "lowbit_requests_cancelled_total")
    body = {"prompt": ["hello"] * 64, "max_tokens": 450, "temperature": 1}  # long enough that it is not done before anyone looks
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/v1/completions", json=body, headers={"Authorization": f"Bearer {KEY}"}, timeout=0.05)
    wait_until(lambda: number(url, "lowbit_requests_cancelled_total") > before and model.scheduler.idle)


def number(url: str, name: str) -> float:
    return next(float(line.split()[1]) for line in httpx.get(f"{url}/metrics").text.splitlines() if line.startswith(f"{name} "))


def test_a_hundred_clients_at_once_get_the_answers_they_would_get_alone(model: Any, client: Any) -> None:
    prompts = [f"hello fellow {i % 10}" for i in range(100)]
    alone = {p: model.generate(p, max_tokens=6) for p in set(prompts)}

    def one(prompt: str) -> str:
        return str(client.completions.create(model="tiny", prompt=prompt, max_tokens=6, temperature=0).choices[0].text)

    with ThreadPoolExecutor(100) as pool:
        assert list(pool.map(one, prompts)) == [alone[p] for p in prompts]


def test_beyond_the_limit_requests_are_told_to_come_later(model: Any) -> None:
    serve = serving(model, Settings("tiny", most_waiting=1))
    url = next(serve)
    body = {"messages": HELLO, "max_tokens": 3}
    try:
        with ThreadPoolExecutor(1) as pool:
            with model.scheduler.lock:  # no step is made
                first = pool.submit(httpx.post, f"{url}/v1/chat/completions", json=body, timeout=60)
                wait_until(lambda: httpx.get(f"{url}/health").json()["active"] == 1)
                refused = httpx.post(f"{url}/v1/chat/completions", json=body)
                assert refused.status_code == 429 and refused.headers["Retry-After"] == "1"
            assert first.result().status_code == 200
        assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200
    finally:
        serve.close()
