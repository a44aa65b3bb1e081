"""LangChain."""

import asyncio

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Forecast(BaseModel):
    """How the weather will be."""

    city: str
    high: float


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@pytest.fixture
def chat(world):
    def make(model, **more):
        return ChatOpenAI(model=model, api_key=world.key, base_url=world.url, **more)

    return make


def gathered(chunks):
    chunks = list(chunks)
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


def expected_usage(attempt):
    usage = attempt["usage"]
    return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"], "total_tokens": usage["total_tokens"]}


def test_invoke_gives_the_upstreams_answer_with_usage(chat, world):
    message = chat("plain").invoke("Say something.")
    attempt = world.attempt("plain")
    assert isinstance(message, AIMessage)
    assert message.content == attempt["sent"]
    assert expected_usage(attempt).items() <= message.usage_metadata.items()


@pytest.mark.parametrize("model", ["plain", "crlf", "commented", "fields", "dripped", "no-done", "no-blank"])
def test_a_stream_is_gathered_whole(chat, world, model):
    message = gathered(chat(model).stream("Say something."))
    assert message.content == world.sent(model)
    assert message.response_metadata["finish_reason"] == "stop"


@pytest.mark.parametrize("model", ["plain", "usage-on-finish"])
def test_a_stream_has_usage_where_it_is_asked_for(chat, world, model):
    message = gathered(chat(model, stream_usage=True).stream("Say something."))
    assert expected_usage(world.attempt(model)).items() <= message.usage_metadata.items()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_is_called_run_and_answered(chat, world, streamed):
    question = HumanMessage("How is the weather?")
    bound = chat("plain").bind_tools([weather], tool_choice="weather")
    called = gathered(bound.stream([question])) if streamed else bound.invoke([question])
    [call] = called.tool_calls
    assert call["name"] == "weather"
    result = weather.invoke(call)
    answer = chat("plain").invoke([question, called, result])
    assert answer.content == world.sent("plain")
    messages = world.received("plain")["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[2]["content"].startswith("sunny in")


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output_fulfils_its_schema(chat, method):
    forecast = chat("plain").with_structured_output(Forecast, method=method).invoke("How will it be?")
    assert isinstance(forecast, Forecast)
    assert forecast.high == 1.5


def test_a_stream_that_breaks_raises_after_what_came_before(chat, world):
    text = ""
    with pytest.raises(openai.APIError) as raised:
        for chunk in chat("broken-midway").stream("Say something."):
            text += chunk.content
    assert raised.value.code == "upstream_stream_interrupted"
    assert text == world.sent("broken-midway")


@pytest.mark.parametrize(("model", "kind"), [("status-400", openai.BadRequestError), ("status-500", openai.InternalServerError)])
def test_an_error_has_its_class_and_is_asked_for_once(chat, world, model, kind):
    world.lines()
    with pytest.raises(kind):
        chat(model).invoke("Say something.")
    assert len(world.lines()) == 1


def test_a_stream_that_is_closed_is_closed_at_the_upstream(chat, world):
    stream = chat("paced").stream("Say something.")
    next(stream)
    stream.close()
    assert world.sees_departure("paced")


def test_a_stream_that_is_closed_in_a_task_is_closed_at_the_upstream(chat, world):
    async def run():
        stream = chat("paced").astream("Say something.")
        await anext(stream)
        await stream.aclose()
        assert await asyncio.to_thread(world.sees_departure, "paced")

    asyncio.run(run())
