"""The official client, newest and previous major version."""

import asyncio
import json

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

MESSAGES = [{"role": "user", "content": "Say something."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
SOUND = ["plain", "crlf", "commented", "fields", "dripped", "no-done", "no-blank", "usage-on-finish"]


class Forecast(BaseModel):
    city: str
    highs: list[float]


@pytest.fixture
def client(world):
    with OpenAI(api_key=world.key, base_url=world.url) as client:
        yield client


def text_of(chunks):
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_whole_answer_is_the_upstreams(client, world):
    completion = client.chat.completions.create(model="plain", messages=MESSAGES)
    attempt = world.attempt("plain")
    assert completion.choices[0].message.content == attempt["sent"]
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens == attempt["usage"]["total_tokens"]


def test_an_answer_has_the_request_id_of_the_access_log(client, world):
    world.lines()
    completion = client.chat.completions.create(model="plain", messages=MESSAGES)
    assert [line["id"] for line in world.lines()] == [completion._request_id]


def test_several_choices_all_arrive(client, world):
    completion = client.chat.completions.create(model="plain", messages=MESSAGES, n=3)
    assert [choice.message.content for choice in completion.choices] == world.attempt("plain")["choices"]


def test_fields_the_client_does_not_know_travel(client, world):
    client.chat.completions.create(model="plain", messages=MESSAGES, extra_body={"top_k": 4, "seed": 9007199254740993})
    assert world.received("plain")["top_k"] == 4


@pytest.mark.parametrize("model", SOUND)
def test_a_stream_is_iterated_to_its_end(client, world, model):
    text = text_of(client.chat.completions.create(model=model, messages=MESSAGES, stream=True))
    assert text == world.sent(model) != ""


@pytest.mark.parametrize("model", SOUND)
def test_a_stream_satisfies_the_helper(client, world, model):
    with client.chat.completions.stream(model=model, messages=MESSAGES) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    message = completion.choices[0].message
    assert message.role == "assistant"
    assert message.content == "".join(deltas) == world.sent(model)
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("model", ["plain", "usage-on-finish"])
def test_usage_comes_to_whoever_asked_for_it(client, world, model):
    chunks = list(client.chat.completions.create(model=model, messages=MESSAGES, stream=True, stream_options={"include_usage": True}))
    usage = [chunk.usage for chunk in chunks if chunk.usage is not None][-1]
    assert usage.total_tokens == world.attempt(model)["usage"]["total_tokens"]


def test_usage_that_nobody_asked_for_is_hidden(client, world):
    chunks = list(client.chat.completions.create(model="plain", messages=MESSAGES, stream=True))
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in chunks)
    assert world.attempt("plain")["usage"] is not None


def test_a_tool_is_called_and_its_result_answered(client, world):
    question = list(MESSAGES)
    called = client.chat.completions.create(model="plain", messages=question, tools=[WEATHER], tool_choice="required")
    message = called.choices[0].message
    assert called.choices[0].finish_reason == "tool_calls"
    assert message.content is None
    [call] = message.tool_calls
    assert json.loads(call.function.arguments)["days"] == 1
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answer = client.chat.completions.create(model="plain", messages=[*question, message, result], tools=[WEATHER])
    assert answer.choices[0].message.content == world.sent("plain")
    assert [sent["role"] for sent in world.received("plain")["messages"]] == ["user", "assistant", "tool"]


def test_tool_calls_in_a_stream_are_accumulated(client):
    time = {**WEATHER, "function": {**WEATHER["function"], "name": "time"}}
    with client.chat.completions.stream(model="plain", messages=MESSAGES, tools=[WEATHER, time], extra_body={"x_tool": 2}) as stream:
        message = stream.get_final_completion().choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["weather", "time"]
    assert len({call.id for call in message.tool_calls}) == 2
    assert all(json.loads(call.function.arguments)["days"] == 1 for call in message.tool_calls)


def test_structured_output_is_parsed(client):
    completion = client.chat.completions.parse(model="plain", messages=MESSAGES, response_format=Forecast)
    assert completion.choices[0].message.parsed.highs == [1.5]


def test_structured_output_is_parsed_from_a_stream(client):
    with client.chat.completions.stream(model="plain", messages=MESSAGES, response_format=Forecast) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].message.parsed.highs == [1.5]


def test_structured_output_that_was_cut_raises_the_clients_own_error(client):
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(model="length", messages=MESSAGES, response_format=Forecast)


def test_images_reach_the_upstream_as_they_were_sent(client, world):
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]
    client.chat.completions.create(model="plain", messages=[{"role": "user", "content": content}])
    assert world.received("plain")["messages"][0]["content"] == content


def test_models_are_listed_and_shown(client, world):
    assert {model.id for model in client.models.list()} == set(world.models())
    assert client.models.retrieve("plain").id == "plain"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")
    narrow = client.with_options(api_key=world.narrow_key)
    assert [model.id for model in narrow.models.list()] == ["sentinel"]


@pytest.mark.parametrize(
    ("model", "status", "kind"),
    [
        ("status-400", 400, openai.BadRequestError),
        ("status-422", 422, openai.UnprocessableEntityError),
        ("context-length", 400, openai.BadRequestError),
        ("status-401", 502, openai.InternalServerError),
        ("status-403", 502, openai.InternalServerError),
        ("status-404", 502, openai.InternalServerError),
        ("status-500", 502, openai.InternalServerError),
        ("status-503", 503, openai.InternalServerError),
        ("reset", 502, openai.InternalServerError),
        ("not-json", 502, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_has_its_class_and_the_client_asks_only_once(client, world, model, status, kind, stream):
    world.lines()
    with pytest.raises(kind) as raised:
        client.chat.completions.create(model=f"{model}-streamed" if stream else model, messages=MESSAGES, stream=stream)
    lines = world.lines()
    assert raised.value.status_code == status
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert [line["id"] for line in lines] == [raised.value.request_id]


def test_a_wrong_key_a_forbidden_model_and_an_unknown_one_have_their_classes(client, world):
    with pytest.raises(openai.AuthenticationError) as raised:
        client.with_options(api_key="sk-nobody-knows-this-key").chat.completions.create(model="plain", messages=MESSAGES)
    assert raised.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError) as raised:
        client.with_options(api_key=world.narrow_key).chat.completions.create(model="plain", messages=MESSAGES)
    assert raised.value.code == "model_not_allowed"
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


def test_a_rate_limit_says_how_long_to_wait(client):
    with pytest.raises(openai.RateLimitError) as raised:
        client.with_options(max_retries=0).chat.completions.create(model="status-429", messages=MESSAGES)
    assert raised.value.code == "rate_limit_exceeded"
    assert int(raised.value.response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("model", ["broken-midway", "ended-midway", "error-midway"])
def test_a_stream_that_breaks_raises_after_what_came_before(client, world, model):
    text = ""
    with pytest.raises(openai.APIError) as raised:
        for chunk in client.chat.completions.create(model=model, messages=MESSAGES, stream=True):
            text += chunk.choices[0].delta.content or ""
    assert not isinstance(raised.value, openai.APIStatusError)
    assert raised.value.code == "upstream_stream_interrupted"
    assert text == world.sent(model)


def test_a_stream_that_is_closed_is_closed_at_the_upstream(client, world):
    stream = client.chat.completions.create(model="paced", messages=MESSAGES, stream=True)
    next(iter(stream))
    stream.close()
    assert world.sees_departure("paced")


def test_a_cancelled_task_is_closed_at_the_upstream(world):
    async def run():
        async with AsyncOpenAI(api_key=world.key, base_url=world.url) as client:
            began = asyncio.Event()

            async def read():
                async for _ in await client.chat.completions.create(model="paced", messages=MESSAGES, stream=True):
                    began.set()

            task = asyncio.create_task(read())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(world.sees_departure, "paced")

    asyncio.run(run())


def test_many_calls_at_once_each_get_their_own_answer(world):
    async def run():
        async with AsyncOpenAI(api_key=world.key, base_url=world.url) as client:

            async def ask(number):
                stream = await client.chat.completions.create(
                    model="plain", messages=MESSAGES, stream=True, extra_body={"x_reply": f"this is answer {number}"}
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            answers = await asyncio.gather(*(ask(number) for number in range(40)))
            assert answers == [f"this is answer {number}" for number in range(40)]

    asyncio.run(run())


def test_the_responses_api_answers_over_a_channel_that_speaks_chat(client, world):
    response = client.responses.create(model="plain", input="hello")
    attempt = world.attempt("plain")
    assert response.output_text == attempt["sent"] != ""
    assert response.status == "completed"
    assert response.usage.total_tokens == attempt["usage"]["total_tokens"]


def test_a_stream_of_the_responses_api_is_iterated_to_its_end(client, world):
    events = list(client.responses.create(model="plain", input="hello", stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == world.sent("plain") != ""
    assert events[-1].type == "response.completed"
