"""LangChain's own tests of chat models, for its models of two vendors. The upstream does what is asked of it."""

import os

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

URL = os.environ["SLUICE_URL"]
KEY = os.environ["SLUICE_KEY"]


class TestChatOpenAI(ChatModelIntegrationTests):
    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return {"model": "sensible", "api_key": KEY, "base_url": URL, "stream_usage": True}


class TestChatOpenAIWithTheResponsesApi(TestChatOpenAI):
    @property
    def chat_model_params(self):
        return {"model": "sensible", "api_key": KEY, "base_url": URL, "use_responses_api": True}


class TestChatAnthropic(ChatModelIntegrationTests):
    @property
    def chat_model_class(self):
        return ChatAnthropic

    @property
    def chat_model_params(self):
        return {"model": "sensible", "api_key": KEY, "base_url": URL.removesuffix("/v1")}

    @property
    def supports_anthropic_inputs(self):
        return True
