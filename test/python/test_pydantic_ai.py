"""pydantic-ai as its users begin with it: the provider's name before the model's, and the address and the key in the environment."""

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIResponsesModel

TEXT = "It is sunny."


class Forecast(BaseModel):
    """How the weather will be."""

    city: str
    high: float


@pytest.fixture(params=["openai", "openai-chat", "anthropic", "google"])
def model(request, world, monkeypatch):
    origin = world.url.removesuffix("/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", world.url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", origin)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", origin)
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"]:
        monkeypatch.setenv(name, world.key)
    return f"{request.param}:sensible"


def with_weather(agent, cities):
    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather of a city."""
        cities.append(city)
        return "sunny"

    return agent


def test_the_default_of_openai_is_the_responses_api(world, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", world.key)
    assert isinstance(infer_model("openai:sensible"), OpenAIResponsesModel)


def test_an_agent_answers_with_usage(model):
    result = Agent(model, instructions="Be brief.").run_sync("How is the weather?")
    usage = result.usage() if callable(result.usage) else result.usage
    assert result.output == TEXT
    assert (usage.input_tokens, usage.output_tokens) == (1000, 20)


def test_an_agent_streams_its_answer(model):
    async def run():
        async with Agent(model).run_stream("How is the weather?") as result:
            return [text async for text in result.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(run())
    assert "".join(pieces) == TEXT
    assert len(pieces) > 1


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_calls_its_tool_and_answers(model, streamed):
    cities = []
    agent = with_weather(Agent(model), cities)

    async def run():
        if not streamed:
            return (await agent.run("How is the weather?")).output
        async with agent.run_stream("How is the weather?") as result:
            return await result.get_output()

    assert asyncio.run(run()) == TEXT
    assert cities == ["Bern"]


@pytest.mark.parametrize("output_type", [Forecast, NativeOutput(Forecast)])
def test_an_output_fulfils_its_type(model, output_type):
    if model.startswith("anthropic:") and output_type is not Forecast:
        pytest.skip("pydantic-ai knows by their names which models of Anthropic can do this")
    assert Agent(model, output_type=output_type).run_sync("How will it be?").output == Forecast(city="Bern", high=1.5)


def test_an_output_has_its_type_after_a_tool_was_called(model):
    cities = []
    agent = with_weather(Agent(model, output_type=Forecast), cities)
    assert agent.run_sync("How will it be?").output == Forecast(city="Bern", high=1.5)
    assert cities == ["Bern"]


def test_a_conversation_goes_on(model):
    cities = []
    agent = with_weather(Agent(model), cities)
    first = agent.run_sync("How is the weather?")
    second = agent.run_sync("And now?", message_history=first.all_messages())
    assert second.output == TEXT
    assert cities == ["Bern", "Bern"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_thinks_calls_its_tool_and_goes_on(model, streamed):
    cities = []
    agent = with_weather(Agent(model.replace(":sensible", ":thinking")), cities)

    async def run(question, history=None):
        if not streamed:
            result = await agent.run(question, message_history=history)
            return result.output, result.all_messages()
        async with agent.run_stream(question, message_history=history) as result:
            return await result.get_output(), result.all_messages()

    async def conversation():
        first, messages = await run("How is the weather?")
        second, _ = await run("And now?", messages)
        return first, second

    assert asyncio.run(conversation()) == (TEXT, TEXT)
    assert cities == ["Bern", "Bern"]
