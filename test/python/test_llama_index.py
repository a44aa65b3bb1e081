"""LlamaIndex with its LLM for services that are like the official one."""

import asyncio

import openai
import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel


class Forecast(BaseModel):
    """How the weather will be."""

    city: str
    high: float


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


QUESTION = [ChatMessage(role="user", content="Say something.")]


@pytest.fixture
def llm(world):
    def make(model, **more):
        return OpenAILike(
            model=model,
            api_key=world.key,
            api_base=world.url,
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=8192,
            **more,
        )

    return make


def test_complete_gives_the_upstreams_answer(llm, world):
    assert llm("plain").complete("Say something.").text == world.sent("plain")


def test_chat_gives_the_upstreams_answer(llm, world):
    response = llm("plain").chat(QUESTION)
    assert response.message.content == world.sent("plain")
    assert response.raw.usage.total_tokens == world.attempt("plain")["usage"]["total_tokens"]


@pytest.mark.parametrize("model", ["plain", "crlf", "commented", "fields", "dripped", "no-done", "no-blank"])
def test_a_stream_is_read_to_its_end(llm, world, model):
    responses = list(llm(model).stream_chat(QUESTION))
    assert "".join(response.delta for response in responses) == world.sent(model)
    assert responses[-1].message.content == world.sent(model)


def test_a_stream_is_read_to_its_end_in_a_task(llm, world):
    async def run():
        stream = await llm("plain").astream_chat(QUESTION)
        return [response async for response in stream]

    responses = asyncio.run(run())
    assert responses[-1].message.content == world.sent("plain")


def test_a_tool_is_called(llm):
    tool = FunctionTool.from_defaults(weather)
    client = llm("plain", additional_kwargs={"extra_body": {"x_tool": True}})
    response = client.chat_with_tools([tool], user_msg="How is the weather?")
    [call] = client.get_tool_calls_from_response(response)
    assert call.tool_name == "weather"
    assert tool(**call.tool_kwargs).content.startswith("sunny in")


def test_a_tool_is_called_in_a_stream(llm):
    tool = FunctionTool.from_defaults(weather)
    client = llm("plain", additional_kwargs={"extra_body": {"x_tool": True}})
    *_, last = client.stream_chat_with_tools([tool], user_msg="How is the weather?")
    [call] = client.get_tool_calls_from_response(last)
    assert call.tool_name == "weather"
    assert isinstance(call.tool_kwargs["city"], str)


def test_structured_output_fulfils_its_schema(llm):
    structured = llm("plain", should_use_structured_outputs=True).as_structured_llm(Forecast)
    assert structured.complete("How will it be?").raw.high == 1.5


def test_a_stream_that_breaks_raises_after_what_came_before(llm, world):
    text = ""
    with pytest.raises(openai.APIError) as raised:
        for response in llm("broken-midway").stream_chat(QUESTION):
            text += response.delta
    assert raised.value.code == "upstream_stream_interrupted"
    assert text == world.sent("broken-midway")


def test_an_error_has_its_class_and_is_asked_for_once(llm, world):
    world.lines()
    with pytest.raises(openai.BadRequestError):
        llm("status-400").chat(QUESTION)
    assert len(world.lines()) == 1
